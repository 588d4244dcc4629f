//! The commands: one file per command (closely related commands share one), named as on the wire, and one sorted table.
//!
//! [`Commands`] implements the handler trait, which connections call. It looks up the first field of the request in
//! [`COMMANDS`], separates the generic arguments from the command's own in one pass, and runs the command with a
//! [`Call`]. A command is a plain function. It writes the fields of its reply, or returns a [`Task`] if it may run long.
//! An `Err` becomes mongod's error reply.
//!
//! [`COMMANDS`] lists MongoDB's whole vocabulary; a command that is not built is refused by name. Dispatch, listCommands,
//! metrics and the README's table come from it. To add a command, write its file and add its `mod` line, its row and its
//! case. Commands know no socket, and reach storage only through `engine`.

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
mod server_lists;
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
    Access, Announced, AnnouncedCluster, Call, Client, Command, CommandFacts, Commands, Connection,
    Context, Counter, Counters, DocumentList, Flags, Needs, OperationInfo, Operations, Outcome,
    PARAMETERS, Parameter, Parameters, Route, Run, Step, Task, UpdateForms, find,
};
pub use frame::{cursor, reply};
pub use table::COMMANDS;

use frame::{
    capped, collation, collection_uuid, commit_quorum, dispatch, entry, generic, guard, index_spec,
    operations, parameters, record_ids, route, rows, scan, schema, stable_api, stream, system,
    system_collections, watch,
};
