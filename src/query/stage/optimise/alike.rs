//! Joins neighbours that can be one stage, and drops stages that do nothing.

use std::sync::Arc;

use crate::error::Result;
use crate::query::filter::Filter;
use crate::query::stage::{PipelineStep, Stage};

/// Drops `{$match: {}}` and `{$skip: 0}`.
pub(super) fn drop_idle(steps: &mut Vec<PipelineStep>, at: usize) -> Result<bool> {
    let idle = match &steps[at].stage {
        Stage::Match(filter) => filter.is_all(),
        Stage::Skip(count) => *count == 0,
        _ => false,
    };
    if idle {
        steps.remove(at);
    }
    Ok(idle)
}

/// Two `$match` become one, which can use an index for both.
pub(super) fn join_matches(steps: &mut Vec<PipelineStep>, at: usize) -> Result<bool> {
    let [first, second, ..] = &mut steps[at..] else {
        return Ok(false);
    };
    let (Stage::Match(filter), Stage::Match(next)) = (&mut first.stage, &mut second.stage) else {
        return Ok(false);
    };
    let joined = take(filter).and(take(next))?;
    steps[at] = PipelineStep::made(Stage::Match(Arc::new(joined)));
    steps.remove(at + 1);
    Ok(true)
}

/// Takes a filter that only the pipeline holds, or copies it.
pub(super) fn take(filter: &mut Arc<Filter>) -> Filter {
    Arc::unwrap_or_clone(std::mem::replace(filter, Arc::new(Filter::all())))
}

/// Of two `$limit` the smaller one counts.
pub(super) fn join_limits(steps: &mut Vec<PipelineStep>, at: usize) -> Result<bool> {
    let [first, second, ..] = &steps[at..] else {
        return Ok(false);
    };
    let (Stage::Limit(a), Stage::Limit(b)) = (&first.stage, &second.stage) else {
        return Ok(false);
    };
    let least = *a.min(b);
    steps[at] = PipelineStep::made(Stage::Limit(least));
    steps.remove(at + 1);
    Ok(true)
}

/// Two `$skip` add up.
pub(super) fn join_skips(steps: &mut Vec<PipelineStep>, at: usize) -> Result<bool> {
    let [first, second, ..] = &steps[at..] else {
        return Ok(false);
    };
    let (Stage::Skip(a), Stage::Skip(b)) = (&first.stage, &second.stage) else {
        return Ok(false);
    };
    let Some(sum) = a.checked_add(*b) else {
        return Ok(false);
    };
    steps[at] = PipelineStep::made(Stage::Skip(sum));
    steps.remove(at + 1);
    Ok(true)
}

/// A `$limit` goes before a `$skip` and grows by it. It can then reach a `$sort`.
#[expect(clippy::ptr_arg, reason = "all rules have one type")]
pub(super) fn limit_before_skip(steps: &mut Vec<PipelineStep>, at: usize) -> Result<bool> {
    let [first, second, ..] = &steps[at..] else {
        return Ok(false);
    };
    let (Stage::Skip(skip), Stage::Limit(limit)) = (&first.stage, &second.stage) else {
        return Ok(false);
    };
    let Some(sum) = skip.checked_add(*limit) else {
        return Ok(false);
    };
    steps.swap(at, at + 1);
    steps[at] = PipelineStep::made(Stage::Limit(sum));
    Ok(true)
}

/// A `$sort` with a `$limit` keeps only as many rows as are needed.
pub(super) fn sort_with_limit(steps: &mut Vec<PipelineStep>, at: usize) -> Result<bool> {
    let [first, second, ..] = &mut steps[at..] else {
        return Ok(false);
    };
    let (Stage::Sort(_, limit), Stage::Limit(count)) = (&mut first.stage, &second.stage) else {
        return Ok(false);
    };
    *limit = Some(limit.map_or(*count, |limit| limit.min(*count)));
    steps.remove(at + 1);
    Ok(true)
}

/// Of two `$sort` the last one decides the order. MongoDB does not promise the order of rows that compare equal.
pub(super) fn last_sort(steps: &mut Vec<PipelineStep>, at: usize) -> Result<bool> {
    let [first, second, ..] = &steps[at..] else {
        return Ok(false);
    };
    let found = matches!(
        (&first.stage, &second.stage),
        (Stage::Sort(_, None), Stage::Sort(..))
    );
    if found {
        steps.remove(at);
    }
    Ok(found)
}
