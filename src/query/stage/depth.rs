//! The nesting limit of rows: MongoDB's 200 levels.
//!
//! A stage can nest its whole input a few levels deeper (`{$set: {a: {b: "$$ROOT"}}}`), and a thousand stages can do so in
//! sequence. All code that recurses over documents relies on the limit.
//!
//! Checking every row after every stage would cost more than most stages do. But a stage adds at most one level more than
//! its own specification has, and a stored document leaves room for twenty levels. So a pipeline is checked only if it may
//! exceed that.

use super::{Flow, Row, RowBatch, RowContext, Rows};
use crate::error::Result;
use crate::query::expr::{MAX_DEPTH, check_depth, nesting};
use crate::value::ValueRef;

/// The levels that a stored document leaves free: its own limit is 180.
const ROOM: usize = 20;
/// The number of levels that stages may add before the next check. Recursion over that many more levels is safe.
const UNSEEN: usize = 100;

/// A count of the levels by which rows can be deeper than the input rows.
#[derive(Default)]
pub(super) struct Depth {
    added: usize,
    since_check: usize,
}

struct DepthCheckedRows(Box<dyn Rows>);

/// Returns how many levels a stage can add.
pub(super) fn levels(spec: ValueRef<'_>) -> usize {
    1 + nesting(spec, MAX_DEPTH)
}

// === impl Depth ===

impl Depth {
    /// Accounts for a stage that can add this many levels, and checks its output if needed.
    pub fn check_after(&mut self, levels: usize, rows: Box<dyn Rows>) -> Box<dyn Rows> {
        self.added += levels;
        self.since_check += levels;
        if self.since_check <= UNSEEN {
            return rows;
        }
        self.since_check = 0;
        Box::new(DepthCheckedRows(rows))
    }

    /// Checks the output of the last stage if needed.
    pub fn at_end(self, rows: Box<dyn Rows>) -> Box<dyn Rows> {
        if self.since_check == 0 || self.added <= ROOM {
            return rows;
        }
        Box::new(DepthCheckedRows(rows))
    }
}

// === impl DepthCheckedRows ===

impl Rows for DepthCheckedRows {
    fn fill(&mut self, cx: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
        let first = out.len();
        let flow = self.0.fill(cx, out)?;
        let too_deep = |row: Row<'_>| check_depth(ValueRef::document(row.doc)).is_err();
        let found = out.iter_from(first).position(too_deep);
        let Some(at) = found else {
            return Ok(flow);
        };
        // No later stage sees the row that is too deep.
        let failure = out
            .get(first + at)
            .map_or(Ok(()), |row| check_depth(ValueRef::document(row.doc)));
        out.truncate(first + at);
        failure.map(|()| flow)
    }

    fn suspend(&mut self) -> usize {
        self.0.suspend()
    }
}
