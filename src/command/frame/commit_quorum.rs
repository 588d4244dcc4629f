//! `commitQuorum` of createIndexes: how many members must be ready before an index can be used. Here there is one member.

use crate::args::{Arg, NUMBERS};
use crate::config::Topology;
use crate::error::{Code, Error, Result};
use crate::value::Type;

/// The most members that a replica set can have.
const MAX_MEMBERS: i64 = 50;

/// What a member of a replica set waits for unless the client says otherwise.
pub const DEFAULT: &str = "votingMembers";

/// Checks the value for itself. Returns how many members it asks for.
pub fn read(arg: Arg<'_>) -> Result<i64> {
    let members = match arg.value().as_str() {
        _ if arg.is_null() => 1,
        Some("") => {
            return Err(Error::failed_to_parse(
                "commitQuorum can't be an empty string",
            ));
        }
        Some(_) => 1,
        None if arg.value().ty().is_number() => arg.int()?.unwrap_or(0),
        None => {
            let types: Vec<_> = NUMBERS.iter().copied().chain([Type::String]).collect();
            return Err(arg.wrong_type(&types));
        }
    };
    match (0..=MAX_MEMBERS).contains(&members) {
        true => Ok(members),
        false => Err(Error::failed_to_parse(format!(
            "commitQuorum has to be a non-negative number and not greater than {MAX_MEMBERS}"
        ))),
    }
}

/// Checks whether there are so many members. MongoDB does that behind the specifications of the indexes.
pub fn check(topology: &Topology, arg: Arg<'_>) -> Result<()> {
    if arg.is_null() {
        return Ok(());
    }
    let members = read(arg)?;
    if *topology == Topology::Standalone {
        return Err(Error::bad_value("Standalones can't specify commitQuorum"));
    }
    match arg.value().as_str() {
        None | Some("majority" | DEFAULT) => {}
        Some(mode) => {
            return Err(Error::new(
                Code::UnknownReplWriteConcern,
                format!("No write concern mode named '{mode}' found in replica set configuration"),
            ));
        }
    }
    if members > 1 {
        return Err(Error::new(
            Code::UnsatisfiableCommitQuorum,
            "Not enough data-bearing nodes to satisfy commit quorum",
        ));
    }
    Ok(())
}
