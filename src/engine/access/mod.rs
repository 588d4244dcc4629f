//! Walks: reading the documents of a collection in slices.
//!
//! A [`Walk`] keeps a position (a record, an `_id` or an index entry), but neither a lock nor a document. Each
//! [`Walk::slice`] takes the shared lock for a few hundred documents at most. The next slice continues behind the position,
//! whatever was written in between. The walk tests each document against the whole filter, unless the plan is exact. A slow
//! filter is tested on copies, after the lock is released.

use std::collections::HashSet;
use std::ops::{Bound, ControlFlow, Range};
use std::sync::Arc;

use smallvec::SmallVec;

use super::Tail;
use super::plan::{Access, Direction, IndexScan, KeyRange};
use crate::effort::Effort;
use crate::engine::write::append_ts;
use crate::error::{Code, Error, Result};
use crate::query::Vars;
use crate::query::filter::Filter;
use crate::storage::index::{Entry, split};
use crate::storage::{Collection, ReadPoint, RecordId, Stored, View};
use crate::value::Doc;

/// The number of small documents ([`cost`]) that one lock hold reads.
const CHUNK: usize = 256;
/// The number of documents that one lock hold copies, if testing each of them may take long.
const FEW: usize = 8;
/// The largest number of documents that an index scan fetches together.
const AHEAD: usize = 32;

/// An access that is being walked.
pub struct Walk {
    collection: Arc<Collection>,
    access: Access,
    /// The accesses of a union that follow this one, the next one last.
    later: Vec<Access>,
    place: WalkPosition,
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
    begun: Option<u32>,
    /// The records seen so far, if a document can be seen twice (several keys, several ranges, a write that moves it).
    met: Option<HashSet<u64>>,
    show_ts: bool,
    /// The access yields only documents that pass the filter, so the walk does not test them.
    exact: bool,
    /// The caller relies on the order of the index.
    in_order: bool,
    scratch: Vec<u8>,
    /// The bytes of documents that are tested outside the lock.
    copies: Vec<u8>,
    /// The bytes that all accesses took before any was finished, once [`Walk::at_rest`] has computed them.
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

/// A copy of a document that is tested outside the lock.
struct Copied {
    id: RecordId,
    /// The range of its bytes in the buffer of all copies.
    bytes: Range<usize>,
    /// The stored document without its bytes.
    rest: Stored<'static>,
    /// The position and the effort of the walk after this document.
    place: WalkPosition,
    effort: Effort,
}

/// The reason why a slice ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// There may be more documents.
    More,
    /// The walk has read everything.
    End,
    /// The walk cannot keep the promised order, because a write has brought an array into the index. It has returned no
    /// document yet, so the caller continues and sorts the documents itself. Only a walk [`in_order`](Walk::in_order)
    /// returns this, and only before its first document.
    Unordered,
}

// === impl Copied ===

impl Copied {
    fn stored<'c>(&self, copies: &'c [u8]) -> Stored<'c> {
        Stored {
            bytes: copies.get(self.bytes.clone()).unwrap_or_default(),
            ..self.rest
        }
    }
}

// === impl Walk ===

impl Walk {
    pub fn new(collection: Arc<Collection>, access: Access) -> Self {
        let several = match &access {
            // With one range and no arrays, each document comes once. Whether there are arrays is checked when the index is
            // read.
            Access::IndexScan(scan) => scan.ranges.len() > 1,
            Access::Union(_) => true,
            _ => false,
        };
        let (access, later) = match access {
            Access::Union(mut ways) => {
                ways.reverse();
                (ways.pop().unwrap_or(Access::Nothing), ways)
            }
            access => (access, Vec::new()),
        };
        Self {
            collection,
            access,
            later,
            place: WalkPosition::Start,
            newest: None,
            tailing: false,
            renewed: false,
            begun: None,
            met: several.then(HashSet::new),
            show_ts: false,
            exact: false,
            in_order: false,
            scratch: Vec::new(),
            copies: Vec::new(),
            first_size: None,
            effort: Effort::default(),
        }
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

    /// Sets whether the caller relies on the order of the index. Such a caller sorts only if it gets [`Pace::Unordered`].
    #[must_use]
    pub fn in_order(mut self, relies: bool) -> Self {
        self.in_order = relies;
        self
    }

    /// Makes sure that each document comes once even if it moves within the index: for statements that write.
    #[must_use]
    pub fn for_writing(mut self) -> Self {
        if matches!(self.access, Access::IndexScan(_)) {
            self.met.get_or_insert_default();
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
    pub fn ways(&self) -> impl Iterator<Item = &Access> {
        std::iter::once(&self.access).chain(self.later.iter().rev())
    }

    /// Frees the buffers until the next command needs the walk again. Returns the number of bytes that it still uses.
    pub fn at_rest(&mut self) -> usize {
        self.scratch = Vec::new();
        self.copies = Vec::new();
        let ways = match self.first_size {
            Some(size) => size,
            None => self.ways().map(Access::size).sum(),
        };
        self.first_size = Some(ways);
        // A hash set has one extra byte per number and is never quite full.
        let met = self.met.as_ref().map_or(0, HashSet::capacity);
        ways + met * (size_of::<u64>() + 2)
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
    ) -> Result<Pace>
    where
        F: FnMut(Found<'_>) -> Result<ControlFlow<()>>,
    {
        let collection = Arc::clone(&self.collection);
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut test = Test {
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
                self.look(view, &mut test)
            })
        };
        self.effort.matched += test.matched;
        self.scratch = scratch;
        if matches!(pace, Ok(Pace::End)) {
            if let Some(next) = self.later.pop() {
                self.access = next;
                self.place = WalkPosition::Start;
                return Ok(Pace::More);
            }
            if !self.tailing {
                self.place = WalkPosition::End;
            }
        }
        pace
    }

    /// Tests some documents against a slow filter. It copies them under the lock and tests them after releasing it, so that
    /// no writer waits for the filter.
    fn test_copies<F: Sink>(
        &mut self,
        collection: &Collection,
        at: ReadPoint,
        test: &mut Test<'_, F>,
    ) -> Result<Pace> {
        let mut copied: SmallVec<[Copied; FEW]> = SmallVec::new();
        let mut bytes = std::mem::take(&mut self.copies);
        bytes.clear();
        let ended = collection.read(at, |view| {
            self.enter(view)?;
            self.copy(view, test.vars, &mut copied, &mut bytes)
        })?;
        for (nth, copy) in copied.iter().enumerate() {
            if test.offer(copy.id, copy.stored(&bytes))?.is_break() {
                // The walk will read the remaining copies again.
                self.place = copy.place.clone();
                self.effort = copy.effort;
                if let Some(met) = &mut self.met {
                    for other in copied.iter().skip(nth + 1) {
                        met.remove(&other.id.0);
                    }
                }
                self.copies = bytes;
                return Ok(Pace::More);
            }
        }
        self.copies = bytes;
        Ok(ended)
    }

    /// Copies the next documents without testing them.
    fn copy(
        &mut self,
        view: &View<'_>,
        vars: &Vars,
        copied: &mut SmallVec<[Copied; FEW]>,
        bytes: &mut Vec<u8>,
    ) -> Result<Pace> {
        /// The most bytes that one lock hold copies, though a single document may be larger.
        const MOST: usize = 1 << 20;
        let all = Filter::all();
        for _ in 0..CHUNK {
            let mut next = None;
            let mut take = |found: Found<'_>| {
                let start = bytes.len();
                bytes.extend_from_slice(found.stored.bytes);
                let rest = Stored {
                    bytes: &[],
                    ..found.stored
                };
                next = Some((found.id, start..bytes.len(), rest));
                Ok(ControlFlow::Break(()))
            };
            let pace = self.look(
                view,
                &mut Test {
                    chunk: 1,
                    filter: &all,
                    vars,
                    exact: true,
                    show_ts: false,
                    scratch: &mut Vec::new(),
                    matched: 0,
                    each: &mut take,
                },
            )?;
            if let Some((id, bytes, rest)) = next {
                copied.push(Copied {
                    id,
                    bytes,
                    rest,
                    place: self.place.clone(),
                    effort: self.effort,
                });
            }
            if pace != Pace::More {
                return Ok(pace);
            }
            if copied.len() == FEW || bytes.len() >= MOST {
                break;
            }
        }
        Ok(Pace::More)
    }

    /// Checks that the collection is still the one that the walk began with.
    fn enter(&mut self, view: &View<'_>) -> Result<()> {
        match self.begun {
            Some(_) if view.is_dropped() => return Err(dropped(view)),
            Some(renames) if renames != view.renames() => {
                return Err(Error::new(
                    Code::QueryPlanKilled,
                    format!("collection renamed to '{}'", view.namespace()),
                ));
            }
            Some(_) => {}
            None => self.begun = Some(view.renames()),
        }
        if std::mem::take(&mut self.renewed) {
            self.check_place(view)?;
        }
        self.newest.get_or_insert_with(|| view.newest());
        Ok(())
    }

    fn look<F: Sink>(&mut self, view: &View<'_>, test: &mut Test<'_, F>) -> Result<Pace> {
        let newest = self.newest.unwrap_or(RecordId::FIRST);
        match &self.access {
            Access::CollScan(Direction::Forward) => self.up(view, newest, test),
            Access::CollScan(Direction::Backward) => self.down(view, newest, test),
            Access::Ids(_) => self.by_id(view, test),
            Access::IndexScan(_) => self.by_index(view, test),
            // Unions are not nested.
            Access::Union(_) | Access::Nothing => Ok(Pace::End),
        }
    }

    /// Fails if a capped collection has evicted the document behind which the walk wants to continue: it cannot know what it
    /// missed. (A document that has expired is no error. The walk keeps its position.)
    fn check_place(&self, view: &View<'_>) -> Result<()> {
        match self.place {
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

    fn up<F: Sink>(
        &mut self,
        view: &View<'_>,
        newest: RecordId,
        test: &mut Test<'_, F>,
    ) -> Result<Pace> {
        let from = match self.place {
            WalkPosition::Start => RecordId::FIRST,
            WalkPosition::Record(last) => last.next(),
            _ => return Ok(Pace::End),
        };
        let mut left = test.chunk;
        let stopped = view.each_up(from, |id, stored| {
            if id > newest {
                return ControlFlow::Break(Ok(Pace::End));
            }
            self.meet(id, stored, &mut left, test)
        });
        stopped.break_value().unwrap_or(Ok(Pace::End))
    }

    fn down<F: Sink>(
        &mut self,
        view: &View<'_>,
        newest: RecordId,
        test: &mut Test<'_, F>,
    ) -> Result<Pace> {
        let from = match self.place {
            WalkPosition::Start => newest,
            WalkPosition::Record(last) => match last.previous() {
                Some(before) => before,
                None => return Ok(Pace::End),
            },
            _ => return Ok(Pace::End),
        };
        let mut left = test.chunk;
        let stopped = view.each_down(from, |id, stored| self.meet(id, stored, &mut left, test));
        stopped.break_value().unwrap_or(Ok(Pace::End))
    }

    /// Tests one document of a scan. The speed of scans depends on this function.
    #[inline(always)]
    fn meet<F: Sink>(
        &mut self,
        id: RecordId,
        stored: Stored<'_>,
        left: &mut usize,
        test: &mut Test<'_, F>,
    ) -> ControlFlow<Result<Pace>> {
        *left = left.saturating_sub(cost(&stored));
        self.place = WalkPosition::Record(id);
        self.effort.documents += 1;
        match test.offer(id, stored) {
            Ok(ControlFlow::Continue(())) if *left > 0 => ControlFlow::Continue(()),
            Ok(_) => ControlFlow::Break(Ok(Pace::More)),
            Err(error) => ControlFlow::Break(Err(error)),
        }
    }

    fn by_id<F: Sink>(&mut self, view: &View<'_>, test: &mut Test<'_, F>) -> Result<Pace> {
        let Access::Ids(keys) = &self.access else {
            return Ok(Pace::End);
        };
        let from = match self.place {
            WalkPosition::Start => {
                view.id_usage().note();
                0
            }
            WalkPosition::Id(next) => next,
            _ => return Ok(Pace::End),
        };
        let mut left = test.chunk;
        for (n, key) in keys.iter().enumerate().skip(from) {
            if left == 0 {
                return Ok(Pace::More);
            }
            left -= 1;
            self.place = WalkPosition::Id(n + 1);
            if let Some((id, stored)) = view.by_key(key) {
                left = left.saturating_sub(cost(&stored) - 1);
                self.effort.keys += 1;
                if self.met.as_mut().is_some_and(|met| !met.insert(id.0)) {
                    continue;
                }
                self.effort.documents += 1;
                self.effort.by_id += 1;
                if test.offer(id, stored)?.is_break() {
                    return Ok(Pace::More);
                }
            }
        }
        Ok(Pace::End)
    }

    fn by_index<F: Sink>(&mut self, view: &View<'_>, test: &mut Test<'_, F>) -> Result<Pace> {
        let Access::IndexScan(scan) = &mut self.access else {
            return Ok(Pace::End);
        };
        let Some(index) = view.numbered(scan.number).filter(|index| index.ready) else {
            let message = format!("query plan killed :: index '{}' dropped", scan.spec.name);
            return Err(Error::new(Code::QueryPlanKilled, message));
        };
        if matches!(self.place, WalkPosition::Start) && index.multikey != scan.multikey {
            // A write has brought an array into the index since the plan was made. The ranges no longer hold a key of every
            // matching document, so the walk reads all entries. Entries behind a field that was fixed to one value now come
            // in another order.
            scan.ranges = vec![KeyRange::everything()];
            test.exact = false;
            if std::mem::take(&mut self.in_order) {
                return Ok(Pace::Unordered);
            }
        }
        let IndexScan {
            ranges, direction, ..
        } = &*scan;
        if index.multikey != 0 {
            // A write may have made the index multikey since the walk began. Then a document has several keys, and the
            // bounds no longer express the whole filter.
            test.exact = false;
            self.met.get_or_insert_default();
        }
        let (mut at, mut last) = match std::mem::replace(&mut self.place, WalkPosition::End) {
            WalkPosition::Start => {
                index.usage.note();
                (0, None)
            }
            WalkPosition::Entry(range, last) => (range, last),
            _ => return Ok(Pace::End),
        };
        let mut stretch = IndexStretch {
            met: &mut self.met,
            effort: &mut self.effort,
            left: test.chunk,
            reach: 2,
        };
        while at < ranges.len() {
            if stretch.left == 0 {
                self.place = WalkPosition::Entry(at, last);
                return Ok(Pace::More);
            }
            let stopped = if *direction == Direction::Backward {
                // A backward scan walks the ranges from the last to the first.
                let range = &ranges[ranges.len() - 1 - at];
                let below = last.as_deref().unwrap_or(&range.upper);
                stretch.walk(view, index.down(&range.lower, below), test)?
            } else {
                let range = &ranges[at];
                let from = match &last {
                    Some(last) => Bound::Excluded(last.as_slice()),
                    None => Bound::Included(range.lower.as_slice()),
                };
                stretch.walk(view, index.up(from, &range.upper), test)?
            };
            if let ControlFlow::Break(entry) = stopped {
                let behind = entry.map(Entry::from_slice);
                self.place = WalkPosition::Entry(at, behind.or(last));
                return Ok(Pace::More);
            }
            // Finding that a range is empty takes about as long as reading an entry.
            stretch.left = stretch.left.saturating_sub(1);
            at += 1;
            last = None;
        }
        Ok(Pace::End)
    }
}

/// The state of one slice's walk through an index.
struct IndexStretch<'w> {
    met: &'w mut Option<HashSet<u64>>,
    effort: &'w mut Effort,
    /// The number of entries that the slice may still read.
    left: usize,
    /// The number of documents to fetch together next. It starts small, since the client may want no more.
    reach: usize,
}

// === impl IndexStretch ===

impl IndexStretch<'_> {
    /// Offers the documents of these entries. At the end of the slice it breaks with the last entry that it read, if any.
    fn walk<'e, F: Sink>(
        &mut self,
        view: &View<'_>,
        mut entries: impl Iterator<Item = &'e [u8]>,
        test: &mut Test<'_, F>,
    ) -> Result<ControlFlow<Option<&'e [u8]>>> {
        let mut current = None;
        let mut ahead: SmallVec<[&[u8]; AHEAD]> = SmallVec::new();
        let mut ids: SmallVec<[RecordId; AHEAD]> = SmallVec::new();
        let mut found: SmallVec<[Option<Stored<'_>>; AHEAD]> = SmallVec::new();
        while self.left > 0 {
            ahead.clear();
            ids.clear();
            for entry in entries.by_ref().take(self.reach.min(self.left)) {
                ahead.push(entry);
                ids.push(split(entry).1);
            }
            if ahead.is_empty() {
                return Ok(ControlFlow::Continue(()));
            }
            self.reach = AHEAD.min(self.reach * 4);
            view.get_several(&ids, &mut found);
            for ((&entry, &id), &stored) in ahead.iter().zip(&ids).zip(&found) {
                if self.left == 0 {
                    return Ok(ControlFlow::Break(current));
                }
                self.left -= 1;
                current = Some(entry);
                // The entry of an expired document does not count as work.
                let Some(stored) = stored else { continue };
                self.left = self.left.saturating_sub(cost(&stored) - 1);
                self.effort.keys += 1;
                if self.met.as_mut().is_some_and(|met| !met.insert(id.0)) {
                    continue;
                }
                self.effort.documents += 1;
                if test.offer(id, stored)?.is_break() {
                    return Ok(ControlFlow::Break(current));
                }
            }
        }
        Ok(ControlFlow::Break(current))
    }
}

/// Returns what reading a document counts as: a filter may read all of its bytes.
#[inline]
fn cost(stored: &Stored<'_>) -> usize {
    const SMALL: usize = 4096;
    1 + stored.bytes.len() / SMALL
}

/// Returns the error for a walk whose collection was dropped.
pub fn dropped(view: &View<'_>) -> Error {
    Error::new(
        Code::QueryPlanKilled,
        format!("collection dropped: {}", view.namespace()),
    )
}

trait Sink: FnMut(Found<'_>) -> Result<ControlFlow<()>> {}
impl<F: FnMut(Found<'_>) -> Result<ControlFlow<()>>> Sink for F {}

/// The test that every document passes through.
struct Test<'t, F> {
    /// The number of documents that may be read.
    chunk: usize,
    filter: &'t Filter,
    vars: &'t Vars,
    exact: bool,
    show_ts: bool,
    scratch: &'t mut Vec<u8>,
    matched: u64,
    each: &'t mut F,
}

// === impl Test ===

impl<F: Sink> Test<'_, F> {
    #[inline]
    fn offer(&mut self, id: RecordId, stored: Stored<'_>) -> Result<ControlFlow<()>> {
        let mut shown = Doc::new(stored.bytes);
        if self.show_ts {
            self.scratch.clear();
            append_ts(shown, stored.ts, self.scratch);
            shown = Doc::new(self.scratch);
        }
        if !self.exact && !self.filter.matches(shown, self.vars)? {
            return Ok(ControlFlow::Continue(()));
        }
        self.matched += 1;
        (self.each)(Found { id, stored, shown })
    }
}

#[cfg(test)]
mod tests;
