//! Limits the work that one expression does for one document.
//!
//! Nested loops (`$reduce` in `$reduce`) can request years of work in a few bytes, and other tasks wait while one document is
//! evaluated. So work is counted in units of about one pass of a loop or 256 bytes built. Now and then the work steps aside ([`interrupt`]),
//! and it fails at a limit far above what a reasonable expression needs. Bytes that are built have their own limit: each value
//! is bounded by the size of a document, but a short expression can request hundreds of values at a time. MongoDB has no such
//! limits.

use std::cell::Cell;

use crate::error::{Code, Error, Result};
use crate::interrupt;

/// The units of work for one document: some seconds (a test build is slower).
const PER_DOCUMENT: u64 = if cfg!(test) { 200_000 } else { 20_000_000 };
/// The bytes that may be built for one document. Most of them are dropped again during the evaluation.
const BYTES_PER_DOCUMENT: u64 = if cfg!(test) { 16 << 20 } else { 1 << 30 };
/// The units of work for folding a constant. Folding happens while a message is parsed, so it must not cost much more than
/// parsing.
const PER_FOLD: u64 = 200;

/// The bytes that count as one unit when they are built, and when they are only read.
const UNIT: usize = 256;
const READ_UNIT: usize = if cfg!(test) { 256 } else { 4096 };

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(0) };
    static BYTES_LEFT: Cell<u64> = const { Cell::new(0) };
}

/// Resets the limits for a new document.
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
    interrupt::tick(u32::try_from(units).unwrap_or(u32::MAX))
}

/// Counts a value of this many bytes that was built.
#[inline]
pub fn spend_bytes(bytes: usize) -> Result<()> {
    if bytes < UNIT {
        return Ok(());
    }
    spend_large(bytes as u64)
}

/// Counts an existing value of this many bytes that is about to be read.
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
    fn nested_loops_end_at_the_limit() {
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
    fn repeated_searches_of_a_large_array_end_at_the_limit() {
        let expr = bson!({"$let": {"vars": {"all": {"$range": [0, 500_000]}}, "in": {
            "$size": {"$map": {"input": "$$all", "in": {"$in": [-1, "$$all"]}}}
        }}});
        check::errors(&[(expr, 50)]);
    }

    #[test]
    fn many_large_values_at_once_are_refused() {
        let large = bson!({"$range": [0, 300_000]});
        let vars: bson::Document = (0..6).map(|n| (format!("v{n}"), large.clone())).collect();
        check::errors(&[(bson!({"$let": {"vars": vars, "in": 1}}), 146)]);
    }

    #[test]
    fn growing_expressions_are_not_folded() {
        // A few bytes that would become megabytes as a constant are not folded.
        check::values(&[(bson!({"$size": {"$range": [0, 500_000]}}), bson!(500_000))]);
    }
}
