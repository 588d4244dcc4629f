//! The rows of a query, as the source of a cursor.

use std::sync::Arc;

use crate::effort::Effort;
use crate::engine::{EngineSources, PlanSummary, ReadPoint, Tail, TimeSlice};
use crate::error::Result;
use crate::query::Vars;
use crate::query::stage::{self, Flow, PipelineLimits, RowContext, Rows, StepBudget};
use crate::session::{Fill, ReplyBatch, Source};
use crate::value::check_size;
use crate::wait::Wait;

/// A source that pulls rows in batches and hands them out. A row may stand for one stored document. If such a row leaves
/// with a later command than the one that found it, the source first checks that the document is still visible.
pub(in crate::command) struct RowSource {
    rows: Box<dyn Rows>,
    sources: Arc<EngineSources>,
    vars: Vars,
    limits: PipelineLimits,
    /// A batch has left already, so the current command is a later one.
    later: bool,
    /// Rows that were pulled but not handed out yet. They begin at `next`.
    pulled: stage::RowBatch,
    next: usize,
    /// The current command has checked that the documents of these rows are still visible.
    are_checked: bool,
    ended: bool,
    /// The end is noticed only by a batch that has room for another row.
    ends_late: bool,
    /// Set if the cursor stays open at its end and waits for more rows.
    tail: Option<Tail>,
}

// === impl RowSource ===

impl RowSource {
    pub fn new(
        rows: Box<dyn Rows>,
        sources: Arc<EngineSources>,
        vars: Vars,
        limits: PipelineLimits,
    ) -> Self {
        Self {
            rows,
            sources,
            vars,
            limits,
            later: false,
            pulled: stage::RowBatch::new(),
            next: 0,
            are_checked: false,
            ended: false,
            ends_late: false,
            tail: None,
        }
    }

    /// Sets whether a cursor whose last batch is full stays open until another getMore finds nothing, as cursors of
    /// MongoDB's pipelines do.
    #[must_use]
    pub fn ends_late(mut self, late: bool) -> Self {
        self.ends_late = late;
        self
    }

    #[must_use]
    pub fn tailing(mut self, tail: Option<Tail>) -> Self {
        self.tail = tail;
        self
    }

    /// Removes pulled rows whose documents have ended by now. A later command checks this even if no time has passed,
    /// because a TTL rule may have changed.
    fn check_visible(&mut self, at: ReadPoint) -> Result<()> {
        if self.later && !self.are_checked && self.next < self.pulled.len() {
            self.pulled.remove(0, self.next);
            self.next = 0;
            self.sources
                .handles()
                .retain_visible(&mut self.pulled, at)?;
        }
        self.are_checked = true;
        Ok(())
    }

    /// Ends a full batch. The next call belongs to another command.
    fn full(&mut self) -> Result<Fill> {
        self.later = true;
        self.are_checked = false;
        self.sources.handles().next_command();
        Ok(Fill::Full)
    }

    /// Fills the batch with the next rows.
    fn fill_batch(&mut self, at: ReadPoint, batch: &mut ReplyBatch<'_>) -> Result<Fill> {
        if at.now() != self.vars.now() {
            self.vars = self.vars.moved_to(at.now());
        }
        self.sources.handles().move_to(at);
        let slice = TimeSlice::begin();
        let mut flow = Flow::More;
        loop {
            self.check_visible(at)?;
            while let Some(row) = self.pulled.get(self.next) {
                // A pipeline may build larger documents on its way, but not return one that is too large for a reply.
                check_size(row.doc.bytes().len())?;
                if !batch.push(row.doc) {
                    return self.full();
                }
                self.next += 1;
            }
            if self.ended && self.tail.is_some() {
                // The next command reads again from here.
                self.ended = false;
                return self.full().map(|_| Fill::Waiting);
            }
            if self.ended && !(self.ends_late && batch.is_full()) {
                return Ok(Fill::End);
            }
            if batch.is_full() {
                return self.full();
            }
            // A large batch takes many pulls. Between them other connections get their turn.
            if flow == Flow::Pause || slice.is_over() {
                return Ok(Fill::Pause);
            }
            self.pulled.restart(batch.room() as usize);
            self.next = 0;
            // A blocking stage may hold rows from an earlier instant, so the new rows are checked.
            self.are_checked = false;
            let mut cx = RowContext {
                vars: &self.vars,
                slice: &slice,
                limits: self.limits,
                sources: &*self.sources,
            };
            flow = self.rows.fill(&mut cx, &mut self.pulled)?;
            self.ended = flow == Flow::End;
        }
    }
}

impl Source for RowSource {
    fn fill(
        &mut self,
        at: ReadPoint,
        batch: &mut ReplyBatch<'_>,
        effort: &mut Effort,
    ) -> Result<Fill> {
        let filled = self.fill_batch(at, batch);
        *effort += self.sources.handles().take_effort();
        filled
    }

    fn arrival(&self) -> Option<Wait> {
        self.tail.as_ref().map(Tail::arrival)
    }

    fn plan_summary(&self) -> Option<PlanSummary> {
        let summary = self.sources.summary().cloned();
        Some(summary.unwrap_or_else(PlanSummary::nothing_read))
    }

    fn suspend(&mut self) -> usize {
        if self.next >= self.pulled.len() {
            self.pulled.clear();
            self.next = 0;
        }
        self.pulled.suspend() + self.rows.suspend() + self.vars.held()
    }
}
