//! Index scans: walks the ranges of an index, and fetches the documents of several entries together.

use std::collections::HashSet;
use std::iter::Peekable;
use std::ops::{Bound, ControlFlow, RangeBounds};

use smallvec::SmallVec;

use super::offer::{DocumentTest, OnFound, cost};
use super::{SlicePace, Walk, WalkPosition};
use crate::effort::Effort;
use crate::engine::plan::{AccessPath, IndexScan, KeyRange, ScanDirection, SkipBounds};
use crate::error::{Code, Error, Result};
use crate::storage::index::{Entry, Index, split};
use crate::storage::{RecordId, Stored, View};

/// The largest number of documents that an index scan fetches together.
const MAX_FETCH: usize = 32;

/// The entries of an index as a reader with a snapshot sees them: those of unchanged records, and in between those that
/// replace the entries of changed ones.
struct InOrder<'v, A: Iterator, B: Iterator> {
    view: &'v View<'v>,
    present: Peekable<A>,
    changed: Peekable<B>,
    descending: bool,
}

/// Why a walk does not reach the end of a range.
enum WalkStop<'e> {
    /// The slice is over behind this entry, if it has read any.
    SliceEnd(Option<&'e [u8]>),
    /// An entry is outside of the bounds of a later field. The walk goes on here: entries are longer than this position, so
    /// none is equal to it.
    Outside(Entry),
}

/// The state of one slice's walk through an index.
struct IndexSlice<'w> {
    seen: &'w mut Option<HashSet<u64>>,
    effort: &'w mut Effort,
    skip: Option<&'w SkipBounds>,
    direction: ScanDirection,
    /// The number of entries that the slice may still read.
    left: usize,
    /// The number of documents to fetch together next. It starts small, since the client may want no more.
    fetch: usize,
}

// === impl Walk ===

impl Walk {
    pub(super) fn scan_index<F: OnFound>(
        &mut self,
        view: &View<'_>,
        test: &mut DocumentTest<'_, F>,
    ) -> Result<SlicePace> {
        let AccessPath::IndexScan(scan) = &mut self.access else {
            return Ok(SlicePace::End);
        };
        let Some(index) = view.numbered(scan.number).filter(|index| index.ready) else {
            let message = format!("query plan killed :: index '{}' dropped", scan.spec.name);
            return Err(Error::new(Code::QueryPlanKilled, message));
        };
        if matches!(self.position, WalkPosition::Start) && index.multikey != scan.multikey {
            // A write has brought an array into the index since the plan was made. The ranges no longer hold a key of every
            // matching document, so the walk reads all entries. Entries behind a field that was fixed to one value now come
            // in another order.
            scan.ranges = vec![KeyRange::everything()];
            scan.skip = None;
            test.exact = false;
            if std::mem::take(&mut self.in_order) {
                return Ok(SlicePace::Unordered);
            }
        }
        let IndexScan {
            ranges,
            skip,
            direction,
            ..
        } = &*scan;
        if !index.multikey.is_empty() {
            // A write may have made the index multikey since the walk began. Then a document has several keys, and the
            // bounds no longer express the whole filter.
            test.exact = false;
            self.seen.get_or_insert_default();
        }
        let (mut at, mut last) = match std::mem::replace(&mut self.position, WalkPosition::End) {
            WalkPosition::Start => {
                index.usage.note();
                (0, None)
            }
            WalkPosition::Entry(range, last) => (range, last),
            _ => return Ok(SlicePace::End),
        };
        let mut slice = IndexSlice {
            seen: &mut self.seen,
            effort: &mut self.effort,
            skip: skip.as_deref(),
            direction: *direction,
            left: test.chunk,
            fetch: 2,
        };
        let changed = view.changed_entries(index);
        while at < ranges.len() {
            if slice.left == 0 {
                self.position = WalkPosition::Entry(at, last);
                return Ok(SlicePace::More);
            }
            let range = match direction {
                ScanDirection::Forward => &ranges[at],
                // A backward scan walks the ranges from the last to the first.
                ScanDirection::Backward => &ranges[ranges.len() - 1 - at],
            };
            let stopped = if *direction == ScanDirection::Backward {
                let below = last.as_deref().unwrap_or(&range.upper);
                let present = index.down(&range.lower, below);
                match &changed {
                    None => slice.walk(view, present, test)?,
                    Some(changed) => {
                        let inside = |entry: &&[u8]| *entry >= &range.lower[..] && *entry < below;
                        let changed = changed.iter().rev().map(|entry| &entry[..]);
                        let entries = InOrder::down(view, present, changed.filter(inside));
                        slice.walk(view, entries, test)?
                    }
                }
            } else {
                let from = match &last {
                    Some(last) => Bound::Excluded(last.as_slice()),
                    None => Bound::Included(range.lower.as_slice()),
                };
                let present = index.up(from, &range.upper);
                match &changed {
                    None => slice.walk(view, present, test)?,
                    Some(changed) => {
                        let upper = Bound::Excluded(&range.upper[..]);
                        let inside =
                            |entry: &&[u8]| RangeBounds::<[u8]>::contains(&(from, upper), *entry);
                        let changed = changed.iter().map(|entry| &entry[..]);
                        let entries = InOrder::up(view, present, changed.filter(inside));
                        slice.walk(view, entries, test)?
                    }
                }
            };
            match stopped {
                ControlFlow::Continue(()) => {
                    let reads_behind =
                        skip.is_some() && reads_behind(index, range, *direction, last.as_deref());
                    slice.effort.keys += u64::from(reads_behind);
                }
                ControlFlow::Break(WalkStop::Outside(target)) => {
                    last = Some(target);
                    continue;
                }
                ControlFlow::Break(WalkStop::SliceEnd(entry)) => {
                    let behind = entry.map(Entry::from_slice);
                    self.position = WalkPosition::Entry(at, behind.or(last));
                    return Ok(SlicePace::More);
                }
            }
            // Finding that a range is empty takes about as long as reading an entry.
            slice.left = slice.left.saturating_sub(1);
            at += 1;
            last = None;
        }
        Ok(SlicePace::End)
    }
}

/// Returns whether a scan that skips entries meets one behind the range, and so finds that the range is over. This entry
/// counts as read, as in MongoDB. `last` is where the scan went on.
fn reads_behind(
    index: &Index,
    range: &KeyRange,
    direction: ScanDirection,
    last: Option<&[u8]>,
) -> bool {
    match direction {
        ScanDirection::Forward => {
            let mut behind = index.up(Bound::Included(&range.upper), &[0xff]);
            last.is_none_or(|last| last < &range.upper[..]) && behind.next().is_some()
        }
        ScanDirection::Backward => {
            let mut behind = index.down(&[0], &range.lower);
            last.is_none_or(|last| last > &range.lower[..]) && behind.next().is_some()
        }
    }
}

// === impl InOrder ===

impl<'v, 'e, A, B> InOrder<'v, A, B>
where
    A: Iterator<Item = &'e [u8]>,
    B: Iterator<Item = &'e [u8]>,
{
    fn up(view: &'v View<'v>, present: A, changed: B) -> Self {
        Self {
            view,
            present: present.peekable(),
            changed: changed.peekable(),
            descending: false,
        }
    }

    fn down(view: &'v View<'v>, present: A, changed: B) -> Self {
        Self {
            descending: true,
            ..Self::up(view, present, changed)
        }
    }
}

impl<'e, A, B> Iterator for InOrder<'_, A, B>
where
    A: Iterator<Item = &'e [u8]>,
    B: Iterator<Item = &'e [u8]>,
{
    type Item = &'e [u8];

    fn next(&mut self) -> Option<&'e [u8]> {
        let view = self.view;
        let is_changed = |entry: &&[u8]| !view.is_unchanged(split(entry).1);
        while self.present.next_if(is_changed).is_some() {}
        match (self.present.peek(), self.changed.peek()) {
            (Some(present), Some(changed)) if (present > changed) != self.descending => {
                self.changed.next()
            }
            (Some(_), _) => self.present.next(),
            (None, _) => self.changed.next(),
        }
    }
}

// === impl IndexSlice ===

impl IndexSlice<'_> {
    /// Offers the documents of these entries.
    fn walk<'e, F: OnFound>(
        &mut self,
        view: &View<'_>,
        mut entries: impl Iterator<Item = &'e [u8]>,
        test: &mut DocumentTest<'_, F>,
    ) -> Result<ControlFlow<WalkStop<'e>>> {
        let mut current = None;
        let mut batch: SmallVec<[&[u8]; MAX_FETCH]> = SmallVec::new();
        let mut ids: SmallVec<[RecordId; MAX_FETCH]> = SmallVec::new();
        let mut found: SmallVec<[Option<Stored<'_>>; MAX_FETCH]> = SmallVec::new();
        while self.left > 0 {
            batch.clear();
            ids.clear();
            let mut outside = None;
            for entry in entries.by_ref().take(self.fetch.min(self.left)) {
                outside = self
                    .skip
                    .and_then(|skip| skip.target(entry, self.direction));
                if outside.is_some() {
                    break;
                }
                batch.push(entry);
                ids.push(split(entry).1);
            }
            if batch.is_empty() && outside.is_none() {
                return Ok(ControlFlow::Continue(()));
            }
            self.fetch = MAX_FETCH.min(self.fetch * 4);
            view.get_several(&ids, &mut found);
            for ((&entry, &id), &stored) in batch.iter().zip(&ids).zip(&found) {
                if self.left == 0 {
                    return Ok(ControlFlow::Break(WalkStop::SliceEnd(current)));
                }
                self.left -= 1;
                current = Some(entry);
                // The entry of an expired document does not count as work.
                let Some(stored) = stored else { continue };
                self.left = self.left.saturating_sub(cost(&stored) - 1);
                self.effort.keys += 1;
                if self.seen.as_mut().is_some_and(|seen| !seen.insert(id.0)) {
                    continue;
                }
                self.effort.documents += 1;
                if test.offer(id, stored)?.is_break() {
                    return Ok(ControlFlow::Break(WalkStop::SliceEnd(current)));
                }
            }
            if let Some(target) = outside
                && self.left > 0
            {
                self.left -= 1;
                self.effort.keys += 1;
                return Ok(ControlFlow::Break(WalkStop::Outside(Entry::from_vec(
                    target,
                ))));
            }
        }
        Ok(ControlFlow::Break(WalkStop::SliceEnd(current)))
    }
}
