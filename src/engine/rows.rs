//! A collection as the source of a pipeline.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::access::{Pace, Walk, dropped};
use super::plan::Access;
use crate::effort::Effort;
use crate::error::Result;
use crate::query::filter::Filter;
use crate::query::sort::Sort;
use crate::query::stage::{self, Batch, Cx, Flow, Origin, Rows};
use crate::storage::{Collection, ReadPoint, RecordId};
use crate::value::Doc;

/// The collections that the rows of one cursor come from, the point from which they are read, and what it took to find them. A row
/// names its collection by number, so that its document can be asked again when the row leaves the cursor.
#[derive(Debug, Clone)]
pub struct SourceHandles(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    known: Mutex<Vec<Arc<Collection>>>,
    /// Which command of the cursor is running, counted from its first.
    command: AtomicU32,
    /// That of the command which is running.
    at: Mutex<ReadPoint>,
    /// What was done since somebody last took it.
    effort: Mutex<Effort>,
}

/// Documents of one collection that pass a filter.
pub struct CollectionRows {
    walk: Walk,
    filter: Arc<Filter>,
    handles: SourceHandles,
    source: u32,
    /// The command that this has last worked for.
    worked_for: u32,
    /// Rows still to be passed over.
    skip: u64,
    /// Rows still wanted.
    limit: Option<u64>,
    /// Rows are only counted: they may be empty.
    count_only: bool,
    /// The order that the walk promises.
    sort: Option<Arc<Sort>>,
    /// The rows in that order, if the walk cannot give it after all.
    sorted: Option<Box<dyn Rows>>,
    /// The effort of these rows alone, for explain.
    counted: Arc<Mutex<Effort>>,
}

// === impl SourceHandles ===

impl SourceHandles {
    /// None yet; they will be read from that point on.
    pub fn new(at: ReadPoint) -> Self {
        Self(Arc::new(Shared {
            known: Mutex::default(),
            command: AtomicU32::default(),
            at: Mutex::new(at),
            effort: Mutex::default(),
        }))
    }

    pub fn read_point(&self) -> ReadPoint {
        *self.0.at.lock()
    }

    /// The command that goes on with the cursor reads from there.
    pub fn move_to(&self, at: ReadPoint) {
        *self.0.at.lock() = at;
    }

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
        handles: &SourceHandles,
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
            sort: None,
            sorted: None,
            counted: Arc::default(),
        }
    }

    /// They come in the order of the sort, if there is one, since the walk promises it.
    #[must_use]
    pub fn in_order(mut self, sort: Option<Arc<Sort>>) -> Self {
        self.sort = sort;
        self
    }

    /// All that the walk leads to, sorted before the first row is known.
    pub fn sorted(self, sort: Arc<Sort>) -> Box<dyn Rows> {
        let (skip, limit) = (self.skip, self.limit);
        let found = Self {
            skip: 0,
            limit: None,
            ..self
        };
        let bound = limit.map(|limit| limit.saturating_add(skip));
        let mut rows = stage::sort(Box::new(found), sort, bound);
        if skip > 0 {
            rows = stage::skip(rows, skip);
        }
        if let Some(limit) = limit {
            rows = stage::limit(rows, limit);
        }
        rows
    }

    /// The walk cannot keep its promise: what it leads to from now on is sorted here.
    fn sort_instead(&mut self, sort: Arc<Sort>) -> &mut Box<dyn Rows> {
        let nothing = Walk::new(Arc::clone(self.walk.collection()), Access::Nothing);
        let found = Self {
            walk: std::mem::replace(&mut self.walk, nothing),
            filter: Arc::clone(&self.filter),
            handles: self.handles.clone(),
            counted: Arc::clone(&self.counted),
            sort: None,
            sorted: None,
            ..*self
        };
        self.sorted.insert(found.sorted(sort))
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
        if let Some(sorted) = &mut self.sorted {
            return sorted.fill(cx, out);
        }
        let Self {
            walk,
            filter,
            handles,
            source,
            worked_for,
            skip,
            limit,
            count_only,
            sort,
            sorted: _,
            counted,
        } = self;
        let running = handles.command();
        if std::mem::replace(worked_for, running) != running {
            walk.renew();
        }
        let at = handles.read_point();
        loop {
            if *limit == Some(0) {
                return Ok(Flow::End);
            }
            let sliced = walk.slice(at, filter, cx.vars, |found| {
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
            if pace == Pace::Unordered
                && let Some(sort) = sort.take()
            {
                return self.sort_instead(sort).fill(cx, out);
            }
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
        let sorted = self.sorted.as_mut().map_or(0, |rows| rows.at_rest());
        sorted + self.walk.at_rest()
    }
}
