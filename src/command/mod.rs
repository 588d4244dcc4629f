//! The commands: one file each (siblings share one), named as on the wire, and one sorted table that everything
//! derives from.
//!
//! [`Commands`] implements the seam to the sockets. It finds the command by the first field of the request, sorts the
//! generic arguments from the command's own in one pass, and runs it with a [`Call`]. A command is a plain function
//! that writes the fields of its reply, or returns a [`Task`] if it may run long; an `Err` becomes mongod's error
//! reply. Dispatch, listCommands, metrics and the README's table come from [`COMMANDS`], which lists MongoDB's whole vocabulary;
//! what is not built is refused by name. To add a command: write its file, and add its `mod` line, its row and its case.

mod about;
mod aggregate;

mod build_info;
mod bulk_write;
mod coll_mod;
mod coll_stats;
mod cosmos;
mod count;
mod create;
mod create_indexes;
mod current_op;
mod data_size;
mod delete;
mod distinct;
mod drop;
mod drop_indexes;
mod explain;
mod fail_point;
mod find;
mod find_and_modify;
mod frame;
mod get_more;
mod get_parameter;
mod hello;
mod host_info;
mod insert;
mod kill_cursors;
mod list_collections;
mod list_databases;
mod list_indexes;
mod login;
mod ping;
mod profile;
mod rename_collection;
mod server_status;
mod sessions;
mod table;
#[cfg(test)]
mod tests;
mod time_travel;
mod tools;
mod transaction;
mod update;
mod users;
mod validate;
mod validate_db_metadata;
mod write;

pub use fail_point::FailPoints;
pub use frame::{
    Access, Call, Client, Command, CommandFacts, Commands, Connection, Context, Counter, Counters,
    Documents, Flags, Needs, OperationInfo, Operations, Outcome, PARAMETERS, Parameter, Parameters,
    Run, Step, Task, find,
};
pub use frame::{cursor, reply};
pub use table::COMMANDS;

use frame::{
    capped, collection_uuid, commit_quorum, dispatch, entry, generic, guard, index_spec,
    indexing_policy, operations, parameters, record_ids, rows, scan, schema, stream, system,
    system_collections,
};
