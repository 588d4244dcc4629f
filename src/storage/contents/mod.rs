//! The contents of a collection, and the only place where a document changes.
//!
//! Segments, the map of `_id`s, indexes, totals and bounds belong together: a document is in all of them or in none. Their
//! fields are private to this module, and so are the rules by which documents expire. Only [`Contents::commit`] applies a
//! [`Change`] to them. Code that observes writes (a log, snapshots, validators, change streams) belongs there. The other
//! functions change no document: they add, fill and drop indexes ([`indexes`]), switch date rules ([`date_rules`]) and give
//! memory back. Functions that could revive a document take a [`Drained`], which only draining creates.
//!
//! A panic half-way through a change would leave a document in some of these places only. So every function that changes
//! more than one of them is [`guarded`](Contents::guarded): the contents are marked as torn until it is done.
//! [`super::Collection`] closes itself when it finds its contents torn.

mod date_rules;
mod indexes;
mod versions;
mod watched;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::expiry::dates::PendingDateRules;
use super::expiry::{Bounds, Drained};
use super::idmap::IdMap;
use super::index::{Index, IndexKeys};
use super::segment::Segment;
use super::segments::Segments;
use super::stored::{Stamp, Totals};
use super::versions::Versions;
use super::{LogSubject, Namespace, RecordId, Shared, UpdateDelta};
use crate::ttl::{DefaultTtl, End, TsIndex};
use crate::value::{ClusterTime, Doc, Millis, Patch};
use crate::wait::{Signal, Wait};

/// The documents and indexes of a collection, with the rules by which documents expire.
pub(super) struct Contents {
    segments: Segments,
    /// The number of the next segment. Numbers are never reused, even after all segments are gone.
    next_segment: u64,
    ids: IdMap,
    indexes: Vec<Index>,
    /// The number of the next index. Numbers are never reused.
    next_index: u64,
    /// The documents in memory, expired or not.
    totals: Totals,
    /// The bounds over all segments together.
    bounds: Bounds,
    default: DefaultTtl,
    /// The index on `_ts` that shows the default to clients. Present while the default is on.
    ts_index: Option<TsIndex>,
    /// The next date rules, while their ends are being computed.
    pending: Option<PendingDateRules>,
    /// The shard of the `_id` map at which giving memory back continues; after the last shard come the indexes. `None` if
    /// there is nothing to give back.
    shrink_from: Option<usize>,
    /// The record at which the reaper continues.
    reap_from: RecordId,
    /// The last document that was evicted from a capped collection. No document before it is left.
    evicted: Option<RecordId>,
    shared: Arc<Shared>,
    /// The collection, as the log of changes names it.
    subject: Arc<LogSubject>,
    /// Whether the log keeps whole documents from before and after a change.
    keeps_images: bool,
    /// Earlier versions that snapshots need, and the writes of transactions. Mostly there is none of it.
    versions: Option<Box<Versions>>,
    /// How often an index of a client was added, changed or dropped.
    schema: u64,
    /// The logical time of the latest change of indexes or settings that an open snapshot has not seen.
    changed: AtomicU64,
    /// Given when a document is added, or when the collection is dropped and none will be added any more.
    arrivals: Signal,
    /// Given when the build of an index or a change of the date rules has ended, successfully or not.
    settled: Signal,
    /// Set while a change is in progress. If it stays set, a change has panicked.
    torn: bool,
    /// A test makes the next change panic half-way.
    #[cfg(test)]
    panics: bool,
}

/// A change of one document. The writer has checked that it is allowed.
#[derive(Clone, Copy)]
pub(super) enum Change<'a> {
    Insert {
        /// The hash of the key of its `_id`.
        hash: u64,
        bytes: &'a [u8],
        /// Its keys, one entry per index.
        keys: &'a [IndexKeys],
        stamp: Stamp,
    },
    /// Replaces the document, under the same `_id`.
    Replace {
        id: RecordId,
        bytes: &'a [u8],
        /// Its keys in each index before and after; empty if no key changes.
        before: &'a [IndexKeys],
        after: &'a [IndexKeys],
        stamp: Stamp,
        delta: &'a dyn UpdateDelta,
    },
    /// Overwrites a few bytes in place. No index and no rule depends on them.
    Patch {
        id: RecordId,
        patch: &'a Patch,
        ts: Millis,
        delta: &'a dyn UpdateDelta,
    },
    /// Sets only `_ts`, for a write that matched the document and changed nothing else.
    Touch {
        id: RecordId,
        /// Its keys in each index before and after; empty if no key changes.
        before: &'a [IndexKeys],
        after: &'a [IndexKeys],
        ts: Millis,
    },
    /// Removes the document and its index entries, whether it has expired or not.
    Remove { id: RecordId, cause: Cause },
}

/// Why a document is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// A client deleted it.
    Deleted,
    /// It has expired: the reaper removed it, or a write needed its place.
    Expired,
    /// It was evicted from a capped collection in favor of a newer one.
    Evicted,
}

// === impl Contents ===

impl Contents {
    pub fn new(shared: Arc<Shared>, subject: Arc<LogSubject>) -> Self {
        Self {
            segments: Segments::default(),
            next_segment: 0,
            ids: IdMap::new(),
            indexes: Vec::new(),
            next_index: 0,
            totals: Totals::default(),
            bounds: Bounds::NONE,
            default: DefaultTtl::Off,
            ts_index: None,
            pending: None,
            shrink_from: None,
            reap_from: RecordId::FIRST,
            evicted: None,
            shared,
            subject,
            keeps_images: false,
            versions: None,
            schema: 0,
            changed: AtomicU64::new(0),
            arrivals: Signal::default(),
            settled: Signal::default(),
            torn: false,
            #[cfg(test)]
            panics: false,
        }
    }

    /// Sets what all collections of the server share.
    pub fn share(&mut self, shared: Arc<Shared>) {
        self.shared = shared;
    }

    pub fn subject(&self) -> &Arc<LogSubject> {
        &self.subject
    }

    /// Gives the collection another name.
    pub fn rename(&mut self, to: Namespace) {
        let uuid = self.subject.uuid;
        self.subject = Arc::new(LogSubject {
            namespace: to,
            uuid,
        });
    }

    // --- Reading ---

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

    /// Returns the moment before which no document expires.
    #[inline]
    pub fn earliest_end(&self) -> End {
        self.bounds.earliest(self.default)
    }

    #[inline]
    pub fn default_ttl(&self) -> DefaultTtl {
        self.default
    }

    pub fn ts_index(&self) -> Option<&TsIndex> {
        self.ts_index.as_ref()
    }

    #[inline]
    pub fn versions(&self) -> Option<&Versions> {
        self.versions.as_deref()
    }

    /// Returns how often an index of a client was added, changed or dropped.
    pub fn schema(&self) -> u64 {
        self.schema
    }

    /// Returns a time after which there was no change of indexes or settings.
    pub fn changed(&self) -> ClusterTime {
        ClusterTime(self.changed.load(Ordering::Relaxed))
    }

    /// Notes that indexes or settings have changed at that time.
    pub fn note_changed(&self, time: ClusterTime) {
        self.changed.store(time.0, Ordering::Relaxed);
    }

    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub fn reap_from(&self) -> RecordId {
        self.reap_from
    }

    pub fn evicted(&self) -> Option<RecordId> {
        self.evicted
    }

    /// Returns a wait that ends when a document is added after this call, or when none will be added any more.
    pub fn arrival(&self) -> Wait {
        Wait::until(self.arrivals.listen())
    }

    /// Returns a wait that ends when the build of an index or a change of the date rules ends after this call.
    pub fn settled(&self) -> Wait {
        Wait::until(self.settled.listen())
    }

    /// Returns whether memory can be given back.
    pub fn can_shrink(&self) -> bool {
        self.shrink_from.is_some() || self.has_unneeded_versions()
    }

    /// Returns whether a change was begun and never completed. The contents cannot be trusted then.
    #[inline]
    pub fn is_torn(&self) -> bool {
        self.torn
    }

    /// Runs a change of more than one field. If it panics half-way, the contents stay torn. Such changes may be nested.
    #[inline]
    fn guarded<T>(&mut self, change: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.torn, true);
        let done = change(self);
        self.torn = outer;
        done
    }

    /// Makes the next change panic half-way.
    #[cfg(test)]
    pub fn panic_half_way(&mut self) {
        self.panics = true;
    }

    /// Panics here if a test has asked for that.
    #[inline(always)]
    fn half_way(&self) {
        #[cfg(test)]
        assert!(!self.panics, "a test wants this to fail half-way");
    }

    // --- The only way to change a document ---

    /// Returns the logical time of the next change.
    #[inline]
    pub fn tick(&self, now: Millis) -> ClusterTime {
        self.shared.time.tick(now)
    }

    /// Applies a whole change, which happens at `now` and at the next logical time, and returns the record that was written.
    #[inline(always)]
    pub fn commit(&mut self, now: Millis, change: Change<'_>) -> RecordId {
        // A change of `_ts` alone is told to nobody.
        let is_touch = matches!(change, Change::Touch { .. });
        if !is_touch && !self.shared.log.is_indifferent(now) {
            return self.commit_watched(now, change);
        }
        let time = self.tick(now);
        self.commit_at(time, change)
    }

    /// Applies a change at a logical time that was given out before. Who has asked for the time tells the log.
    #[inline(always)]
    pub fn commit_at(&mut self, time: ClusterTime, change: Change<'_>) -> RecordId {
        let noted = self.shared.snapshots.are_open();
        if noted {
            self.note_version(&change, time);
        }
        let id = self.guarded(|contents| contents.apply(change));
        self.note_end();
        if noted && matches!(change, Change::Insert { .. }) {
            self.note_absence(id, time);
        }
        id
    }

    // Each caller knows the kind of its change. Inlined, it calls that one function, and the change is never built.
    #[inline(always)]
    fn apply(&mut self, change: Change<'_>) -> RecordId {
        match change {
            Change::Insert {
                hash,
                bytes,
                keys,
                stamp,
            } => self.insert(hash, bytes, keys, stamp),
            Change::Replace {
                id,
                bytes,
                before,
                after,
                stamp,
                ..
            } => {
                self.rekey(id, before, after);
                self.replace(id, bytes, stamp);
                id
            }
            Change::Patch { id, patch, ts, .. } => {
                self.write_in_place(id, patch, ts);
                id
            }
            Change::Touch {
                id,
                before,
                after,
                ts,
            } => {
                self.rekey(id, before, after);
                self.write_in_place(id, &Patch::default(), ts);
                id
            }
            Change::Remove { id, cause } => {
                self.take_out(id);
                match cause {
                    Cause::Deleted => {}
                    Cause::Expired => self.shared.count_freed(),
                    Cause::Evicted => self.evicted = Some(id),
                }
                id
            }
        }
    }

    /// Replaces the entries of a document in each index whose keys have changed.
    #[inline]
    fn rekey(&mut self, id: RecordId, before: &[IndexKeys], after: &[IndexKeys]) {
        for (index, (before, after)) in self.indexes.iter_mut().zip(before.iter().zip(after)) {
            if before != after {
                index.remove(before, id);
                index.insert(after, id);
            }
        }
    }

    fn insert(&mut self, hash: u64, bytes: &[u8], keys: &[IndexKeys], stamp: Stamp) -> RecordId {
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

    fn replace(&mut self, id: RecordId, bytes: &[u8], stamp: Stamp) {
        self.half_way();
        if let Some(segment) = self.segments.get_mut(id.segment()) {
            let len = segment.replace(id.slot(), bytes, stamp);
            self.totals.bytes = self.totals.bytes - len as u64 + bytes.len() as u64;
        }
        self.bounds.include(stamp.own, stamp.ts, stamp.dates);
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
        if self.pending.is_some() {
            segment.compute_pending(|_| End::NEVER);
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
        let hash = self.ids.hash_of(doc);
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

    // --- The default ---

    /// Sets `DefaultTTL`, and the index that shows it to clients.
    pub fn set_default_ttl(&mut self, default: DefaultTtl, index: Option<TsIndex>, _: &Drained) {
        self.default = default;
        self.ts_index = index;
        self.note_end();
    }

    // --- Memory ---

    /// Sets the record at which the reaper continues.
    pub fn set_reap_from(&mut self, from: RecordId) {
        self.reap_from = from;
    }

    /// Computes the bounds again from those of the segments.
    pub fn tighten(&mut self) {
        let mut bounds = Bounds::NONE;
        for segment in self.segments.all() {
            bounds.merge(*segment.bounds());
        }
        self.bounds = bounds;
    }

    /// Rewrites a segment if enough of its heap consists of holes.
    pub fn compact(&mut self, segment: u64) {
        self.guarded(|contents| {
            if let Some(segment) = contents.segments.get_mut(segment) {
                segment.compact_if_worth_it();
            }
        });
    }

    /// Makes the bounds of a segment exact.
    pub fn tighten_segment(&mut self, segment: u64) {
        if let Some(segment) = self.segments.get_mut(segment) {
            segment.tighten();
        }
    }

    /// Gives back some memory that the `_id` map and the indexes no longer need: one shard, or the nodes of `some` entries
    /// of an index. Returns whether there may be more.
    pub fn shrink_some(&mut self, some: usize) -> bool {
        self.prune_versions();
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

    /// Pretends that the key of a record has that hash, too.
    #[cfg(test)]
    pub fn share_hash(&mut self, hash: u64, id: RecordId) {
        self.ids.insert(hash, id);
    }

    /// Takes everything out, so that the caller can free it without the lock. Segment and index numbers continue, so none
    /// is used twice. If snapshots still read it, the earlier versions stay.
    pub fn take(&mut self, keep_earlier: bool) -> Self {
        self.arrivals.give();
        self.settled.give();
        self.release_all(keep_earlier);
        let empty = Self {
            next_segment: self.next_segment,
            next_index: self.next_index,
            schema: self.schema + 1,
            changed: AtomicU64::new(self.changed().0),
            ..Self::new(Arc::clone(&self.shared), Arc::clone(&self.subject))
        };
        std::mem::replace(self, empty)
    }
}
