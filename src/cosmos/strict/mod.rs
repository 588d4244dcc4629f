//! `--strict cosmos`: refuses what the service refuses, with its codes and, if they are known, its messages.
//!
//! There is one table of [rules](RULES), so that a team sees on its own machine what would fail in Azure. A command calls
//! the checks before it starts. Only the size of documents is checked when they are stored, because the size after an
//! update is not known earlier. This module knows no collection: callers pass specifications and index keys.

mod index;
mod lookup;
mod rules;
mod sort;

use crate::error::{Error, Result};
use crate::value::{Type, ValueRef, is_true};

pub use index::check_index;
pub use lookup::check_lookup;
pub use rules::{RULES, StrictRule};
pub use sort::{check_lone_sort, check_sort};

/// The largest document that the service stores.
pub const MAX_DOCUMENT: usize = 2 * 1024 * 1024;

/// Commands that the service does not have, or that are newer than the service.
const COMMANDS: &[&str] = &[
    "bulkWrite",
    "collMod",
    "connPoolStats",
    "convertToCapped",
    "dataSize",
    "dbHash",
    "killOp",
    "mapReduce",
    "profile",
    "renameCollection",
    "top",
];

pub fn check_command(name: &str) -> Result<()> {
    match COMMANDS.contains(&name) {
        true => Err(rules::COMMAND.about(name)),
        false => Ok(()),
    }
}

/// The error for a retryable write, whether it is a retry or not.
pub fn retryable() -> Error {
    rules::RETRYABLE.error()
}

/// The error for a document larger than [`MAX_DOCUMENT`].
pub fn too_large() -> Error {
    rules::SIZE.error()
}

/// Returns whether a flag is set. It may be a number.
fn is_on(flag: ValueRef<'_>) -> bool {
    (flag.ty() == Type::Bool || flag.ty().is_number()) && is_true(flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_strict_mode_refuses() {
        assert!(COMMANDS.is_sorted());
        let refusal = check_command("collMod").unwrap_err();
        assert_eq!(refusal.code().number(), 115);
        assert_eq!(refusal.message(), "Command collMod not supported.");
        assert!(check_command("find").is_ok());
    }
}
