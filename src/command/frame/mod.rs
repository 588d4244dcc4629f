//! The framework around the commands, and what several commands share.
//!
//! [`Commands`] implements the handler that the sockets call ([`dispatch`]). It finds the [`Command`] by the first field of
//! the request, separates the generic arguments ([`generic`]) from the command's own, checks the user's rights ([`guard`])
//! and runs the command with a [`Call`]. [`Context`] is the state that all commands share. The other files serve several
//! commands: replies with a cursor, rows and their sources, index specifications, concerns, parameters, the list of running
//! operations. The framework knows no socket, and commands only through their table.

pub(in crate::command) mod announced;
pub(in crate::command) mod call;
pub(in crate::command) mod capped;
pub(in crate::command) mod client;
pub(in crate::command) mod cluster_time;
pub(in crate::command) mod collation;
pub(in crate::command) mod collection_uuid;
pub(in crate::command) mod commit_quorum;
pub(in crate::command) mod concern;
pub(in crate::command) mod context;
pub(in crate::command) mod counters;
pub mod cursor;
pub(in crate::command) mod dispatch;
pub(in crate::command) mod entry;
pub(in crate::command) mod generic;
pub(in crate::command) mod guard;
pub(in crate::command) mod index_spec;
pub(in crate::command) mod operations;
pub(in crate::command) mod oplog;
pub(in crate::command) mod parameters;
pub(in crate::command) mod read_preference;
pub(in crate::command) mod record_ids;
pub(in crate::command) mod repeats;
pub mod reply;
pub(in crate::command) mod route;
pub(in crate::command) mod rows;
pub(in crate::command) mod scan;
pub(in crate::command) mod schema;
pub(in crate::command) mod stable_api;
pub(in crate::command) mod stream;
pub(in crate::command) mod system;
pub(in crate::command) mod system_collections;
pub(in crate::command) mod task;
pub(in crate::command) mod transaction;
pub(in crate::command) mod usage;
pub(in crate::command) mod watch;
pub(in crate::command) mod write_concern;

pub use announced::{Announced, AnnouncedCluster};
pub use call::{Call, DocumentList};
pub use client::{Client, Connection};
pub use context::Context;
pub use counters::{Counter, Counters, UpdateForms};
pub use dispatch::{Commands, find};
pub use entry::{Access, Command, CommandFacts, Flags, Outcome, Run};
pub use guard::Needs;
pub use operations::{OperationInfo, Operations};
pub use parameters::{PARAMETERS, Parameter, Parameters};
pub use route::Route;
pub use task::{Step, Task};
