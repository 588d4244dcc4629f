//! What a collection holds, and the one place where a document changes.
//!
//! Segments, the map of `_id`s, indexes, totals and bounds belong together: a document is in all of them or in none.
//! Their fields are private to this file. [`Contents::commit`] alone applies a [`Change`] to them; whatever is to watch
//! writes (a log, snapshots, validators, change streams) belongs there. The other functions that change something here
//! change no document: they add, fill and drop indexes, switch date rules and give memory back.
//!
//! A panic half-way would leave documents in some of them only. Each function that changes more than one thing is therefore
//! [`guarded`](Contents::guarded): the contents are marked as torn until it is through, and [`super::Collection`] closes itself when
//! it finds them so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::RecordId;
use super::expiry::dates::{Coming, earliest, same};
use super::idmap::{IdMap, with_id_key};
use super::index::{Index, IndexKeys, IndexNumber, IndexSpec};
use super::segment::Segment;
use super::segments::Segments;
use super::stored::{Stamp, Totals};
use crate::clock;
use crate::storage::expiry::Bounds;
use crate::ttl::{DefaultTtl, End};
use crate::value::{Doc, Millis, Patch};
use crate::wait::Signal;

pub(super) struct Contents {
    segments: Segments,
    /// The number of the next segment: never reused, also when all segments are gone.
    next_segment: u64,
    ids: IdMap,
    indexes: Vec<Index>,
    /// The number of the next index: never reused.
    next_index: u64,
    /// What lives in memory, ended or not.
    totals: Totals,
    /// Lower bounds over all segments.
    bounds: Bounds,
    /// The date rules to come, while their ends are being computed.
    coming: Option<Coming>,
    /// The shard of the `_id` map at which giving memory back goes on (behind the last one: indexes); `None` when there is
    /// nothing to give.
    shrink_from: Option<usize>,
    /// Ended documents that were removed, in all collections of the catalog together.
    freed: Arc<AtomicU64>,
    /// A document was added, or none will be any more.
    pub arrivals: Signal,
    /// The building of an index or a change of the date rules is over, one way or the other.
    pub settled: Signal,
    /// A change has begun and is not through.
    torn: bool,
    /// A test lets the next change panic half-way.
    #[cfg(test)]
    panics: bool,
}

/// A change of one document. The writer has checked that it may be made.
pub(super) enum Change<'a> {
    Insert {
        /// Of the key of its `_id`.
        hash: u64,
        bytes: &'a [u8],
        /// Its keys in each index.
        keys: &'a [IndexKeys],
        stamp: Stamp,
    },
    /// Other bytes under the same `_id`.
    Replace {
        id: RecordId,
        bytes: &'a [u8],
        /// Its keys in each index before and after; empty if they are all the same.
        before: &'a [IndexKeys],
        after: &'a [IndexKeys],
        stamp: Stamp,
    },
    /// A few other bytes in its place, on which no index and no rule depends.
    Patch {
        id: RecordId,
        patch: &'a Patch,
        ts: Millis,
    },
    /// A write that reached it and changed nothing but its `_ts`.
    Touch { id: RecordId, ts: Millis },
    /// All that belongs to it, whether it has ended or not.
    Remove { id: RecordId, cause: Cause },
}

/// Why a document is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// A client deleted it.
    Deleted,
    /// It has ended: the reaper came, or a write needed its place.
    Expired,
    /// It made way for a newer one in a capped collection.
    Evicted,
}

// === impl Contents ===

impl Contents {
    pub fn new(freed: Arc<AtomicU64>) -> Self {
        Self {
            segments: Segments::default(),
            next_segment: 0,
            ids: IdMap::new(),
            indexes: Vec::new(),
            next_index: 0,
            totals: Totals::default(),
            bounds: Bounds::NONE,
            coming: None,
            shrink_from: None,
            freed,
            arrivals: Signal::default(),
            settled: Signal::default(),
            torn: false,
            #[cfg(test)]
            panics: false,
        }
    }

    // --- What is there ---

    #[inline]
    pub fn segments(&self) -> &Segments {
        &self.segments
    }

    #[inline]
    pub fn ids(&self) -> &IdMap {
        &self.ids
    }

    #[inline]
    pub fn indexes(&self) -> &[Index] {
        &self.indexes
    }

    #[inline]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Nothing ends before this moment.
    #[inline]
    pub fn earliest_end(&self, default: DefaultTtl) -> End {
        self.bounds.earliest(default)
    }

    /// Memory waits to be given back.
    pub fn can_shrink(&self) -> bool {
        self.shrink_from.is_some()
    }

    /// A change of the date rules is being prepared.
    #[inline]
    pub fn has_coming(&self) -> bool {
        self.coming.is_some()
    }

    /// A change was begun and never came to its end: nothing here can be trusted.
    #[inline]
    pub fn is_torn(&self) -> bool {
        self.torn
    }

    /// Makes a change of more than one thing. If it panics half-way, the contents stay torn. One such change may be part of
    /// another.
    #[inline]
    fn guarded<T>(&mut self, change: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.torn, true);
        let done = change(self);
        self.torn = outer;
        done
    }

    /// Lets the next change panic half-way.
    #[cfg(test)]
    pub fn panic_half_way(&mut self) {
        self.panics = true;
    }

    /// Where a test may want a change to panic.
    #[inline(always)]
    fn half_way(&self) {
        #[cfg(test)]
        assert!(!self.panics, "a test wants this to fail half-way");
    }

    // --- The one way to change a document ---

    /// Applies a change, all of it. Returns the record that was written.
    #[inline]
    pub fn commit(&mut self, change: Change<'_>) -> RecordId {
        self.guarded(|contents| contents.apply(change))
    }

    #[inline]
    fn apply(&mut self, change: Change<'_>) -> RecordId {
        match change {
            Change::Insert {
                hash,
                bytes,
                keys,
                stamp,
            } => {
                let id = self.place(bytes, stamp);
                self.half_way();
                for (index, keys) in self.indexes.iter_mut().zip(keys) {
                    index.insert(keys, id);
                }
                self.ids.insert(hash, id);
                self.totals.count += 1;
                self.totals.bytes += bytes.len() as u64;
                self.bounds.include(stamp.own, stamp.ts, stamp.dates);
                self.arrivals.give();
                id
            }
            Change::Replace {
                id,
                bytes,
                before,
                after,
                stamp,
            } => {
                for (index, (before, after)) in
                    self.indexes.iter_mut().zip(before.iter().zip(after))
                {
                    if before != after {
                        index.remove(before, id);
                        index.insert(after, id);
                    }
                }
                self.half_way();
                if let Some(segment) = self.segments.get_mut(id.segment()) {
                    let len = segment.replace(id.slot(), bytes, stamp);
                    self.totals.bytes = self.totals.bytes - len as u64 + bytes.len() as u64;
                }
                self.bounds.include(stamp.own, stamp.ts, stamp.dates);
                id
            }
            Change::Patch { id, patch, ts } => {
                self.write_in_place(id, patch, ts);
                id
            }
            Change::Touch { id, ts } => {
                self.write_in_place(id, &Patch::default(), ts);
                id
            }
            Change::Remove { id, cause } => {
                self.take_out(id);
                if cause == Cause::Expired {
                    self.freed.fetch_add(1, Ordering::Relaxed);
                }
                id
            }
        }
    }

    #[inline]
    fn write_in_place(&mut self, id: RecordId, patch: &Patch, ts: Millis) {
        if let Some(segment) = self.segments.get_mut(id.segment())
            && let Some((own, dates)) = segment.patch(id.slot(), patch, ts)
        {
            self.half_way();
            self.bounds.include(own, ts, dates);
        }
    }

    fn place(&mut self, bytes: &[u8], stamp: Stamp) -> RecordId {
        if let Some((number, tail)) = self.segments.last_mut() {
            if number + 1 == self.next_segment && tail.has_room(bytes.len()) {
                return RecordId::new(number, tail.push(bytes, stamp));
            }
            tail.seal();
        }
        let mut segment = Segment::new(self.segments.last().map(|(_, tail)| tail));
        if self.coming.is_some() {
            segment.ask_coming(|_| End::NEVER);
        }
        let number = self.next_segment;
        self.next_segment += 1;
        let slot = segment.push(bytes, stamp);
        self.segments.push(number, segment);
        RecordId::new(number, slot)
    }

    fn take_out(&mut self, id: RecordId) {
        let Some(segment) = self.segments.get_mut(id.segment()) else {
            return;
        };
        let Some((bytes, ts)) = segment.document(id.slot()) else {
            return;
        };
        let doc = Doc::new(bytes);
        let hash = with_id_key(doc, |key| self.ids.hash(key));
        for index in &mut self.indexes {
            if let Ok(keys) = IndexKeys::of(&index.spec, doc, ts) {
                index.remove(&keys, id);
            }
        }
        self.ids.remove(hash, id);
        let len = segment.remove(id.slot());
        if segment.is_dead() {
            self.segments.remove(id.segment());
        }
        self.half_way();
        self.totals.count -= 1;
        self.totals.bytes -= len as u64;
        self.shrink_from.get_or_insert(0);
    }

    // --- Indexes ---

    pub fn begin_index(&mut self, spec: IndexSpec, now: Millis) -> IndexNumber {
        let number = IndexNumber(self.next_index);
        self.next_index += 1;
        self.indexes.push(Index::new(number, spec, now));
        number
    }

    /// Enters a document in an index that is being filled.
    pub fn fill_index(&mut self, at: usize, keys: &IndexKeys, id: RecordId) {
        self.guarded(|contents| contents.indexes[at].insert(keys, id));
    }

    /// Readers may use these indexes from now on; if one is on dates, its rule holds.
    pub fn finish_indexes(&mut self, picks: impl Fn(&Index) -> bool) {
        self.guarded(|contents| {
            let mut dated = false;
            for index in &mut contents.indexes {
                if picks(index) {
                    index.ready = true;
                    dated |= index.is_date_rule();
                }
            }
            if dated {
                contents.adopt_dates();
            }
            contents.settled.give();
        });
    }

    /// Drops indexes, ready or not, and hands them over, so that freeing a large one holds up nobody.
    pub fn drop_indexes(&mut self, picks: impl Fn(&Index) -> bool) -> Vec<Index> {
        self.guarded(|contents| {
            let (gone, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut contents.indexes)
                .into_iter()
                .partition(picks);
            contents.indexes = kept;
            if gone.iter().any(Index::is_date_rule) {
                contents.adopt_dates();
            }
            contents.settled.give();
            gone
        })
    }

    /// Changes how an index behaves, not what it holds.
    pub fn alter_index<T>(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut Index) -> T,
    ) -> Option<T> {
        self.guarded(|contents| {
            let index = contents
                .indexes
                .iter_mut()
                .find(|index| index.spec.name == name)?;
            let before = index.spec.expire_after;
            let done = change(index);
            index.altered += 1;
            if index.spec.expire_after != before {
                contents.adopt_dates();
            }
            Some(done)
        })
    }

    // --- Date rules ---

    /// The rules that hold.
    pub fn date_rules(&self) -> Vec<IndexSpec> {
        let rules = self.indexes.iter().filter(|index| index.is_date_rule());
        rules.map(|index| IndexSpec::clone(&index.spec)).collect()
    }

    /// The earliest end that they give a document.
    pub fn date_end(&self, doc: Doc<'_>) -> End {
        let rules = self.indexes.iter().filter(|index| index.is_date_rule());
        earliest(rules.map(|index| &*index.spec), doc)
    }

    /// The same under the rules to come.
    pub fn coming_end(&self, doc: Doc<'_>) -> End {
        match &self.coming {
            Some(coming) => earliest(coming.rules.iter(), doc),
            None => End::NEVER,
        }
    }

    pub fn begin_dates(&mut self, rules: Vec<IndexSpec>) -> Arc<[IndexSpec]> {
        let rules: Arc<[IndexSpec]> = rules.into();
        self.coming = Some(Coming {
            rules: Arc::clone(&rules),
            from: 0,
            until: self.next_segment,
        });
        rules
    }

    /// Computes ends under the rules to come; `true` when all are there.
    pub fn ask_dates(&mut self, until: Option<Instant>) -> bool {
        self.guarded(|contents| {
            let Some(coming) = &mut contents.coming else {
                return true;
            };
            for (number, segment) in contents.segments.rest_mut(coming.from) {
                if number >= coming.until {
                    break;
                }
                segment.ask_coming(|doc| earliest(coming.rules.iter(), doc));
                coming.from = number + 1;
                if until.is_some_and(|until| clock::monotonic() >= until) {
                    return false;
                }
            }
            coming.from = coming.until;
            true
        })
    }

    /// These rules will not come.
    pub fn forget_dates(&mut self, rules: &Arc<[IndexSpec]>) {
        let own = |coming: &Coming| Arc::ptr_eq(&coming.rules, rules);
        if !self.coming.as_ref().is_some_and(own) {
            return;
        }
        self.guarded(|contents| {
            contents.coming = None;
            contents.settled.give();
            for segment in contents.segments.all_mut() {
                segment.forget_coming();
            }
        });
    }

    /// The rules have changed: their ends hold from now on. They are there where somebody has prepared this, else they are
    /// computed on the spot (for a collection that is just being made).
    fn adopt_dates(&mut self) {
        self.guarded(|contents| {
            let rules = contents.date_rules();
            let prepared =
                |coming: &Coming| coming.from == coming.until && same(&coming.rules, &rules);
            if !contents.coming.as_ref().is_some_and(prepared) {
                contents.begin_dates(rules);
                contents.ask_dates(None);
            }
            contents.coming = None;
            contents.settled.give();
            for segment in contents.segments.all_mut() {
                segment.adopt_coming();
            }
            contents.half_way();
            contents.tighten();
        });
    }

    // --- Memory ---

    /// Makes the bounds as exact as those of the segments.
    pub fn tighten(&mut self) {
        let mut bounds = Bounds::NONE;
        for segment in self.segments.all() {
            bounds.merge(*segment.bounds());
        }
        self.bounds = bounds;
    }

    /// Rewrites a segment if enough of it is holes.
    pub fn compact(&mut self, segment: u64) {
        self.guarded(|contents| {
            if let Some(segment) = contents.segments.get_mut(segment) {
                segment.compact_if_worth_it();
            }
        });
    }

    /// Makes a segment's bounds exact.
    pub fn tighten_segment(&mut self, segment: u64) {
        if let Some(segment) = self.segments.get_mut(segment) {
            segment.tighten();
        }
    }

    /// Gives some memory back that the `_id` map and the indexes no longer need: a shard, or nodes with `some` entries of
    /// an index. Returns whether there may be more.
    pub fn shrink_some(&mut self, some: usize) -> bool {
        let Some(from) = self.shrink_from else {
            return false;
        };
        self.guarded(|contents| {
            contents.shrink_from = contents.ids.shrink_one(from);
            if contents.shrink_from.is_none() {
                let thin = contents
                    .indexes
                    .iter_mut()
                    .find(|index| index.wants_rewriting());
                if let Some(index) = thin {
                    index.rewrite(some);
                    contents.shrink_from = Some(IdMap::DONE);
                }
            }
            contents.shrink_from.is_some()
        })
    }

    /// Makes believe that a record's key has that hash, too.
    #[cfg(test)]
    pub fn share_hash(&mut self, hash: u64, id: RecordId) {
        self.ids.insert(hash, id);
    }

    /// Hands over all there is, so that freeing it holds up nobody. Numbers go on: none is given twice.
    pub fn take(&mut self) -> Self {
        self.arrivals.give();
        self.settled.give();
        let empty = Self {
            next_segment: self.next_segment,
            next_index: self.next_index,
            ..Self::new(Arc::clone(&self.freed))
        };
        std::mem::replace(self, empty)
    }
}
