//! The optimiser: rewrites a parsed pipeline into one that gives the same rows for less work.
//!
//! Each rule of [`RULES`] looks at a stage and the one behind it. The driver applies the first rule that fits, steps back
//! one stage, and goes on until no rule fits anywhere. What a rule must know about a stage is in the row of the stage
//! ([`StageFacts`](super::StageFacts)) or is a method of [`StageOp`](super::StageOp), so a new stage needs no change here.
//!
//! The rules are MongoDB's, because clients see them: a `$match` that has moved before a division keeps it from failing.
//! Sundown differs where MongoDB's rewriting changes the answer (`match_forward.rs` tells where). MongoDB computes fields
//! that nobody reads, and so does Sundown.

mod alike;
mod match_forward;
mod row_limits;
mod sort_forward;

use super::PipelineStep;
use crate::error::Result;
use crate::interrupt;

/// A rule looks at the steps from a position on. It returns whether it has changed something.
type Rule = fn(&mut Vec<PipelineStep>, usize) -> Result<bool>;

/// The rules, in the order in which they are tried.
const RULES: &[Rule] = &[
    alike::drop_idle,
    match_forward::match_forward,
    row_limits::limit_forward,
    row_limits::limit_before_unwind,
    alike::join_matches,
    alike::join_limits,
    alike::join_skips,
    alike::limit_before_skip,
    alike::sort_with_limit,
    alike::last_sort,
    sort_forward::sort_forward,
];

/// Applies the rules until none fits. Every rule brings a stage nearer to the source or joins two, so this comes to an end.
pub(super) fn optimise(steps: &mut Vec<PipelineStep>) -> Result<()> {
    // Each stage passes every other one a few times at most.
    let enough = 16 * (steps.len() + 1).pow(2);
    let mut applied = 0;
    let mut at = 0;
    while at < steps.len() {
        interrupt::tick(1)?;
        match apply(steps, at)? {
            true => {
                at = at.saturating_sub(1);
                applied += 1;
                debug_assert!(applied < enough, "two rules undo each other's work");
            }
            false => at += 1,
        }
    }
    Ok(())
}

fn apply(steps: &mut Vec<PipelineStep>, at: usize) -> Result<bool> {
    for rule in RULES {
        if rule(steps, at)? {
            return Ok(true);
        }
    }
    Ok(false)
}
