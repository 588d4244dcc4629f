//! How deep rows may nest: MongoDB's 200 levels. A stage can put its whole input a few levels down
//! (`{$set: {a: {b: "$$ROOT"}}}`), and a thousand stages can do that one behind the other; whatever reads documents
//! level by level relies on the bound.
//!
//! To walk through every row behind every stage would cost more than most stages do. But a stage adds no more levels
//! than its own specification has (and one), and a stored document leaves room for twenty: a pipeline is only looked at
//! where that may not suffice.

use super::{Batch, Cx, Flow, Rows};
use crate::error::Result;
use crate::query::expr::{MAX_DEPTH, check_depth, nesting};
use crate::value::ValueRef;

/// What a stored document leaves free: its own bound is 180.
const ROOM: usize = 20;
/// How many levels may be added unseen: nobody has to be afraid of so many more.
const UNSEEN: usize = 100;

/// How much deeper rows can be than those that came in.
#[derive(Default)]
pub(super) struct Depth {
    added: usize,
    since_check: usize,
}

struct Checked(Box<dyn Rows>);

/// How many levels a stage can add.
pub(super) fn levels(spec: ValueRef<'_>) -> usize {
    1 + nesting(spec, MAX_DEPTH)
}

// === impl Depth ===

impl Depth {
    /// Behind a stage that can add so many levels.
    pub fn behind(&mut self, levels: usize, rows: Box<dyn Rows>) -> Box<dyn Rows> {
        self.added += levels;
        self.since_check += levels;
        if self.since_check <= UNSEEN {
            return rows;
        }
        self.since_check = 0;
        Box::new(Checked(rows))
    }

    /// Behind the last stage.
    pub fn at_end(self, rows: Box<dyn Rows>) -> Box<dyn Rows> {
        if self.since_check == 0 || self.added <= ROOM {
            return rows;
        }
        Box::new(Checked(rows))
    }
}

// === impl Checked ===

impl Rows for Checked {
    fn fill(&mut self, cx: &mut Cx<'_>, out: &mut Batch) -> Result<Flow> {
        let first = out.len();
        let flow = self.0.fill(cx, out)?;
        for row in out.iter_from(first) {
            check_depth(ValueRef::document(row.doc))?;
        }
        Ok(flow)
    }

    fn at_rest(&mut self) -> usize {
        self.0.at_rest()
    }
}
