//! A bound on the work that one expression does over one document.
//!
//! Loops within loops (`$reduce` in `$reduce`) can ask for years of work in a few bytes, and others wait for what
//! happens between two documents. So work is counted in units of about a pass of a loop or 256 bytes built: now and
//! then it steps [aside], and it ends with an error far beyond what a sane expression needs. What is
//! built is counted in bytes as well: each value is bounded by the size of a document, but a short text can ask for
//! hundreds of them at a time. MongoDB has no such bounds.

use std::cell::Cell;

use crate::aside;
use crate::error::{Code, Error, Result};

/// Some seconds (a test build is slower).
const PER_DOCUMENT: u64 = if cfg!(test) { 200_000 } else { 20_000_000 };
/// What may be built for one document, most of which is dropped again on the way.
const BYTES_PER_DOCUMENT: u64 = if cfg!(test) { 16 << 20 } else { 1 << 30 };
/// Constants are folded while a message is parsed: only what costs about as much as reading it.
const PER_FOLD: u64 = 200;

/// Bytes that count as one step where they are built, and where they are only read.
const UNIT: usize = 256;
const READ_UNIT: usize = if cfg!(test) { 256 } else { 4096 };

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(0) };
    static BYTES_LEFT: Cell<u64> = const { Cell::new(0) };
}

/// Begins the count for a document.
#[inline]
pub fn fill() {
    LEFT.set(PER_DOCUMENT);
    BYTES_LEFT.set(BYTES_PER_DOCUMENT);
}

pub fn fill_for_folding() {
    LEFT.set(PER_FOLD);
    BYTES_LEFT.set(BYTES_PER_DOCUMENT);
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
    aside::tick(u32::try_from(units).unwrap_or(u32::MAX))
}

/// For a value of this many bytes.
#[inline]
pub fn spend_bytes(bytes: usize) -> Result<()> {
    if bytes < UNIT {
        return Ok(());
    }
    spend_large(bytes as u64)
}

/// For a value of this many bytes that is there already, and is about to be looked through.
#[inline]
pub fn spend_read(bytes: usize) -> Result<()> {
    if bytes < READ_UNIT {
        return Ok(());
    }
    spend((bytes / READ_UNIT) as u64)
}

fn spend_large(bytes: u64) -> Result<()> {
    let left = BYTES_LEFT.get().saturating_sub(bytes);
    BYTES_LEFT.set(left);
    if left == 0 {
        return Err(Error::new(
            Code::ExceededMemoryLimit,
            "the expression builds more for one document than Sundown allows",
        ));
    }
    spend(bytes / UNIT as u64)
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
    fn looking_through_a_large_array_again_and_again_ends() {
        let expr = bson!({"$let": {"vars": {"all": {"$range": [0, 500_000]}}, "in": {
            "$size": {"$map": {"input": "$$all", "in": {"$in": [-1, "$$all"]}}}
        }}});
        check::errors(&[(expr, 50)]);
    }

    #[test]
    fn many_large_values_at_a_time_are_refused() {
        let large = bson!({"$range": [0, 300_000]});
        let vars: bson::Document = (0..6).map(|n| (format!("v{n}"), large.clone())).collect();
        check::errors(&[(bson!({"$let": {"vars": vars, "in": 1}}), 146)]);
    }

    #[test]
    fn what_grows_is_not_folded() {
        // A few bytes that would be megabytes as constants.
        check::values(&[(bson!({"$size": {"$range": [0, 500_000]}}), bson!(500_000))]);
    }
}
