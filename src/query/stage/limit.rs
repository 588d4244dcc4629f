//! `$limit`: passes a maximum number of rows.

use super::number::non_negative;
use super::{Flow, RowBatch, RowContext, Rows, Stage, StageContext};
use crate::error::{Error, Result};
use crate::value::ValueRef;

struct LimitRows {
    input: Box<dyn Rows>,
    left: u64,
}

/// Returns at most `count` rows of `input`.
pub fn rows(input: Box<dyn Rows>, count: u64) -> Box<dyn Rows> {
    Box::new(LimitRows { input, left: count })
}

pub(super) fn parse(
    value: ValueRef<'_>,
    _: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let count = non_negative(value, "$limit").map_err(|why| {
        Error::location(5107201, format!("invalid argument to $limit stage: {why}"))
    })?;
    if count == 0 {
        return Err(Error::location(15958, "the limit must be positive"));
    }
    push(Stage::Limit(count));
    Ok(())
}

// === impl LimitRows ===

impl Rows for LimitRows {
    fn fill(&mut self, cx: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
        if self.left == 0 {
            return Ok(Flow::End);
        }
        let before = out.len();
        // The input is asked only for the rows that are needed, so a limit of 1 reads one document.
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX);
        let target = out.set_target(0);
        out.set_target(target.min(before.saturating_add(wanted)));
        let flow = self.input.fill(cx, out);
        out.set_target(target);
        let flow = flow?;
        out.truncate(before.saturating_add(wanted));
        self.left -= (out.len() - before) as u64;
        Ok(if self.left == 0 { Flow::End } else { flow })
    }

    fn suspend(&mut self) -> usize {
        self.input.suspend()
    }
}
