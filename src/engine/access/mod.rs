//! Walks: reading the documents of a collection in slices.
//!
//! A [`Walk`] keeps a position (a record, an `_id` or an index entry), but neither a lock nor a document. Each
//! [`Walk::slice`] takes the shared lock for a few hundred documents at most. The next slice continues behind the position,
//! whatever was written in between. The walk tests each document against the whole filter, unless the plan is exact. A slow
//! filter is tested on copies, after the lock is released.

mod copies;
mod index_scan;
mod offer;
mod scan;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::Tail;
use super::plan::{AccessPath, PlanSummary, ScanDirection};
use crate::effort::Effort;
use crate::error::{Code, Error, Result};
use crate::query::Vars;
use crate::query::filter::Filter;
use crate::storage::index::Entry;
use crate::storage::{Collection, ReadPoint, RecordId, Stored, View};
use crate::value::Doc;

use offer::{DocumentTest, OnFound};

/// The number of small documents ([`offer::cost`]) that one lock hold reads.
const CHUNK: usize = 256;

/// A read of the documents that an access path leads to.
pub struct Walk {
    collection: Arc<Collection>,
    access: AccessPath,
    /// The accesses of a union that follow this one, the next one last.
    later: Vec<AccessPath>,
    /// What all accesses of a union read, also those that are over.
    union: Option<PlanSummary>,
    position: WalkPosition,
    /// The newest record when the walk began. A statement does not see documents that are added later, by itself or by
    /// others.
    newest: Option<RecordId>,
    /// The walk belongs to a tailable cursor: a later command continues behind the last record and sees what was added
    /// since.
    tailing: bool,
    /// A later command has taken the walk over since the last slice.
    renewed: bool,
    /// How often the collection had been renamed when the walk began, or `None` before that. With it the walk notices a
    /// rename or a drop.
    renames_at_start: Option<u32>,
    /// The records seen so far, if a document can be seen twice (several keys, several ranges, a write that moves it).
    seen: Option<HashSet<u64>>,
    show_ts: bool,
    /// The access yields only documents that pass the filter, so the walk does not test them.
    exact: bool,
    /// The caller relies on the order of the index.
    in_order: bool,
    scratch: Vec<u8>,
    /// The bytes of documents that are tested outside the lock.
    copies: Vec<u8>,
    /// The bytes that all accesses took before any was finished, once [`Walk::suspend`] has computed them.
    first_size: Option<usize>,
    effort: Effort,
}

#[derive(Clone)]
enum WalkPosition {
    Start,
    /// Continue behind this record.
    Record(RecordId),
    /// Continue with the `_id` at this position.
    Id(usize),
    /// Continue in this range, behind this entry if there is one.
    Entry(usize, Option<Entry>),
    End,
}

/// A visible document that passed the filter.
pub struct Found<'a> {
    pub id: RecordId,
    pub stored: Stored<'a>,
    /// The document as the client sees it: with `_ts` if the client asked for it.
    pub shown: Doc<'a>,
}

/// The reason why a slice ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlicePace {
    /// There may be more documents.
    More,
    /// The walk has read everything.
    End,
    /// The walk cannot keep the promised order, because a write has brought an array into the index. It has returned no
    /// document yet, so the caller continues and sorts the documents itself. Only a walk [`in_order`](Walk::in_order)
    /// returns this, and only before its first document.
    Unordered,
}

// === impl Walk ===

impl Walk {
    pub fn new(collection: Arc<Collection>, access: AccessPath) -> Self {
        let several = match &access {
            // With one range and no arrays, each document comes once. Whether there are arrays is checked when the index is
            // read.
            AccessPath::IndexScan(scan) => scan.ranges.len() > 1,
            AccessPath::Union(_) => true,
            _ => false,
        };
        let union = matches!(access, AccessPath::Union(_)).then(|| PlanSummary::of([&access]));
        let (access, later) = match access {
            AccessPath::Union(mut accesses) => {
                accesses.reverse();
                (accesses.pop().unwrap_or(AccessPath::Nothing), accesses)
            }
            access => (access, Vec::new()),
        };
        Self {
            collection,
            access,
            later,
            union,
            position: WalkPosition::Start,
            newest: None,
            tailing: false,
            renewed: false,
            renames_at_start: None,
            seen: several.then(HashSet::new),
            show_ts: false,
            exact: false,
            in_order: false,
            scratch: Vec::new(),
            copies: Vec::new(),
            first_size: None,
            effort: Effort::default(),
        }
    }

    /// Returns what the whole walk reads.
    pub fn summary(&self) -> PlanSummary {
        let single = || PlanSummary::of([&self.access]);
        self.union.clone().unwrap_or_else(single)
    }

    /// Sets whether documents are shown (and filtered) with their `_ts`.
    #[must_use]
    pub fn show_ts(mut self, show: bool) -> Self {
        self.show_ts = show;
        self
    }

    /// Sets whether the access yields only documents that pass the filter.
    #[must_use]
    pub fn exact(mut self, exact: bool) -> Self {
        self.exact = exact;
        self
    }

    /// Sets whether the caller relies on the order of the index. Such a caller sorts only if it gets [`SlicePace::Unordered`].
    #[must_use]
    pub fn in_order(mut self, relies: bool) -> Self {
        self.in_order = relies;
        self
    }

    /// Makes sure that each document comes once even if it moves within the index: for statements that write.
    #[must_use]
    pub fn for_writing(mut self) -> Self {
        if matches!(self.access, AccessPath::IndexScan(_)) {
            self.seen.get_or_insert_default();
        }
        self
    }

    /// Sets whether the walk has no end: after the last document it waits for the next one.
    #[must_use]
    pub fn tailing(mut self, tailing: bool) -> Self {
        self.tailing = tailing;
        self
    }

    /// Prepares the walk for another command, which will see what was added since the last one.
    pub fn renew(&mut self) {
        self.newest = None;
        self.renewed = true;
    }

    /// Returns the accesses that are not finished yet.
    pub fn unfinished_accesses(&self) -> impl Iterator<Item = &AccessPath> {
        std::iter::once(&self.access).chain(self.later.iter().rev())
    }

    /// Frees the buffers until the next command needs the walk again. Returns the number of bytes that it still uses. From
    /// here on the walk notices a rename or a drop, even if it has not read anything yet.
    pub fn suspend(&mut self) -> usize {
        self.renames_at_start
            .get_or_insert_with(|| self.collection.renames());
        self.scratch = Vec::new();
        self.copies = Vec::new();
        let size = match self.first_size {
            Some(size) => size,
            None => self.unfinished_accesses().map(AccessPath::size).sum(),
        };
        self.first_size = Some(size);
        // A hash set has one extra byte per number and is never quite full.
        let seen = self.seen.as_ref().map_or(0, HashSet::capacity);
        size + seen * (size_of::<u64>() + 2)
    }

    /// Returns the work done since the last call.
    pub fn take_effort(&mut self) -> Effort {
        std::mem::take(&mut self.effort)
    }

    pub fn collection(&self) -> &Arc<Collection> {
        &self.collection
    }

    /// Returns the end of the collection, at which a tailable cursor waits.
    pub fn tail(&self) -> Tail {
        Tail::of(&self.collection)
    }

    /// Passes the next documents that match the filter to `each`, until `each` breaks or a few hundred documents were read.
    pub fn slice<F>(
        &mut self,
        at: ReadPoint,
        filter: &Filter,
        vars: &Vars,
        mut each: F,
    ) -> Result<SlicePace>
    where
        F: FnMut(Found<'_>) -> Result<ControlFlow<()>>,
    {
        let collection = Arc::clone(&self.collection);
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut test = DocumentTest {
            chunk: CHUNK,
            filter,
            vars,
            exact: self.exact,
            show_ts: self.show_ts,
            scratch: &mut scratch,
            matched: 0,
            each: &mut each,
        };
        let pace = if filter.is_slow() && !self.exact {
            self.test_copies(&collection, at, &mut test)
        } else {
            collection.read(at, |view| {
                self.enter(view)?;
                self.read_some(view, &mut test)
            })
        };
        self.effort.matched += test.matched;
        self.scratch = scratch;
        if matches!(pace, Ok(SlicePace::End)) {
            if let Some(next) = self.later.pop() {
                self.access = next;
                self.position = WalkPosition::Start;
                return Ok(SlicePace::More);
            }
            if !self.tailing {
                self.position = WalkPosition::End;
            }
        }
        pace
    }

    /// Checks that the collection is still the one that the walk began with.
    fn enter(&mut self, view: &View<'_>) -> Result<()> {
        match self.renames_at_start {
            Some(renames) => check_in_place(view, renames)?,
            None => self.renames_at_start = Some(view.renames()),
        }
        if std::mem::take(&mut self.renewed) {
            self.check_position(view)?;
        }
        self.newest.get_or_insert_with(|| view.newest());
        Ok(())
    }

    fn read_some<F: OnFound>(
        &mut self,
        view: &View<'_>,
        test: &mut DocumentTest<'_, F>,
    ) -> Result<SlicePace> {
        let newest = self.newest.unwrap_or(RecordId::FIRST);
        match &self.access {
            AccessPath::CollScan(ScanDirection::Forward) => self.scan_forward(view, newest, test),
            AccessPath::CollScan(ScanDirection::Backward) => self.scan_backward(view, newest, test),
            AccessPath::Ids(_) => self.read_ids(view, test),
            AccessPath::IndexScan(_) => self.scan_index(view, test),
            // Unions are not nested.
            AccessPath::Union(_) | AccessPath::Nothing => Ok(SlicePace::End),
        }
    }

    /// Fails if a capped collection has evicted the document behind which the walk wants to continue: it cannot know what
    /// it missed. (A document that has expired is no error. The walk keeps its position.)
    fn check_position(&self, view: &View<'_>) -> Result<()> {
        match self.position {
            WalkPosition::Record(last) if view.evicted().is_some_and(|gone| last <= gone) => {
                Err(Error::new(
                    Code::CappedPositionLost,
                    format!(
                        "CollectionScan died due to failure to restore tailable cursor position. Last seen record id: \
                         RecordId({})",
                        last.0
                    ),
                ))
            }
            _ => Ok(()),
        }
    }
}

/// Fails if a collection that is read in steps was dropped, or renamed more often than it was when the reading began.
pub fn check_in_place(view: &View<'_>, renames_at_start: u32) -> Result<()> {
    let message = if view.is_dropped() {
        format!("collection dropped: {}", view.namespace())
    } else if view.renames() != renames_at_start && !view.is_of_snapshot() {
        format!("collection renamed to '{}'", view.namespace())
    } else {
        return Ok(());
    };
    Err(Error::new(Code::QueryPlanKilled, message))
}

#[cfg(test)]
mod tests;
