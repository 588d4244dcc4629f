//! Known differences and their reasons. Every other difference is a fault.
//!
//! A row is either a difference of version, with the source for the behaviour of 8.2 (`.cpp`, `.idl`: the source of 8.2.4),
//! or a fault that is known and not fixed yet. Whoever fixes it removes its row. A row must not accept more than its reason
//! explains. Error codes of MongoDB contain the number of the ticket that added them: 7548606 is from SERVER-75486.

mod codes;
mod faults;
mod versions;

use crate::difference::{Difference, What};
use crate::witness::Witness;

use codes::{BY_SLOTS, CODES};
use faults::FAULTS;
use versions::VERSIONS;

/// A difference with one cause.
struct Known {
    reason: &'static str,
    is: fn(&Difference, &mut Witness<'_>) -> bool,
}

pub fn reason(found: &Difference, witness: &mut Witness<'_>) -> Option<&'static str> {
    let code = CODES.iter().find(|row| found.codes() == (row.0, row.1));
    let code = code.filter(|row| {
        found.what == What::Reply && (!BY_SLOTS.contains(&row.1) || found.groups_first())
    });
    // A difference of version needs no witness, and is no fault.
    let mut known = VERSIONS.iter().chain(FAULTS);
    code.map(|row| row.2).or_else(|| {
        let known = known.find(|known| (known.is)(found, witness));
        known.map(|known| known.reason)
    })
}

/// Returns all reasons, to report those that never occurred.
pub fn reasons() -> impl Iterator<Item = &'static str> {
    let codes = CODES.iter().map(|row| row.2);
    let known = VERSIONS.iter().chain(FAULTS);
    codes.chain(known.map(|known| known.reason))
}

/// Returns true if mongod's code is the 6.0 form of Sundown's.
pub fn same_code(theirs: i32, ours: i32) -> bool {
    theirs == ours || CODES.iter().any(|row| (theirs, ours) == (row.0, row.1))
}
