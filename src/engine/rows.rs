//! A collection as the source of a pipeline.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::access::{SlicePace, Walk, check_in_place};
use super::plan::AccessPath;
use crate::effort::Effort;
use crate::error::Result;
use crate::query::filter::Filter;
use crate::query::sort::Sort;
use crate::query::stage::{self, Flow, Origin, RowBatch, RowContext, Rows};
use crate::storage::{Collection, ReadPoint, RecordId};
use crate::value::Doc;

/// The collections that the rows of one cursor come from, with their read point and the work done so far. A row names its
/// collection by number, so that its document can be checked again when the row leaves the cursor.
#[derive(Debug, Clone)]
pub struct SourceHandles(Arc<SharedHandles>);

#[derive(Debug)]
struct SharedHandles {
    /// Each with the number of its renames when it was added.
    known: Mutex<Vec<(Arc<Collection>, u32)>>,
    /// The number of the cursor's running command, counted from its first.
    command: AtomicU32,
    /// The read point of the running command.
    at: Mutex<ReadPoint>,
    /// The work done since it was last taken.
    effort: Mutex<Effort>,
}

/// The documents of one collection that pass a filter.
pub struct CollectionRows {
    walk: Walk,
    filter: Arc<Filter>,
    handles: SourceHandles,
    source: u32,
    /// The command for which these rows were last read.
    worked_for: u32,
    /// The number of rows still to skip.
    skip: u64,
    /// The number of rows still wanted.
    limit: Option<u64>,
    /// Rows are only counted, so they may be empty.
    count_only: bool,
    /// The order that the walk promises.
    sort: Option<Arc<Sort>>,
    /// The sorted rows, if the walk could not keep its promise.
    sorted: Option<Box<dyn Rows>>,
    /// The effort of these rows alone, for explain.
    counted: Arc<Mutex<Effort>>,
}

// === impl SourceHandles ===

impl SourceHandles {
    /// Creates handles without collections, to be read at `at`.
    pub fn new(at: ReadPoint) -> Self {
        Self(Arc::new(SharedHandles {
            known: Mutex::default(),
            command: AtomicU32::default(),
            at: Mutex::new(at),
            effort: Mutex::default(),
        }))
    }

    pub fn read_point(&self) -> ReadPoint {
        *self.0.at.lock()
    }

    /// Sets the read point of the command that continues the cursor.
    pub fn move_to(&self, at: ReadPoint) {
        *self.0.at.lock() = at;
    }

    /// Returns the number of a collection, and adds it if it is new.
    pub fn add(&self, collection: &Arc<Collection>) -> u32 {
        let mut known = self.0.known.lock();
        let at = known
            .iter()
            .position(|(other, _)| Arc::ptr_eq(other, collection))
            .unwrap_or_else(|| {
                known.push((Arc::clone(collection), collection.renames()));
                known.len() - 1
            });
        at as u32
    }

    /// Removes the rows whose documents have expired or were removed by the read point `at`. Fails if their collection was
    /// dropped or renamed.
    pub fn retain_visible(&self, batch: &mut RowBatch, at: ReadPoint) -> Result<()> {
        let known = self.0.known.lock().clone();
        for (number, (collection, renames)) in known.iter().enumerate() {
            collection.read(at, |view| {
                batch.retain(0, |row| match row.origin {
                    Some(origin) if origin.source as usize == number => {
                        let in_place = check_in_place(view, *renames);
                        in_place.map(|()| view.get(RecordId(origin.record)).is_some())
                    }
                    _ => Ok(true),
                })
            })?;
        }
        Ok(())
    }

    /// Returns the number of the cursor's running command, counted from its first.
    pub fn command(&self) -> u32 {
        self.0.command.load(Ordering::Relaxed)
    }

    /// Counts another command that continues the cursor.
    pub fn next_command(&self) {
        self.0.command.fetch_add(1, Ordering::Relaxed);
    }

    pub fn add_effort(&self, effort: Effort) {
        *self.0.effort.lock() += effort;
    }

    /// Returns the work done since the last call.
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

    /// Declares that the walk promises the order of `sort`, if there is one.
    #[must_use]
    pub fn in_order(mut self, sort: Option<Arc<Sort>>) -> Self {
        self.sort = sort;
        self
    }

    /// Returns the rows sorted. All documents are read before the first row is known.
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

    /// Sorts the remaining documents here, because the walk cannot keep its promised order.
    fn sort_instead(&mut self, sort: Arc<Sort>) -> &mut Box<dyn Rows> {
        let nothing = Walk::new(Arc::clone(self.walk.collection()), AccessPath::Nothing);
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

    /// Sets whether only the number of rows matters.
    #[must_use]
    pub fn count_only(mut self, only: bool) -> Self {
        self.count_only = only;
        self
    }

    /// Returns the counter of the work for these rows.
    pub fn counted(&self) -> Arc<Mutex<Effort>> {
        Arc::clone(&self.counted)
    }
}

impl Rows for CollectionRows {
    fn fill(&mut self, cx: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
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
            if pace == SlicePace::Unordered
                && let Some(sort) = sort.take()
            {
                return self.sort_instead(sort).fill(cx, out);
            }
            if pace == SlicePace::End || *limit == Some(0) {
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

    fn suspend(&mut self) -> usize {
        let sorted = self.sorted.as_mut().map_or(0, |rows| rows.suspend());
        sorted + self.walk.suspend()
    }
}
