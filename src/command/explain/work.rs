//! Runs an explained command without changing anything, and counts its work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::tree::ExecutionStats;
use crate::effort::Effort;
use crate::engine::write::{Picked, Picker, Selection, Shows};
use crate::engine::{EngineSources, ReadPoint, TimeSlice};
use crate::error::Result;
use crate::query::Vars;
use crate::query::stage::{Empty, Flow, PipelineLimits, RowBatch, RowContext, Rows, StepBudget};
use crate::query::update::{Apply, Update};
use crate::value::{Doc, Value};

pub(super) enum ExplainWork {
    /// There is nothing to read.
    Nothing,
    /// A count that storage knows without reading.
    FastCount(u64),
    Read(Box<ExplainRead>),
    Write(Box<ExplainWrite>),
}

/// A read that pulls all rows and discards them.
pub(super) struct ExplainRead {
    pub rows: Box<dyn Rows>,
    pub sources: Arc<EngineSources>,
    pub vars: Vars,
    pub limits: PipelineLimits,
    /// The work of the source and of everything that is read.
    pub counted: Arc<Mutex<Effort>>,
    pub effort: Effort,
    /// The number of rows that left the source.
    pub returned: Arc<AtomicU64>,
    pub batch: RowBatch,
    pub ended: bool,
}

/// A search for the documents that a statement would write to.
pub(super) struct ExplainWrite {
    pub picker: Option<Picker>,
    pub selection: Selection,
    /// `None` for a delete.
    pub update: Option<Update>,
    pub upsert: bool,
    /// What a findAndModify returns.
    pub shows: Shows,
    pub current: Vec<u8>,
    pub effort: Effort,
    pub matched: u64,
    pub modified: u64,
    pub ended: bool,
}

/// Rows that are counted as they pass.
pub(super) struct CountedRows {
    pub rows: Box<dyn Rows>,
    pub n: Arc<AtomicU64>,
}

// === impl ExplainWork ===

impl ExplainWork {
    /// Continues until all is done (`true`) or the time slice is over.
    pub fn step(&mut self, at: ReadPoint) -> Result<bool> {
        let slice = TimeSlice::begin();
        match self {
            Self::Nothing | Self::FastCount(_) => Ok(true),
            Self::Read(reading) => reading.step(&slice),
            Self::Write(writing) => writing.step(at, &slice),
        }
    }

    /// Returns the work on documents so far.
    pub fn effort(&self) -> Effort {
        match self {
            Self::Nothing | Self::FastCount(_) => Effort::default(),
            Self::Read(reading) => reading.effort,
            Self::Write(writing) => writing.effort,
        }
    }

    pub fn figures(&self, millis: i64) -> ExecutionStats {
        let figures = ExecutionStats {
            millis,
            ..ExecutionStats::default()
        };
        let of = |effort: Effort| ExecutionStats {
            keys: effort.keys,
            documents: effort.documents,
            matched: effort.matched,
            ..figures
        };
        match self {
            Self::Nothing => figures,
            Self::FastCount(n) => ExecutionStats {
                fast_count: Some(*n),
                ..figures
            },
            Self::Read(reading) => ExecutionStats {
                returned: reading.returned.load(Ordering::Relaxed),
                ..of(*reading.counted.lock())
            },
            Self::Write(writing) => {
                let deletes = writing.update.is_none();
                let shown = match writing.shows {
                    Shows::Nothing => false,
                    // It has not ended if a document could not be made.
                    _ if writing.matched > 0 => writing.ended,
                    shows => shows == Shows::After && writing.upsert && writing.ended,
                };
                ExecutionStats {
                    returned: u64::from(shown),
                    would_match: writing.matched,
                    would_modify: writing.modified,
                    would_upsert: u64::from(writing.upsert && writing.matched == 0),
                    would_delete: if deletes { writing.matched } else { 0 },
                    ..of(writing.effort)
                }
            }
        }
    }
}

// === impl ExplainRead ===

impl ExplainRead {
    /// Adds what happens to the rows at the end of the plan. What comes out of it is what the plan returns.
    pub fn then(&mut self, adapt: impl FnOnce(Box<dyn Rows>) -> Box<dyn Rows>) {
        let rows = std::mem::replace(&mut self.rows, Box::new(Empty));
        self.returned = Arc::default();
        self.rows = Box::new(CountedRows {
            rows: adapt(rows),
            n: Arc::clone(&self.returned),
        });
    }

    fn step(&mut self, slice: &TimeSlice) -> Result<bool> {
        while !self.ended {
            let mut cx = RowContext {
                vars: &self.vars,
                slice,
                limits: self.limits,
                sources: &*self.sources,
            };
            self.batch.clear();
            let filled = self.rows.fill(&mut cx, &mut self.batch);
            self.effort += self.sources.handles().take_effort();
            let flow = filled?;
            self.ended = flow == Flow::End;
            if !self.ended && (flow == Flow::Pause || slice.is_over()) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

// === impl ExplainWrite ===

impl ExplainWrite {
    fn step(&mut self, at: ReadPoint, slice: &TimeSlice) -> Result<bool> {
        let Some(picker) = &mut self.picker else {
            return Ok(true);
        };
        let Selection {
            wanted,
            vars,
            multi,
            ..
        } = &self.selection;
        while !self.ended {
            let picked = picker.next(at, vars, slice, &mut self.current);
            self.effort += picker.take_effort();
            match picked? {
                Picked::Pause => return Ok(false),
                Picked::None => {
                    if let Some(update) = self
                        .update
                        .as_ref()
                        .filter(|_| self.upsert && self.matched == 0)
                    {
                        // It is only built to see whether it can be. Its new `_id` does not matter.
                        self.selection
                            .upsert(update, at.now(), || Value::oid([0; 12]))?;
                    }
                    self.ended = true;
                }
                Picked::One(..) => {
                    self.matched += 1;
                    if let Some(update) = &self.update {
                        let doc = Doc::new(&self.current);
                        let position = match update.needs_position() {
                            true => wanted.filter().position(doc, vars)?,
                            false => None,
                        };
                        let apply = Apply {
                            now: at.now(),
                            vars,
                            position,
                            inserting: false,
                        };
                        self.modified += u64::from(update.apply(doc, &apply)?.is_some());
                    }
                    self.ended = !multi;
                }
            }
            if !self.ended && slice.is_over() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

// === impl CountedRows ===

impl Rows for CountedRows {
    fn fill(&mut self, cx: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
        let before = out.len();
        let flow = self.rows.fill(cx, out);
        // Rows before a failure count, too.
        let added = out.len().saturating_sub(before) as u64;
        self.n.fetch_add(added, Ordering::Relaxed);
        flow
    }

    fn suspend(&mut self) -> usize {
        self.rows.suspend()
    }
}
