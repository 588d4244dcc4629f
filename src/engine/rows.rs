//! A collection as the source of a pipeline.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::access::{Counted, Pace, Walk, dropped};
use crate::error::Result;
use crate::query::filter::Filter;
use crate::query::stage::{Batch, Cx, Flow, Origin, Rows};
use crate::storage::{Collection, ReadPoint, RecordId};
use crate::value::Doc;

/// The collections that the rows of one cursor come from. A row names its own by number, so that its document can be asked
/// again when the row leaves the cursor.
#[derive(Debug, Clone, Default)]
pub struct Handles {
    known: Arc<Mutex<Vec<Arc<Collection>>>>,
    /// Which command of the cursor is running, counted from its first.
    command: Arc<AtomicU32>,
}

/// Documents of one collection that pass a filter.
pub struct CollectionRows {
    walk: Walk,
    filter: Arc<Filter>,
    source: u32,
    /// The command that is running, and the one that this has last worked for.
    command: Arc<AtomicU32>,
    worked_for: u32,
    /// Rows still to be passed over.
    skip: u64,
    /// Rows still wanted.
    limit: Option<u64>,
    /// Rows are only counted: they may be empty.
    count_only: bool,
    /// Where the counted work is to be seen by explain.
    counted: Arc<Mutex<Counted>>,
}

// === impl Handles ===

impl Handles {
    /// The number of a collection.
    pub fn add(&self, collection: &Arc<Collection>) -> u32 {
        let mut known = self.known.lock();
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
        let known = self.known.lock().clone();
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
        self.command.load(Ordering::Relaxed)
    }

    /// Another command goes on with the cursor.
    pub fn next_command(&self) {
        self.command.fetch_add(1, Ordering::Relaxed);
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
            command: Arc::clone(&handles.command),
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

    /// The work done so far, seen from outside.
    pub fn counted(&self) -> Arc<Mutex<Counted>> {
        Arc::clone(&self.counted)
    }
}

impl Rows for CollectionRows {
    fn fill(&mut self, cx: &mut Cx<'_>, out: &mut Batch) -> Result<Flow> {
        let Self {
            walk,
            filter,
            source,
            command,
            worked_for,
            skip,
            limit,
            count_only,
            counted,
        } = self;
        let running = command.load(Ordering::Relaxed);
        if std::mem::replace(worked_for, running) != running {
            walk.renew();
        }
        loop {
            if *limit == Some(0) {
                return Ok(Flow::End);
            }
            let pace = walk.slice(super::sources::read_point(cx), filter, cx.vars, |found| {
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
            })?;
            *counted.lock() = walk.counted;
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
