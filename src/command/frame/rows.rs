//! The rows of a query as a cursor's source.

use std::sync::Arc;

use crate::effort::Effort;
use crate::engine::{EngineSources, ReadPoint, Tail, TimeSlice};
use crate::error::Result;
use crate::query::Vars;
use crate::query::stage::{self, Cx, Flow, Limits, Rows, Slice};
use crate::session::{Batch, Fill, Source};
use crate::value::check_size;
use crate::wait::Wait;

/// Pulls batches of rows and deals them out. A row that stands for one stored document is asked again whether that document is
/// still there when it leaves with a later command than the one that found it.
pub(in crate::command) struct RowSource {
    rows: Box<dyn Rows>,
    sources: Arc<EngineSources>,
    vars: Vars,
    limits: Limits,
    /// A batch has left already, so it is a later command that asks now.
    later: bool,
    /// Rows that were pulled and not dealt out yet, from `next` on.
    pulled: stage::Batch,
    next: usize,
    /// This command has asked whether their documents are still there.
    asked: bool,
    ended: bool,
    /// Where it stays open at its end and waits for more.
    tail: Option<Tail>,
}

// === impl RowSource ===

impl RowSource {
    pub fn new(
        rows: Box<dyn Rows>,
        sources: Arc<EngineSources>,
        vars: Vars,
        limits: Limits,
    ) -> Self {
        Self {
            rows,
            sources,
            vars,
            limits,
            later: false,
            pulled: stage::Batch::new(),
            next: 0,
            asked: false,
            ended: false,
            tail: None,
        }
    }

    #[must_use]
    pub fn tailing(mut self, tail: Option<Tail>) -> Self {
        self.tail = tail;
        self
    }

    /// Drops pulled rows whose documents have ended by now. A later command asks also when no time has passed: a rule may have
    /// changed in between.
    fn ask_again(&mut self, at: ReadPoint) -> Result<()> {
        if self.later && !self.asked && self.next < self.pulled.len() {
            self.pulled.remove(0, self.next);
            self.next = 0;
            self.sources
                .handles()
                .retain_visible(&mut self.pulled, at)?;
        }
        self.asked = true;
        Ok(())
    }

    /// The batch is full: it leaves, and whoever asks next is another command.
    fn full(&mut self) -> Result<Fill> {
        self.later = true;
        self.asked = false;
        self.sources.handles().next_command();
        Ok(Fill::Full)
    }

    /// Fills the batch with the next rows.
    fn deal_out(&mut self, at: ReadPoint, batch: &mut Batch<'_>) -> Result<Fill> {
        if at.now() != self.vars.now() {
            self.vars = self.vars.moved_to(at.now());
        }
        self.sources.handles().move_to(at);
        let slice = TimeSlice::begin();
        let mut flow = Flow::More;
        loop {
            self.ask_again(at)?;
            while let Some(row) = self.pulled.get(self.next) {
                // A pipeline may make larger documents on its way, but none that no reply could carry.
                check_size(row.doc.bytes().len())?;
                if !batch.push(row.doc) {
                    return self.full();
                }
                self.next += 1;
            }
            if self.ended && self.tail.is_some() {
                // The next command looks again.
                self.ended = false;
                return self.full().map(|_| Fill::Waiting);
            }
            if self.ended {
                return Ok(Fill::End);
            }
            if batch.is_full() {
                return self.full();
            }
            // A large batch is many pulls: between them the others get their turn, too.
            if flow == Flow::Pause || slice.is_over() {
                return Ok(Fill::Pause);
            }
            self.pulled.restart(batch.room() as usize);
            self.next = 0;
            // What a blocking stage holds was found at some earlier moment: have it asked.
            self.asked = false;
            let mut cx = Cx {
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
    fn fill(&mut self, at: ReadPoint, batch: &mut Batch<'_>, effort: &mut Effort) -> Result<Fill> {
        let filled = self.deal_out(at, batch);
        *effort += self.sources.handles().take_effort();
        filled
    }

    fn arrival(&self) -> Option<Wait> {
        self.tail.as_ref().map(Tail::arrival)
    }

    fn at_rest(&mut self) -> usize {
        if self.next >= self.pulled.len() {
            self.pulled.clear();
            self.next = 0;
        }
        self.pulled.at_rest() + self.rows.at_rest() + self.vars.held()
    }
}
