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
mod system_collections;

mod build_info;
mod bulk_write;
mod call;
mod capped;
#[cfg(test)]
mod check;
mod client;
mod coll_mod;
mod coll_stats;
mod collection_uuid;
mod commit_quorum;
mod concern;
mod context;
mod cosmos;
mod count;
mod counters;
mod create;
mod create_indexes;
mod current_op;
pub mod cursor;
mod data_size;
#[cfg(test)]
mod default_ttl_tests;
mod delete;
mod dispatch;
mod distinct;
mod drop;
mod drop_indexes;
mod entry;
mod explain;
mod fail_point;
mod find;
mod find_and_modify;
mod generic;
mod get_more;
mod get_parameter;
mod guard;
mod hello;
mod host_info;
mod index_spec;
mod indexing_policy;
mod insert;
mod kill_cursors;
mod list_collections;
mod list_databases;
mod list_indexes;
mod login;
mod operations;
mod parameters;
mod ping;
mod profile;
mod read_preference;
mod record_ids;
mod rename_collection;
pub mod reply;
#[cfg(test)]
mod rights;
mod rows;
mod scan;
mod schema;
mod server_status;
mod sessions;
mod stream;
mod system;
mod table;
mod task;
mod time_travel;
mod tools;
mod transaction;
mod update;
mod users;
mod validate;
mod validate_db_metadata;
mod write;

pub use call::{Call, Documents};
pub use client::{Client, Connection};
pub use context::Context;
pub use counters::{Counter, Counters};
pub use dispatch::{Commands, find};
pub use entry::{Access, Command, CommandFacts, Flags, Outcome, Run};
pub use fail_point::FailPoints;
pub use guard::Needs;
pub use operations::{OperationInfo, Operations};
pub use parameters::{PARAMETERS, Parameter, Parameters};
pub use table::COMMANDS;
pub use task::{Step, Task};
