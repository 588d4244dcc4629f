//! `$match`: passes only the rows that match a filter.

use std::sync::Arc;

use super::{Flow, RowBatch, RowContext, Rows, Stage, StageContext};
use crate::error::{Error, Result};
use crate::query::filter::Filter;
use crate::value::{Doc, ValueRef};

struct MatchRows {
    input: Box<dyn Rows>,
    filter: Arc<Filter>,
}

/// Returns the rows of `input` that `filter` matches.
pub fn rows(input: Box<dyn Rows>, filter: Arc<Filter>) -> Box<dyn Rows> {
    Box::new(MatchRows { input, filter })
}

pub(super) fn parse(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let filter = value.as_doc().ok_or_else(|| {
        Error::location(15959, "the match filter must be an expression in an object")
    })?;
    check(filter, context.first)?;
    push(Stage::Match(Arc::new(Filter::parse(
        filter,
        context.scope,
    )?)));
    Ok(())
}

/// Rejects operators that find accepts and a pipeline does not.
fn check(filter: Doc<'_>, first: bool) -> Result<()> {
    for elem in filter {
        match elem.name() {
            "$where" => return Err(Error::bad_value("$where is not allowed in this context")),
            "$text" if !first => {
                return Err(Error::location(
                    17313,
                    "$match with $text is only allowed as the first pipeline stage",
                ));
            }
            "$and" | "$or" | "$nor" => {
                for part in elem.value.as_array().into_iter().flatten() {
                    check(part.value.as_doc().unwrap_or(Doc::EMPTY), first)?;
                }
            }
            _ => {
                let operator = elem.value.as_doc().and_then(|doc| doc.first());
                if operator
                    .is_some_and(|op| ["$geoNear", "$near", "$nearSphere"].contains(&op.name()))
                {
                    return Err(Error::location(
                        5626500,
                        "$geoNear, $near, and $nearSphere are not allowed in this context, as these operators require sorting geospatial data. If you do not need sort, consider using $geoWithin instead.",
                    ));
                }
            }
        }
    }
    Ok(())
}

// === impl MatchRows ===

impl Rows for MatchRows {
    fn fill(&mut self, cx: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
        loop {
            let before = out.len();
            let flow = self.input.fill(cx, out)?;
            out.retain(before, |row| self.filter.matches(row.doc, cx.vars))?;
            if flow != Flow::More || out.len() > before {
                return Ok(flow);
            }
            if cx.out_of_time() {
                return Ok(Flow::Pause);
            }
        }
    }

    fn suspend(&mut self) -> usize {
        self.input.suspend()
    }
}
