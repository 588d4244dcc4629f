//! `$match`: only the rows that a filter says yes to.

use std::sync::Arc;

use super::{Batch, Cx, Flow, Place, Rows, Stage};
use crate::error::{Error, Result};
use crate::query::filter::Filter;
use crate::value::ValueRef;

struct Match {
    input: Box<dyn Rows>,
    filter: Arc<Filter>,
}

/// The rows of `input` that `filter` matches.
pub fn rows(input: Box<dyn Rows>, filter: Arc<Filter>) -> Box<dyn Rows> {
    Box::new(Match { input, filter })
}

pub(super) fn parse(
    value: ValueRef<'_>,
    place: &Place<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let filter = value.as_doc().ok_or_else(|| {
        Error::location(15959, "the match filter must be an expression in an object")
    })?;
    push(Stage::Match(Arc::new(Filter::parse(filter, place.scope)?)));
    Ok(())
}

// === impl Match ===

impl Rows for Match {
    fn fill(&mut self, cx: &mut Cx<'_>, out: &mut Batch) -> Result<Flow> {
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
}
