//! The commands: one file each, named as on the wire, and one sorted table that everything derives from.
//!
//! [`Commands`] implements the seam to the sockets. It finds the command by the first field of the request, sorts the
//! generic arguments from the command's own in one pass, and runs it with a [`Call`]. A command is a plain function that writes the
//! fields of its reply, or returns a [`Task`] if it may run long; an `Err` becomes mongod's error reply. Dispatch,
//! listCommands, metrics and the README's table come from [`COMMANDS`]. A command that MongoDB has and Sundown has not
//! stands there too, and is refused by name.

pub mod args;
mod build_info;
mod call;
mod client;
mod concern;
mod context;
mod counters;
mod dispatch;
mod entry;
mod generic;
mod hello;
mod operations;
mod parameters;
mod ping;
pub mod reply;
mod task;

pub use call::{Call, Documents, check_collection, check_database};
pub use client::{Client, Connection};
pub use context::Context;
pub use counters::{Counted, Counters};
pub use dispatch::{Commands, find};
pub use entry::{Access, Command, Flags, Outcome, Run, Status};
pub use operations::{OperationInfo, Operations};
pub use parameters::Parameters;
pub use task::{Step, Task};

/// Every command, sorted by name.
pub static COMMANDS: &[Command] = &[
    build_info::COMMAND,
    hello::COMMAND,
    hello::IS_MASTER,
    ping::COMMAND,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_no_name_stands_twice() {
        for pair in COMMANDS.windows(2) {
            assert!(
                pair[0].name < pair[1].name,
                "{} before {}",
                pair[0].name,
                pair[1].name
            );
        }
        let mut names: Vec<_> = COMMANDS.iter().flat_map(Command::names).collect();
        names.sort_unstable();
        for pair in names.windows(2) {
            assert_ne!(pair[0], pair[1]);
        }
    }
}
