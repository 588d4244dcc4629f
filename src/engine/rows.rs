//! A collection as the source of a pipeline.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::access::{Pace, Walk, dropped};
use crate::effort::Effort;
use crate::error::Result;
use crate::query::filter::Filter;
use crate::query::stage::{Batch, Cx, Flow, Origin, Rows};
use crate::storage::{Collection, ReadPoint, RecordId};
use crate::value::Doc;

/// The collections that the rows of one cursor come from, and what it took to find them. A row names its collection by number, so
/// that its document can be asked again when the row leaves the cursor.
#[derive(Debug, Clone, Default)]
pub struct Handles(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    known: Mutex<Vec<Arc<Collection>>>,
    /// Which command of the cursor is running, counted from its first.
    command: AtomicU32,
    /// What was done since somebody last took it.
    effort: Mutex<Effort>,
}

/// Documents of one collection that pass a filter.
pub struct CollectionRows {
    walk: Walk,
    filter: Arc<Filter>,
    source: u32,
    handles: Handles,
    /// The command that this has last worked for.
    worked_for: u32,
    /// Rows still to be passed over.
    skip: u64,
    /// Rows still wanted.
    limit: Option<u64>,
    /// Rows are only counted: they may be empty.
    count_only: bool,
    /// The effort of these rows alone, for explain.
    counted: Arc<Mutex<Effort>>,
}

// === impl Handles ===

impl Handles {
    /// The number of a collection.
    pub fn add(&self, collection: &Arc<Collection>) -> u32 {
        let mut known = self.0.known.lock();
        let at = known
            .iter()
            .position(|other| Arc::ptr_eq(other, collection))
            .unwrap_or_else(|| {
                known.push(Arc::clone(collection));
                known.len() - 1
            });
        at as u32
    }

    /// Drops rows whose documents have ended (or were removed) by `now`.
    pub fn retain_visible(&self, batch: &mut Batch, at: ReadPoint) -> Result<()> {
        let known = self.0.known.lock().clone();
        for (number, collection) in known.iter().enumerate() {
            collection.read(at, |view| {
                batch.retain(0, |row| match row.origin {
                    Some(origin) if origin.source as usize == number => {
                        if view.is_dropped() {
                            return Err(dropped(view));
                        }
                        Ok(view.get(RecordId(origin.record)).is_some())
                    }
                    _ => Ok(true),
                })
            })?;
        }
        Ok(())
    }

    /// Which command of the cursor is running, counted from its first.
    pub fn command(&self) -> u32 {
        self.0.command.load(Ordering::Relaxed)
    }

    /// Another command goes on with the cursor.
    pub fn next_command(&self) {
        self.0.command.fetch_add(1, Ordering::Relaxed);
    }

    pub fn add_effort(&self, effort: Effort) {
        *self.0.effort.lock() += effort;
    }

    /// What was done since this was last asked.
    pub fn take_effort(&self) -> Effort {
        std::mem::take(&mut *self.0.effort.lock())
    }
}

// === impl CollectionRows ===

impl CollectionRows {
    pub fn new(
        walk: Walk,
        filter: Arc<Filter>,
        handles: &Handles,
        skip: u64,
        limit: Option<u64>,
    ) -> Self {
        let source = handles.add(walk.collection());
        Self {
            walk,
            filter,
            source,
            worked_for: handles.command(),
            handles: handles.clone(),
            skip,
            limit,
            count_only: false,
            counted: Arc::default(),
        }
    }

    /// Only the number of rows matters.
    #[must_use]
    pub fn count_only(mut self, only: bool) -> Self {
        self.count_only = only;
        self
    }

    /// The effort of these rows so far, seen from outside.
    pub fn counted(&self) -> Arc<Mutex<Effort>> {
        Arc::clone(&self.counted)
    }
}

impl Rows for CollectionRows {
    fn fill(&mut self, cx: &mut Cx<'_>, out: &mut Batch) -> Result<Flow> {
        let Self {
            walk,
            filter,
            source,
            handles,
            worked_for,
            skip,
            limit,
            count_only,
            counted,
        } = self;
        let running = handles.command();
        if std::mem::replace(worked_for, running) != running {
            walk.renew();
        }
        loop {
            if *limit == Some(0) {
                return Ok(Flow::End);
            }
            let sliced = walk.slice(super::sources::read_point(cx), filter, cx.vars, |found| {
                if *skip > 0 {
                    *skip -= 1;
                    return Ok(ControlFlow::Continue(()));
                }
                out.push(
                    if *count_only { Doc::EMPTY } else { found.shown },
                    Some(Origin {
                        source: *source,
                        record: found.id.0,
                    }),
                );
                let enough = limit.as_mut().is_some_and(|left| {
                    *left -= 1;
                    *left == 0
                });
                Ok(if enough || out.is_full() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                })
            });
            let effort = walk.take_effort();
            *counted.lock() += effort;
            handles.add_effort(effort);
            let pace = sliced?;
            if pace == Pace::End || *limit == Some(0) {
                return Ok(Flow::End);
            }
            if out.is_full() {
                return Ok(Flow::More);
            }
            if cx.out_of_time() {
                return Ok(Flow::Pause);
            }
        }
    }

    fn at_rest(&mut self) -> usize {
        self.walk.at_rest()
    }
}
