//! Moves `$skip`, `$limit` and `$sample` towards the source: fewer rows are worked on.

use crate::error::Result;
use crate::query::stage::facts::Mover;
use crate::query::stage::{PipelineStep, Stage};

/// A stage that makes one row of each row need not see the rows that a stage behind it drops by their number.
#[expect(clippy::ptr_arg, reason = "all rules have one type")]
pub(super) fn limit_forward(steps: &mut Vec<PipelineStep>, at: usize) -> Result<bool> {
    let [stage, next, ..] = &steps[at..] else {
        return Ok(false);
    };
    let limits = match &next.stage {
        Stage::Skip(_) | Stage::Limit(_) => true,
        Stage::StageOp(op) => op.limits_rows(),
        Stage::Match(_) | Stage::Sort(..) => false,
    };
    let moves = limits && overtaken(stage);
    if moves {
        steps.swap(at, at + 1);
    }
    Ok(moves)
}

fn overtaken(stage: &PipelineStep) -> bool {
    stage.row.facts.overtaken_by.contains(&Mover::Limit)
}

/// If `$unwind` makes at least one row of each row, a `$limit` behind it also limits the rows before it.
pub(super) fn limit_before_unwind(steps: &mut Vec<PipelineStep>, at: usize) -> Result<bool> {
    let [unwind, next, ..] = &steps[at..] else {
        return Ok(false);
    };
    let (Stage::StageOp(op), Stage::Limit(limit)) = (&unwind.stage, &next.stage) else {
        return Ok(false);
    };
    let limit = *limit;
    if !op.keeps_every_row() || is_limited(&steps[..at], limit) {
        return Ok(false);
    }
    steps.insert(at, PipelineStep::made(Stage::Limit(limit)));
    Ok(true)
}

/// Returns whether at most so many rows leave these steps. The limit may have moved on towards the source, and has grown
/// where it moved before a `$skip`.
fn is_limited(before: &[PipelineStep], mut most: u64) -> bool {
    for step in before.iter().rev() {
        match &step.stage {
            Stage::Limit(limit) | Stage::Sort(_, Some(limit)) => return *limit <= most,
            Stage::Skip(count) => most = most.saturating_add(*count),
            _ if overtaken(step) => {}
            _ => return false,
        }
    }
    false
}
