//! The rows of a query as a cursor's source.

use std::sync::Arc;

use crate::engine::{EngineSources, TimeSlice};
use crate::error::{Code, Error, Result};
use crate::query::Vars;
use crate::query::stage::{self, Cx, Flow, Limits, Rows};
use crate::session::{Batch, Fill, Source};
use crate::value::{Doc, Millis};

/// The largest row, with the room that mongod allows for what it adds itself.
const MAX_ROW: usize = 16 * 1024 * 1024 + 16 * 1024;

/// Pulls batches of rows and deals them out. A row that stands for one stored document is asked again whether that document is
/// still there when it leaves with a later command than the one that found it.
pub(super) struct RowSource {
    rows: Box<dyn Rows>,
    sources: Arc<EngineSources>,
    vars: Vars,
    limits: Limits,
    /// When the cursor was opened.
    opened: Millis,
    /// Rows that were pulled and not dealt out yet, from `next` on; asked about at `asked`.
    pulled: stage::Batch,
    next: usize,
    asked: Millis,
    ended: bool,
}

// === impl RowSource ===

impl RowSource {
    pub fn new(
        rows: Box<dyn Rows>,
        sources: Arc<EngineSources>,
        vars: Vars,
        limits: Limits,
    ) -> Self {
        let opened = vars.now();
        Self {
            rows,
            sources,
            vars,
            limits,
            opened,
            pulled: stage::Batch::new(),
            next: 0,
            asked: opened,
            ended: false,
        }
    }

    /// Drops pulled rows whose documents have ended by now.
    fn ask_again(&mut self, now: Millis) {
        if now != self.opened && now != self.asked && self.next < self.pulled.len() {
            self.pulled.remove(0, self.next);
            self.next = 0;
            self.sources.handles().retain_visible(&mut self.pulled, now);
        }
        self.asked = now;
    }
}

impl Source for RowSource {
    fn fill(&mut self, now: Millis, batch: &mut Batch<'_>) -> Result<Fill> {
        if now != self.vars.now() {
            self.vars = self.vars.moved_to(now);
        }
        let slice = TimeSlice::begin();
        let mut flow = Flow::More;
        loop {
            self.ask_again(now);
            while let Some(row) = self.pulled.get(self.next) {
                check_size(row.doc)?;
                if !batch.push(row.doc) {
                    return Ok(Fill::Full);
                }
                self.next += 1;
            }
            if self.ended {
                return Ok(Fill::End);
            }
            if batch.is_full() {
                return Ok(Fill::Full);
            }
            if flow == Flow::Pause {
                return Ok(Fill::Pause);
            }
            self.pulled.restart(batch.room() as usize);
            self.next = 0;
            // What a blocking stage holds was found at some earlier moment: have it asked.
            self.asked = self.opened;
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

/// A pipeline may make larger documents on its way, but none that no reply could carry.
fn check_size(row: Doc<'_>) -> Result<()> {
    let size = row.bytes().len();
    if size > MAX_ROW {
        return Err(Error::new(
            Code::BSONObjectTooLarge,
            format!(
                "BSONObj size: {size} (0x{size:X}) is invalid. Size must be between 0 and {MAX_ROW}(16MB)"
            ),
        ));
    }
    Ok(())
}
