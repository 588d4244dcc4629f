//! A bound on the work that one expression does over one document.
//!
//! Loops within loops (`$reduce` in `$reduce`) can ask for years of work in a few bytes, and between documents alone a
//! command looks whether it was killed. So work is counted in units of about a pass of a loop or 256 bytes built, and ends with an
//! error far beyond what a sane expression needs. MongoDB has no such bound.

use std::cell::Cell;

use crate::error::{Code, Error, Result};

/// Some seconds (a test build is slower).
const PER_DOCUMENT: u64 = if cfg!(test) { 200_000 } else { 20_000_000 };
/// Constants are folded while a message is parsed: only what costs about as much as reading it.
const PER_FOLD: u64 = 200;

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// Begins the count for a document.
#[inline]
pub fn fill() {
    LEFT.set(PER_DOCUMENT);
}

pub fn fill_for_folding() {
    LEFT.set(PER_FOLD);
}

pub fn is_spent() -> bool {
    LEFT.get() == 0
}

#[inline]
pub fn spend(units: u64) -> Result<()> {
    let left = LEFT.get().saturating_sub(units);
    LEFT.set(left);
    if left == 0 {
        return Err(Error::new(
            Code::MaxTimeMSExpired,
            "the expression takes more steps for one document than Sundown allows",
        ));
    }
    Ok(())
}

/// For a value of this many bytes.
#[inline]
pub fn spend_bytes(bytes: usize) -> Result<()> {
    spend(bytes as u64 / 256)
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::bson;

    #[test]
    fn loops_in_loops_end() {
        let mut expr = bson!("$$this");
        for _ in 0..4 {
            expr = bson!({"$reduce": {
                "input": {"$range": [0, 100_000]}, "initialValue": 0, "in": {"$max": ["$$value", expr]}
            }});
        }
        let expr = bson!({"$map": {"input": [1], "in": expr}});
        check::errors(&[(expr, 50)]);
    }

    #[test]
    fn what_grows_is_not_folded() {
        // A few bytes that would be megabytes as constants.
        check::values(&[(bson!({"$size": {"$range": [0, 500_000]}}), bson!(500_000))]);
    }
}
