//! The one write path: every change of a document goes through here, all or nothing.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use super::by_id::has_key;
use super::collection::State;
use super::idmap::{IdMap, with_id_key};
use super::index::{Index, IndexKeys, KeyBytes};
use super::segment::Segment;
use super::stored::Stamp;
use super::ttl::{End, OwnTtl};
use super::{Cap, Collection, RecordId, Stored, View};
use crate::error::Error;
use crate::value::{Doc, Millis, Patch};

/// A change under the exclusive lock.
pub struct Writer<'a> {
    pub(super) state: &'a mut State,
    pub(super) ids: &'a IdMap,
    /// How many ended documents have been freed so far.
    freed: &'a AtomicU64,
    /// When the command began: what `_ts` becomes, see [`Writer::ts_after`].
    pub(super) now: Millis,
    /// Whatever had ended by then is gone for this writer: at least `now`.
    pub(super) seen: Millis,
}

/// Why a write was not made. Nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// Another visible document holds the key. `index` is `None` for `_id`.
    Duplicate {
        index: Option<Box<UniqueIndex>>,
        holder: RecordId,
    },
    /// The document cannot be indexed.
    Unindexable(Error),
    /// It is larger than the server takes.
    TooLarge(Error),
}

/// A unique index whose key is taken, as the error message about it needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueIndex {
    pub name: String,
    pub key: crate::value::DocBuf,
    /// The key that is taken: one of several where the document has arrays.
    pub taken: KeyBytes,
}

/// What is known of the root field `ttl` of a document that takes another's place, and has not to be looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewTtl {
    Unknown,
    /// What it was.
    Same,
    Absent,
}

/// What became of a conditional replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replaced {
    /// With the `_ts` that the document had before, and the one that it has now.
    Done {
        before: Millis,
        ts: Millis,
    },
    /// The document is not the one that the caller has seen (changed, gone or ended): look again.
    Stale,
    Refused(Refused),
}

type AllKeys = SmallVec<[IndexKeys; 2]>;

// === impl NewTtl ===

impl NewTtl {
    /// That of a new document, whose place had one with `before`.
    pub(super) fn read(self, bytes: &[u8], before: OwnTtl) -> OwnTtl {
        let own = match self {
            Self::Unknown => OwnTtl::of(Doc::new(bytes)),
            Self::Same => before,
            Self::Absent => OwnTtl::NONE,
        };
        debug_assert_eq!(own, OwnTtl::of(Doc::new(bytes)));
        own
    }
}

// === impl Writer ===

impl<'a> Writer<'a> {
    /// `seen` is what [`Collection::seen`] says of `now`. It is the earlier of the two only if the clock was set back since the
    /// command began: then the document is written now, and not in a future that it would have to live through first.
    pub(super) fn new(
        collection: &'a Collection,
        state: &'a mut State,
        now: Millis,
        seen: Millis,
    ) -> Self {
        Self {
            state,
            ids: &collection.ids,
            freed: &collection.freed,
            now: now.min(seen),
            seen,
        }
    }

    /// What a reader would see now.
    pub fn view(&self) -> View<'_> {
        View::new(self.state, self.ids, self.seen)
    }

    /// Adds a document, which has an `_id`. Ended documents that hold its `_id` or a unique key make way.
    pub fn insert(&mut self, bytes: &[u8]) -> Result<RecordId, Refused> {
        self.check_size(bytes)?;
        let doc = Doc::new(bytes);
        let mut in_the_way: SmallVec<[RecordId; 2]> = SmallVec::new();
        let (hash, holder) = with_id_key(doc, |key| {
            let hash = self.ids.hash(key);
            (hash, self.holder(hash, key))
        });
        if let Some(holder) = holder {
            if self.is_visible(holder) {
                return Err(Refused::Duplicate {
                    index: None,
                    holder,
                });
            }
            in_the_way.push(holder);
        }
        let keys = self.keys_of(doc, self.now)?;
        for (index, keys) in self.state.indexes.iter().zip(&keys) {
            self.check_unique(index, keys, None, &mut in_the_way)?;
        }
        self.free(&in_the_way);
        let stamp = self.stamp(doc, self.now, OwnTtl::of(doc));
        let id = self.place(bytes, stamp);
        for (index, keys) in self.state.indexes.iter_mut().zip(&keys) {
            index.insert(keys, id);
        }
        self.ids.insert(hash, id);
        self.state.totals.count += 1;
        self.state.totals.bytes += bytes.len() as u64;
        self.state.bounds.include(stamp.own, stamp.ts, stamp.dates);
        if let Some(cap) = self.state.options.cap {
            self.make_room(cap, id);
        }
        Ok(id)
    }

    /// Removes documents until a capped collection holds no more than it may: first those that have ended, which count for
    /// nobody, then the oldest. The newest always stays. What is in memory is counted, so this costs nothing while it fits.
    fn make_room(&mut self, cap: Cap, newest: RecordId) {
        let seen = self.seen;
        while !cap.holds(self.state.totals) && self.reap_some(seen) {}
        while !cap.holds(self.state.totals) {
            // Nothing here has ended, so the first record is the oldest document; and behind the last that made way it is near.
            let from = self.state.evicted.unwrap_or(RecordId::FIRST);
            let first = |id, _: Stored<'_>| ControlFlow::Break(id);
            let oldest = self.view().each_up(from, first).break_value();
            let Some(oldest) = oldest.filter(|id| *id != newest) else {
                return;
            };
            self.state.evicted = Some(oldest);
            self.remove(oldest);
        }
    }

    /// Gives the document `expected` its new bytes (same `_id`), if it still is the one that the caller has seen. Comparing
    /// the bytes themselves needs no version counter, and a document that came back to the same value is as good as untouched.
    pub fn replace(
        &mut self,
        id: RecordId,
        expected: &[u8],
        bytes: &[u8],
        new_ttl: NewTtl,
    ) -> Replaced {
        let Some((ts, own)) = self.unchanged(id, expected) else {
            return Replaced::Stale;
        };
        let own = new_ttl.read(bytes, own);
        let replaced = self
            .check_size(bytes)
            .and_then(|()| self.replace_checked(id, expected, bytes, ts, own));
        match replaced {
            Ok(()) => Replaced::Done {
                before: ts,
                ts: self.ts_after(ts),
            },
            Err(refused) => Replaced::Refused(refused),
        }
    }

    pub(super) fn check_size(&self, bytes: &[u8]) -> Result<(), Refused> {
        match &self.state.limit {
            Some(limit) if bytes.len() > limit.bytes => Err(Refused::TooLarge((limit.refusal)())),
            _ => Ok(()),
        }
    }

    /// The `_ts` and the ttl of a visible document, if it still has these bytes.
    fn unchanged(&self, id: RecordId, expected: &[u8]) -> Option<(Millis, OwnTtl)> {
        let stored = self.visible(id)?;
        (stored.bytes == expected).then_some((stored.ts, stored.own))
    }

    fn replace_checked(
        &mut self,
        id: RecordId,
        old: &[u8],
        bytes: &[u8],
        ts: Millis,
        own: OwnTtl,
    ) -> Result<(), Refused> {
        let doc = Doc::new(bytes);
        let written = self.ts_after(ts);
        if !self.state.indexes.is_empty() {
            let before = self.keys_of(Doc::new(old), ts)?;
            let after = self.keys_of(doc, written)?;
            let mut in_the_way: SmallVec<[RecordId; 2]> = SmallVec::new();
            for (index, (before, after)) in self.state.indexes.iter().zip(before.iter().zip(&after))
            {
                if before != after {
                    self.check_unique(index, after, Some((id, before)), &mut in_the_way)?;
                }
            }
            self.free(&in_the_way);
            for (index, (before, after)) in
                self.state.indexes.iter_mut().zip(before.iter().zip(&after))
            {
                if before != after {
                    index.remove(before, id);
                    index.insert(after, id);
                }
            }
        }
        self.write_over(id, old.len(), bytes, self.stamp(doc, written, own));
        Ok(())
    }

    /// Gives a document of `len` bytes others.
    pub(super) fn write_over(&mut self, id: RecordId, len: usize, bytes: &[u8], stamp: Stamp) {
        if let Some(segment) = self.state.segments.get_mut(id.segment()) {
            segment.replace(id.slot(), bytes, stamp);
        }
        self.state.totals.bytes = self.state.totals.bytes - len as u64 + bytes.len() as u64;
        self.state.bounds.include(stamp.own, stamp.ts, stamp.dates);
    }

    /// A write that matches a document and changes nothing still restarts its clock.
    pub fn touch(&mut self, id: RecordId, expected: &[u8]) -> Replaced {
        if self.state.indexes.iter().any(|index| index.spec.names_ts()) {
            // The key of such an index is the time of the last write, and it may be unique: go the long way.
            return self.replace(id, expected, expected, NewTtl::Same);
        }
        let Some((before, own)) = self.unchanged(id, expected) else {
            return Replaced::Stale;
        };
        let ts = self.ts_after(before);
        self.patch_at(id, &Patch::default(), own, ts);
        Replaced::Done { before, ts }
    }

    /// The `_ts` of a document that this writer writes to and that was last written at `before`. A command that has been running
    /// for a while may come to a document that somebody wrote to after it began: that write's lease is not cut short. (What was
    /// written in a future that the clock has left is written now.)
    pub(super) fn ts_after(&self, before: Millis) -> Millis {
        match before <= self.seen {
            true => self.now.max(before),
            false => self.now,
        }
    }

    /// Removes the document, if it still is the one that the caller has seen. Returns the `_ts` that it had.
    pub fn remove_if(&mut self, id: RecordId, expected: &[u8]) -> Option<Millis> {
        let (ts, _) = self.unchanged(id, expected)?;
        self.remove(id);
        Some(ts)
    }

    /// Removes a document with all that belongs to it, ended or not.
    fn remove(&mut self, id: RecordId) {
        self.take_out(id);
        if let Some(segment) = self.state.segments.get_mut(id.segment()) {
            segment.compact_if_worth_it();
        }
    }

    /// Removes ended documents that are in the way.
    pub(super) fn free(&mut self, ended: &[RecordId]) {
        for &id in ended {
            self.remove(id);
        }
        self.note_freed(ended.len());
    }

    pub(super) fn note_freed(&self, documents: usize) {
        if documents > 0 {
            self.freed.fetch_add(documents as u64, Ordering::Relaxed);
        }
    }

    /// As [`Writer::remove`], for somebody who takes out more of the segment and compacts it then.
    pub(super) fn take_out(&mut self, id: RecordId) {
        let Some(segment) = self.state.segments.get_mut(id.segment()) else {
            return;
        };
        let Some(stored) = segment.get(id.slot(), self.state.default) else {
            return;
        };
        let doc = Doc::new(stored.bytes);
        let hash = with_id_key(doc, |key| self.ids.hash(key));
        for index in &mut self.state.indexes {
            if let Ok(keys) = IndexKeys::of(&index.spec, doc, stored.ts) {
                index.remove(&keys, id);
            }
        }
        self.ids.remove(hash, id);
        let len = segment.remove(id.slot());
        if segment.is_dead() {
            self.state.segments.remove(id.segment());
        }
        self.state.totals.count -= 1;
        self.state.totals.bytes -= len as u64;
        self.state.shrink_from.get_or_insert(0);
    }

    /// The record that has the key of that hash, whether it has ended or not.
    fn holder(&self, hash: u64, key: &[u8]) -> Option<RecordId> {
        self.ids.find(hash, |id| {
            let segment = self.state.segments.get(id.segment())?;
            has_key(segment.bytes_of(id.slot())?, key).then_some(id)
        })
    }

    /// What the document looks like now, if it is visible.
    pub fn visible(&self, id: RecordId) -> Option<Stored<'_>> {
        self.view().get(id)
    }

    fn is_visible(&self, id: RecordId) -> bool {
        self.visible(id).is_some()
    }

    fn keys_of(&self, doc: Doc<'_>, ts: Millis) -> Result<AllKeys, Refused> {
        self.state
            .indexes
            .iter()
            .map(|index| IndexKeys::of(&index.spec, doc, ts).map_err(Refused::Unindexable))
            .collect()
    }

    /// A visible document under one of the keys is a conflict; an ended one is noted to be removed. `own` is the document
    /// itself and the keys that it had: those it keeps, also where an index that is being prepared has others under them.
    pub(super) fn check_unique(
        &self,
        index: &Index,
        keys: &IndexKeys,
        own: Option<(RecordId, &IndexKeys)>,
        in_the_way: &mut SmallVec<[RecordId; 2]>,
    ) -> Result<(), Refused> {
        if !index.spec.unique && !index.spec.prepare_unique {
            return Ok(());
        }
        let (own, had) = own.unzip();
        for key in &keys.keys {
            if had.is_some_and(|had| had.keys.binary_search(key).is_ok()) {
                continue;
            }
            for holder in index.holders(key).filter(|&holder| Some(holder) != own) {
                if self.is_visible(holder) {
                    let spec = UniqueIndex {
                        name: index.spec.name.clone(),
                        key: index.spec.key.clone(),
                        taken: key.clone(),
                    };
                    return Err(Refused::Duplicate {
                        index: Some(Box::new(spec)),
                        holder,
                    });
                }
                if !in_the_way.contains(&holder) {
                    in_the_way.push(holder);
                }
            }
        }
        Ok(())
    }

    fn place(&mut self, bytes: &[u8], stamp: Stamp) -> RecordId {
        let state = &mut *self.state;
        if let Some((number, tail)) = state.segments.last_mut() {
            if number + 1 == state.next_segment && tail.has_room(bytes.len()) {
                return RecordId::new(number, tail.push(bytes, stamp));
            }
            tail.seal();
        }
        let mut segment = Segment::new(state.segments.last().map(|(_, tail)| tail));
        if state.coming.is_some() {
            segment.ask_coming(|_| End::NEVER);
        }
        let number = state.next_segment;
        state.next_segment += 1;
        let slot = segment.push(bytes, stamp);
        state.segments.push(number, segment);
        RecordId::new(number, slot)
    }

    pub(super) fn stamp(&self, doc: Doc<'_>, ts: Millis, own: OwnTtl) -> Stamp {
        Stamp {
            ts,
            own,
            dates: self.state.date_end(doc),
            coming: self.state.coming_end(doc),
        }
    }
}
