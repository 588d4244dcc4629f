//! The ways to a collection's documents, walked in slices.
//!
//! A [`Walk`] keeps a place (a record, or an index entry), never a lock and never a document. Each [`Walk::slice`]
//! takes the shared lock for a few hundred documents at most, and goes on behind its place next time, whatever was
//! written in between. What an access yields is tested against the whole filter, unless the plan says that it is exact.
//! A filter that may take long is tested on copies, when the lock is free again.

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

/// Documents looked at in one lock hold, if they are small ([`cost`]).
const CHUNK: usize = 256;
/// Documents copied in one lock hold, where testing each of them may take long.
const FEW: usize = 8;
/// Documents behind an index that are asked for ahead of their turn.
const AHEAD: usize = 32;

/// A way being walked.
pub struct Walk {
    collection: Arc<Collection>,
    access: Access,
    /// The ways still to be walked behind this one, the next one last.
    later: Vec<Access>,
    place: Place,
    /// The newest record when the walk began: a statement does not meet what it (or anybody else) adds meanwhile.
    newest: Option<RecordId>,
    /// What is added later is met by later commands, behind the last record of today.
    tailing: bool,
    /// Another command goes on with it.
    renewed: bool,
    /// Once it has begun, its collection cannot be gone or called otherwise without its noticing: how often it had been
    /// renamed.
    begun: Option<u32>,
    /// Records met before, where a document can be met twice (several keys, several ranges, a write that moves it).
    met: Option<HashSet<u64>>,
    show_ts: bool,
    /// The way itself is the filter: what it leads to needs no test.
    exact: bool,
    /// Whoever walks it relies on the order of its index.
    in_order: bool,
    scratch: Vec<u8>,
    /// Documents that are tested outside the lock.
    copies: Vec<u8>,
    /// Bytes that the ways took when they were all still to be walked, once that was asked.
    first_size: Option<usize>,
    effort: Effort,
}

#[derive(Clone)]
enum Place {
    Start,
    /// Go on behind this record.
    Record(RecordId),
    /// Go on with this `_id`.
    Id(usize),
    /// Go on in this range behind this entry, if one was met.
    Entry(usize, Option<Entry>),
    End,
}

/// A visible document that passed the filter.
pub struct Found<'a> {
    pub id: RecordId,
    pub stored: Stored<'a>,
    /// The document as the client sees it: with `_ts`, if it asked for that.
    pub shown: Doc<'a>,
}

/// A document that is tested outside the lock.
struct Copied {
    id: RecordId,
    /// Where its bytes stand among those of all copies.
    bytes: Range<usize>,
    /// All but the bytes.
    rest: Stored<'static>,
    /// Where the walk stood and what it had counted behind this document.
    place: Place,
    effort: Effort,
}

/// Why a slice ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// There may be more.
    More,
    /// All has been looked at.
    End,
    /// The order that was promised cannot be kept, since a write has brought an array into the index. Nothing was handed over
    /// yet: go on, and sort what comes. Only a walk [`in_order`](Walk::in_order) says so, before all else.
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
            // With one range and no arrays every document is met once; the rest is found out when the index is seen.
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
            place: Place::Start,
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

    /// Documents are shown (and filtered) with their `_ts`.
    #[must_use]
    pub fn show_ts(mut self, show: bool) -> Self {
        self.show_ts = show;
        self
    }

    /// The way leads to nothing that the filter would not let pass.
    #[must_use]
    pub fn exact(mut self, exact: bool) -> Self {
        self.exact = exact;
        self
    }

    /// Whoever walks it relies on the order of its index, and sorts only if the walk says so ([`Pace::Unordered`]).
    #[must_use]
    pub fn in_order(mut self, relies: bool) -> Self {
        self.in_order = relies;
        self
    }

    /// Every document is met once even if it moves within the index meanwhile: for statements that write.
    #[must_use]
    pub fn for_writing(mut self) -> Self {
        if matches!(self.access, Access::IndexScan(_)) {
            self.met.get_or_insert_default();
        }
        self
    }

    /// It has no end: where the documents end it waits for the next.
    #[must_use]
    pub fn tailing(mut self, tailing: bool) -> Self {
        self.tailing = tailing;
        self
    }

    /// Another command goes on with it: it will meet what was added since the one before.
    pub fn renew(&mut self) {
        self.newest = None;
        self.renewed = true;
    }

    /// The ways that it consists of and has not walked to their end.
    pub fn ways(&self) -> impl Iterator<Item = &Access> {
        std::iter::once(&self.access).chain(self.later.iter().rev())
    }

    /// Nobody goes on with it until the next command: lets go of what can be made again, and says how many bytes stay.
    pub fn at_rest(&mut self) -> usize {
        self.scratch = Vec::new();
        self.copies = Vec::new();
        let ways = match self.first_size {
            Some(size) => size,
            None => self.ways().map(Access::size).sum(),
        };
        self.first_size = Some(ways);
        // A set has a byte beside each number, and is never quite full.
        let met = self.met.as_ref().map_or(0, HashSet::capacity);
        ways + met * (size_of::<u64>() + 2)
    }

    /// What it has done since this was last asked.
    pub fn take_effort(&mut self) -> Effort {
        std::mem::take(&mut self.effort)
    }

    pub fn collection(&self) -> &Arc<Collection> {
        &self.collection
    }

    /// The end of what it walks.
    pub fn tail(&self) -> Tail {
        Tail::of(&self.collection)
    }

    /// Hands the next documents that pass the filter to `each`, until it breaks or some hundred documents were looked at.
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
                self.place = Place::Start;
                return Ok(Pace::More);
            }
            if !self.tailing {
                self.place = Place::End;
            }
        }
        pace
    }

    /// Tests some documents against a filter that may take long. Nobody waits for that: they are copied under the lock, and
    /// tested when it is free again.
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
                // The others are to be met again.
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

    /// Copies the next documents, whatever they are.
    fn copy(
        &mut self,
        view: &View<'_>,
        vars: &Vars,
        copied: &mut SmallVec<[Copied; FEW]>,
        bytes: &mut Vec<u8>,
    ) -> Result<Pace> {
        /// Bytes that are copied in one lock hold; one document may be larger.
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

    /// Whether the collection is still the one that the walk began with.
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
            // They are not nested.
            Access::Union(_) | Access::Nothing => Ok(Pace::End),
        }
    }

    /// In a capped collection the document behind which a reader wants to go on may have made way: it cannot know what
    /// it missed. (One that has ended leaves a reader where it was: expiry is no error.)
    fn check_place(&self, view: &View<'_>) -> Result<()> {
        match self.place {
            Place::Record(last) if view.evicted().is_some_and(|gone| last <= gone) => {
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
            Place::Start => RecordId::FIRST,
            Place::Record(last) => last.next(),
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
            Place::Start => newest,
            Place::Record(last) => match last.previous() {
                Some(before) => before,
                None => return Ok(Pace::End),
            },
            _ => return Ok(Pace::End),
        };
        let mut left = test.chunk;
        let stopped = view.each_down(from, |id, stored| self.meet(id, stored, &mut left, test));
        stopped.break_value().unwrap_or(Ok(Pace::End))
    }

    /// One document of a scan: this is what its speed is made of.
    #[inline(always)]
    fn meet<F: Sink>(
        &mut self,
        id: RecordId,
        stored: Stored<'_>,
        left: &mut usize,
        test: &mut Test<'_, F>,
    ) -> ControlFlow<Result<Pace>> {
        *left = left.saturating_sub(cost(&stored));
        self.place = Place::Record(id);
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
            Place::Start => {
                view.id_usage().note();
                0
            }
            Place::Id(next) => next,
            _ => return Ok(Pace::End),
        };
        let mut left = test.chunk;
        for (n, key) in keys.iter().enumerate().skip(from) {
            if left == 0 {
                return Ok(Pace::More);
            }
            left -= 1;
            self.place = Place::Id(n + 1);
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
        if matches!(self.place, Place::Start) && index.multikey != scan.multikey {
            // A write has brought an array since the plan was made. The ranges no longer hold a key of every document that
            // passes, so all entries are looked at; and behind a field that was fixed to one value they come in another order.
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
            // A write may have made it so since the walk began: then a document has several keys, and what the bounds say is
            // no longer all that the filter says.
            test.exact = false;
            self.met.get_or_insert_default();
        }
        let (mut at, mut last) = match std::mem::replace(&mut self.place, Place::End) {
            Place::Start => {
                index.usage.note();
                (0, None)
            }
            Place::Entry(range, last) => (range, last),
            _ => return Ok(Pace::End),
        };
        let mut stretch = Stretch {
            met: &mut self.met,
            effort: &mut self.effort,
            left: test.chunk,
            reach: 2,
        };
        while at < ranges.len() {
            if stretch.left == 0 {
                self.place = Place::Entry(at, last);
                return Ok(Pace::More);
            }
            let stopped = if *direction == Direction::Backward {
                // The ranges themselves are walked from the last to the first.
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
                self.place = Place::Entry(at, behind.or(last));
                return Ok(Pace::More);
            }
            // To find that a range is empty takes about as long as to look at an entry.
            stretch.left = stretch.left.saturating_sub(1);
            at += 1;
            last = None;
        }
        Ok(Pace::End)
    }
}

/// What is left of a slice's walk through an index.
struct Stretch<'w> {
    met: &'w mut Option<HashSet<u64>>,
    effort: &'w mut Effort,
    /// Entries that may still be looked at.
    left: usize,
    /// Entries whose documents are fetched together next: only few at first, since the client may want no more.
    reach: usize,
}

// === impl Stretch ===

impl Stretch<'_> {
    /// Offers what these entries lead to. Breaks with the last of them that was looked at, if any, when the slice is over.
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
                // The entry of a document that has ended is not there, whoever counts.
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

/// What a look at a document counts as: a filter may have to go through all of its bytes.
#[inline]
fn cost(stored: &Stored<'_>) -> usize {
    const SMALL: usize = 4096;
    1 + stored.bytes.len() / SMALL
}

/// What a reader is told whose collection is gone.
pub fn dropped(view: &View<'_>) -> Error {
    Error::new(
        Code::QueryPlanKilled,
        format!("collection dropped: {}", view.namespace()),
    )
}

trait Sink: FnMut(Found<'_>) -> Result<ControlFlow<()>> {}
impl<F: FnMut(Found<'_>) -> Result<ControlFlow<()>>> Sink for F {}

/// What every document goes through.
struct Test<'t, F> {
    /// Documents that may be looked at.
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
