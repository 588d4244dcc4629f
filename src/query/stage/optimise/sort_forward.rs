//! Moves `$sort` before `$lookup` and `$unwind`: it sorts fewer or smaller rows, and an index may have their order.

use crate::error::Result;
use crate::query::stage::facts::Mover;
use crate::query::stage::{PipelineStep, Stage};
use crate::query::{PathOrigin, of_read_path};

pub(super) fn sort_forward(steps: &mut Vec<PipelineStep>, at: usize) -> Result<bool> {
    let [stage, next, ..] = &mut steps[at..] else {
        return Ok(false);
    };
    let (Stage::StageOp(op), Stage::Sort(sort, limit)) = (&stage.stage, &mut next.stage) else {
        return Ok(false);
    };
    let overtaken_by = stage.row.facts.overtaken_by;
    let same = |path| of_read_path(path, &|path| op.origin(path)) == PathOrigin::Same;
    if !overtaken_by.contains(&Mover::Sort) || !sort.parts().all(|(path, _)| same(path)) {
        return Ok(false);
    }
    // The limit is one of the rows behind the stage.
    let behind = match overtaken_by.contains(&Mover::Limit) {
        true => None,
        false => limit.take(),
    };
    steps.swap(at, at + 1);
    if let Some(limit) = behind {
        steps.insert(at + 2, PipelineStep::made(Stage::Limit(limit)));
    }
    Ok(true)
}
