//! `--strict cosmos`: what the service refuses, with its codes and, where they are known, its words.
//!
//! One table of [rules](RULES), so that a team sees on its own machine what would break in Azure. The commands ask
//! before they begin. Only the size of documents is checked where they are stored: before, it is not known how large an update
//! makes one.

mod index;
mod lookup;
mod rules;
mod sort;

use crate::error::{Error, Result};
use crate::value::{Type, ValueRef, is_true};

pub use index::check_index;
pub use lookup::check_lookup;
pub use rules::{RULES, Rule};
pub use sort::{check_lone_sort, check_sort};

/// The largest document that it stores.
pub const MAX_DOCUMENT: usize = 2 * 1024 * 1024;

/// Commands that the service has not, or that are newer than it is, by their names.
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

/// A write that could be repeated is refused, whether it is or not.
pub fn retryable() -> Error {
    rules::RETRYABLE.error()
}

/// What is said of a document that is larger than [`MAX_DOCUMENT`].
pub fn too_large() -> Error {
    rules::SIZE.error()
}

/// A flag may be a number.
fn is_on(flag: ValueRef<'_>) -> bool {
    (flag.ty() == Type::Bool || flag.ty().is_number()) && is_true(flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_commands_are_refused() {
        assert!(COMMANDS.is_sorted());
        let refusal = check_command("collMod").unwrap_err();
        assert_eq!(refusal.code().number(), 115);
        assert_eq!(refusal.message(), "Command collMod not supported.");
        assert!(check_command("find").is_ok());
    }
}
