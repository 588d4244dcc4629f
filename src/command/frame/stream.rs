//! Stored documents as the source of a cursor, copied directly from storage into the reply.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::rows::RowSource;
use crate::effort::Effort;
use crate::engine::access::{SlicePace, Walk};
use crate::engine::plan::{AccessPath, PlanSummary};
use crate::engine::{
    EngineSources, OpenedWalk, ReadPoint, Reading, RecordId, TimeSlice, is_visible,
};
use crate::error::Result;
use crate::query::Vars;
use crate::query::filter::Filter;
use crate::query::stage::{PipelineLimits, StepBudget};
use crate::session::{Fill, ReplyBatch, Source};
use crate::value::Doc;
use crate::wait::Wait;

/// The source of a find whose order is the order of the walk and whose documents are returned unchanged. It keeps a
/// position and no rows, so each document that a later command gets was visible at that command's own `now`.
pub(in crate::command) struct WalkSource {
    walk: Walk,
    filter: Arc<Filter>,
    vars: Vars,
    skip: u64,
    limit: Option<u64>,
    /// A document that was found when the batch had no room for it.
    held: Option<(RecordId, Vec<u8>)>,
    /// The cursor stays open at its end.
    tailing: bool,
    /// A batch has left already, so the current command is a later one.
    later: bool,
    /// What is read, if the client relies on the order of the walk.
    in_order: Option<Box<SortSource>>,
    /// The same documents, sorted, if the walk turns out not to give the order.
    sorted: Option<Box<RowSource>>,
}

/// What is needed to sort.
pub(in crate::command) struct SortSource {
    pub reading: Reading,
    pub sources: Arc<EngineSources>,
    pub limits: PipelineLimits,
}

// === impl WalkSource ===

impl WalkSource {
    pub fn new(walk: Walk, filter: Arc<Filter>, vars: Vars, skip: u64, limit: Option<u64>) -> Self {
        Self {
            walk,
            filter,
            vars,
            skip,
            limit,
            held: None,
            tailing: false,
            later: false,
            in_order: None,
            sorted: None,
        }
    }

    /// Declares that the client relies on the order of the walk.
    #[must_use]
    pub fn in_order(mut self, order: SortSource) -> Self {
        self.in_order = Some(Box::new(order));
        self
    }

    /// Sorts the documents because the walk cannot give the order. No document is known yet.
    fn sort(&mut self, order: SortSource) -> &mut RowSource {
        let SortSource {
            reading,
            sources,
            limits,
        } = order;
        let nothing = Walk::new(Arc::clone(self.walk.collection()), AccessPath::Nothing);
        let walk = std::mem::replace(&mut self.walk, nothing);
        let sorted = false;
        let rows = sources.rows(OpenedWalk { walk, sorted }, reading);
        let source = RowSource::new(rows, sources, self.vars.clone(), limits);
        self.sorted.insert(Box::new(source))
    }

    #[must_use]
    pub fn tailing(mut self, tailing: bool) -> Self {
        self.tailing = tailing;
        self
    }

    /// Hands out the document that was held back, if it is still visible.
    fn release(&mut self, at: ReadPoint, batch: &mut ReplyBatch<'_>) {
        if let Some((id, bytes)) = self.held.take()
            && is_visible(self.walk.collection(), at, id)
        {
            batch.push(Doc::new(&bytes));
            self.limit = self.limit.map(|left| left - 1);
        }
    }
}

impl Source for WalkSource {
    fn plan_summary(&self) -> Option<PlanSummary> {
        Some(self.walk.summary())
    }

    fn fill(
        &mut self,
        at: ReadPoint,
        batch: &mut ReplyBatch<'_>,
        effort: &mut Effort,
    ) -> Result<Fill> {
        if let Some(sorted) = &mut self.sorted {
            return sorted.fill(at, batch, effort);
        }
        if at.now() != self.vars.now() {
            self.vars = self.vars.moved_to(at.now());
        }
        if std::mem::take(&mut self.later) {
            self.walk.renew();
        }
        self.release(at, batch);
        let slice = TimeSlice::begin();
        let Self {
            walk,
            filter,
            vars,
            skip,
            limit,
            held,
            tailing,
            later,
            in_order,
            sorted: _,
        } = self;
        let end = match tailing {
            true => Fill::Waiting,
            false => Fill::End,
        };
        loop {
            if *limit == Some(0) {
                return Ok(end);
            }
            if batch.is_full() {
                *later = true;
                return Ok(Fill::Full);
            }
            let sliced = walk.slice(at, filter, vars, |found| {
                if *skip > 0 {
                    *skip -= 1;
                    return Ok(ControlFlow::Continue(()));
                }
                if !batch.push(found.shown) {
                    *held = Some((found.id, found.shown.bytes().to_vec()));
                    return Ok(ControlFlow::Break(()));
                }
                *limit = limit.map(|left| left - 1);
                let enough = batch.is_full() || *limit == Some(0);
                Ok(if enough {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                })
            });
            *effort += walk.take_effort();
            let pace = sliced?;
            if held.is_some() {
                *later = true;
                return Ok(Fill::Full);
            }
            if pace == SlicePace::Unordered
                && let Some(order) = in_order.take()
            {
                return self.sort(*order).fill(at, batch, effort);
            }
            if pace == SlicePace::End {
                *later = true;
                return Ok(end);
            }
            if slice.is_over() && !batch.is_full() && *limit != Some(0) {
                return Ok(Fill::Pause);
            }
        }
    }

    fn arrival(&self) -> Option<Wait> {
        self.tailing.then(|| self.walk.tail().arrival())
    }

    fn suspend(&mut self) -> usize {
        let held = self.held.as_ref().map_or(0, |(_, bytes)| bytes.len());
        let sorted = self.sorted.as_mut().map_or(0, |sorted| sorted.suspend());
        held + sorted + self.walk.suspend() + self.vars.held()
    }
}
