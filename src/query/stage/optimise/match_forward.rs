//! Moves `$match` towards the source: rows that fail it are not worked on, and at the source it can use an index.
//!
//! A condition moves before a stage if it reads nothing that the stage changes. A field that is only a copy of another one
//! (`{$set: {z: "$a"}}`, the key of a `$group`) is read under its old name.
//!
//! MongoDB also renames below the root (`{$set: {"s.x": "$a"}}`), which is wrong if `s` is an empty array, moves conditions
//! on `s.y` that accept a missing value, and moves `$type` and `$expr` before a `$group` that makes null of missing keys.
//! Sundown leaves those where they are.

use std::sync::Arc;

use super::alike::take;
use crate::error::Result;
use crate::query::stage::facts::Mover;
use crate::query::stage::{PipelineStep, Stage};

pub(super) fn match_forward(steps: &mut Vec<PipelineStep>, at: usize) -> Result<bool> {
    let [stage, found, ..] = &mut steps[at..] else {
        return Ok(false);
    };
    let Stage::Match(filter) = &mut found.stage else {
        return Ok(false);
    };
    if !stage.row.facts.overtaken_by.contains(&Mover::Match) {
        return Ok(false);
    }
    match &stage.stage {
        // A sort passes whole rows. If it keeps only the first ones, it must see all.
        Stage::Sort(_, None) => steps.swap(at, at + 1),
        Stage::StageOp(op) => {
            if let Some(filtered) = op.with_match(filter)? {
                // The rows that the stage adds itself are filtered in the stage.
                stage.stage = Stage::StageOp(filtered);
                steps.swap(at, at + 1);
                return Ok(true);
            }
            let op = Arc::clone(op);
            let (before, behind) = take(filter).split(&|path| op.origin(path))?;
            let moved = before.is_some();
            let made = |filter| PipelineStep::made(Stage::Match(Arc::new(filter)));
            steps.splice(at + 1..at + 2, behind.map(made));
            steps.splice(at..at, before.map(made));
            return Ok(moved);
        }
        _ => return Ok(false),
    }
    Ok(true)
}
