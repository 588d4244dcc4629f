//! `$skip`: drops the first rows.

use super::number::non_negative;
use super::{Flow, RowBatch, RowContext, Rows, Stage, StageContext};
use crate::error::{Error, Result};
use crate::value::ValueRef;

struct Skip {
    input: Box<dyn Rows>,
    left: u64,
    batch: RowBatch,
}

/// Returns `input` without its first `count` rows.
pub fn rows(input: Box<dyn Rows>, count: u64) -> Box<dyn Rows> {
    if count == 0 {
        return input;
    }
    Box::new(Skip {
        input,
        left: count,
        batch: RowBatch::new(),
    })
}

pub(super) fn parse(
    value: ValueRef<'_>,
    _: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let count = non_negative(value, "$skip").map_err(|why| {
        Error::location(5107200, format!("invalid argument to $skip stage: {why}"))
    })?;
    push(Stage::Skip(count));
    Ok(())
}

// === impl Skip ===

impl Rows for Skip {
    fn fill(&mut self, cx: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
        while self.left > 0 {
            self.batch.restart(usize::MAX);
            let flow = self.input.fill(cx, &mut self.batch)?;
            let dropped = (self.batch.len() as u64).min(self.left);
            self.left -= dropped;
            for row in self.batch.iter_from(dropped as usize) {
                out.push(row.doc, row.origin);
            }
            if flow != Flow::More || !out.is_empty() && self.left == 0 {
                return Ok(flow);
            }
            if cx.out_of_time() {
                return Ok(Flow::Pause);
            }
        }
        self.input.fill(cx, out)
    }

    fn suspend(&mut self) -> usize {
        self.batch.suspend() + self.input.suspend()
    }
}
