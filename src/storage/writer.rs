//! The only write path: checks a change of a document against the collection, then commits it completely or not at all.

use std::ops::ControlFlow;

use smallvec::SmallVec;

use super::by_id::has_key;
use super::collection::State;
use super::contents::{Cause, Change, Contents};
use super::idmap::with_id_key;
use super::index::{Index, IndexKeys, KeyBytes};
use super::stored::Stamp;
use super::{Cap, CollectionOptions, LogOp, ReadPoint, RecordId, Stored, UpdateDelta, View};
use crate::error::Error;
use crate::ttl::OwnTtl;
use crate::value::{ClusterTime, Doc, Millis, Patch};

/// A writer under the exclusive lock.
pub struct Writer<'a> {
    state: &'a mut State,
    /// When the command began. It becomes `_ts`, see [`Writer::ts_after`].
    pub(super) now: Millis,
    /// Documents that had expired by this moment are gone for this writer. At least `now`.
    pub(super) seen: Millis,
    /// Where it reads. In a transaction it writes into the transaction's buffer ([`super::buffered`]).
    pub(super) at: ReadPoint,
    /// The logical time of all its changes, if they belong to a transaction that commits.
    pub(super) time: Option<ClusterTime>,
    /// Whether this is the transaction's first write to the collection.
    pub(super) joins: bool,
}

/// Why a write was refused. Nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// Another visible document holds the key. `index` is `None` for `_id`.
    Duplicate {
        index: Option<Box<UniqueIndex>>,
        holder: RecordId,
    },
    /// The document cannot be indexed.
    Unindexable(Error),
    /// The document is larger than the server accepts.
    TooLarge(Error),
    /// A transaction has written to the document or the key and has not ended. The caller waits
    /// ([`Writer::released`]) and tries again.
    Claimed,
    /// For a transaction: another one has written to the document or the key first.
    Conflict,
    /// For a transaction: the collection is capped.
    Capped,
    /// For a transaction: the writes of all transactions together take too much memory.
    TransactionTooLarge,
}

/// A unique index whose key is taken, with the data for the error message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueIndex {
    pub name: String,
    pub key: crate::value::DocBuf,
    /// The key that is taken: one of several if the document has arrays.
    pub taken: KeyBytes,
}

/// What the caller knows about the root field `ttl` of a replacement document, so that it need not be searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewTtl {
    Unknown,
    /// Same as in the document before.
    Same,
    Absent,
}

/// The new content of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum New {
    /// No change: only its `_ts` changes.
    Same,
    /// A change of a few bytes. Allowed only if [`Writer::may_patch`] says so.
    Patch(Patch),
    /// Other bytes, under the same `_id`.
    Bytes(Vec<u8>),
}

/// What the caller knows about a document that it is about to write to, besides its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Before {
    pub(super) ts: Millis,
    pub(super) own: OwnTtl,
    len: usize,
}

/// The result of a write to a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The `_ts` of the document before the write and after it.
    pub before: Millis,
    pub ts: Millis,
    /// The length of the document after the write.
    pub len: usize,
}

pub(super) type AllKeys = SmallVec<[IndexKeys; 2]>;

/// The keys of a document in each index before and after a write.
struct Rekeyed {
    before: AllKeys,
    after: AllKeys,
}

// === impl Refused ===

impl Refused {
    /// The key of a unique index is taken.
    pub(super) fn duplicate(index: &Index, key: &KeyBytes, holder: RecordId) -> Self {
        let spec = UniqueIndex {
            name: index.spec.name.clone(),
            key: index.spec.key.clone(),
            taken: key.clone(),
        };
        Self::Duplicate {
            index: Some(Box::new(spec)),
            holder,
        }
    }

    /// Returns the key of a unique index that is taken.
    pub(super) fn taken_key(&self) -> Option<&KeyBytes> {
        match self {
            Self::Duplicate { index, .. } => index.as_ref().map(|index| &index.taken),
            _ => None,
        }
    }
}

// === impl NewTtl ===

impl NewTtl {
    /// Returns the ttl of a new document that replaces one with the ttl `before`.
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

// === impl Before ===

impl Before {
    pub fn of(stored: &Stored<'_>) -> Self {
        Self {
            ts: stored.ts,
            own: stored.own,
            len: stored.bytes.len(),
        }
    }
}

// === impl Writer ===

impl<'a> Writer<'a> {
    /// Creates a writer. `seen` is the moment that [`super::Collection`] returns for `now`. It is earlier than `now` only
    /// if the clock was set back since the command began. Then the document is written at `seen`, and not in a future that
    /// the clock has not reached.
    pub(super) fn new(state: &'a mut State, now: Millis, seen: Millis) -> Self {
        Self {
            state,
            now: now.min(seen),
            seen,
            at: ReadPoint::at(seen),
            time: None,
            joins: false,
        }
    }

    /// Makes it a writer at this read point: of a transaction, if that says so.
    #[must_use]
    pub(super) fn reading(mut self, at: ReadPoint) -> Self {
        self.at = at.moved_to(self.seen);
        self
    }

    #[inline]
    pub(super) fn contents(&self) -> &Contents {
        self.state.contents()
    }

    #[inline]
    pub(super) fn contents_mut(&mut self) -> &mut Contents {
        self.state.contents_mut()
    }

    pub(super) fn options_mut(&mut self) -> &mut CollectionOptions {
        self.state.options_mut()
    }

    /// Returns what a reader would see now.
    pub fn view(&self) -> View<'_> {
        View::new(self.state, self.at)
    }

    /// Adds a document, which has an `_id`. Removes expired documents that hold its `_id` or a unique key.
    pub fn insert(&mut self, bytes: &[u8]) -> Result<RecordId, Refused> {
        self.check_size(bytes)?;
        if self.at.is_in_transaction() {
            return self.buffer_insert(bytes);
        }
        let doc = Doc::new(bytes);
        let mut in_the_way: SmallVec<[RecordId; 2]> = SmallVec::new();
        let (hash, holder) = with_id_key(doc, |key| {
            let hash = self.contents().ids().hash(key);
            (hash, self.holder(hash, key))
        });
        if self.has_claims() {
            self.check_id_claims(hash, holder)?;
        }
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
        for (index, keys) in self.indexes().iter().zip(&keys) {
            self.check_unique(index, keys, None, &mut in_the_way)?;
        }
        self.free(&in_the_way);
        let stamp = self.stamp(doc, self.now, OwnTtl::of(doc));
        let change = Change::Insert {
            hash,
            bytes,
            keys: &keys,
            stamp,
        };
        let id = self.commit(change);
        if let Some(cap) = self.state.options().cap {
            self.make_room(cap, id);
        }
        Ok(id)
    }

    /// Returns what the log of changes is told when the collection is created.
    pub(super) fn created(&self) -> LogOp {
        self.state.created()
    }

    /// Applies a change at the next logical time.
    #[inline(always)]
    pub(super) fn commit(&mut self, change: Change<'_>) -> RecordId {
        let now = self.now;
        match self.time {
            Some(time) => self.contents_mut().commit_at(time, change),
            None => self.contents_mut().commit(now, change),
        }
    }

    /// Removes documents until a capped collection is within its limits: first expired ones, which do not count for
    /// clients, then the oldest. The newest always stays. The totals in memory are compared, so this costs nothing while
    /// the limits hold.
    fn make_room(&mut self, cap: Cap, newest: RecordId) {
        let seen = self.seen;
        while !cap.holds(self.contents().totals()) && self.reap_some(seen) {}
        while !cap.holds(self.contents().totals()) {
            // No document left here has expired, so the first record is the oldest document. It is close to the last one
            // evicted.
            let from = self.contents().evicted().unwrap_or(RecordId::FIRST);
            let first = |id, _: Stored<'_>| ControlFlow::Break(id);
            let oldest = self.view().each_up(from, first).break_value();
            let Some(oldest) = oldest.filter(|id| *id != newest) else {
                return;
            };
            self.take_out(oldest, Cause::Evicted);
        }
    }

    /// Returns whether a change of these root fields can be a [`New::Patch`]: no index and no rule depends on them.
    pub fn may_patch(&self, writes: impl Fn(&str) -> bool) -> bool {
        let mut indexes = self.indexes().iter();
        !self.contents().has_coming() && !indexes.any(|index| index.spec.depends_on(&writes))
    }

    /// Returns whether the document is visible and still has these bytes. Comparing the bytes needs no version counter, and
    /// a document that was changed back to the same value counts as unchanged.
    pub fn is_unchanged(&self, id: RecordId, expected: &[u8]) -> bool {
        self.visible(id)
            .is_some_and(|stored| stored.bytes == expected)
    }

    /// Writes to a document, if it is visible. `delta` tells the log of changes what changes.
    pub fn update(
        &mut self,
        id: RecordId,
        new: &New,
        new_ttl: NewTtl,
        delta: &dyn UpdateDelta,
    ) -> Result<Option<Written>, Refused> {
        let Some(stored) = self.visible(id) else {
            return Ok(None);
        };
        let before = Before::of(&stored);
        self.update_found(id, before, new, new_ttl, delta)
    }

    /// Writes to an existing document. This is the only way to do so: `_ts` is set, whatever the new content. The caller
    /// has found the document under this hold of the lock, so it is looked up again only if its keys are needed. Returns
    /// `None` if it is not visible then.
    #[inline]
    pub fn update_found(
        &mut self,
        id: RecordId,
        before: Before,
        new: &New,
        new_ttl: NewTtl,
        delta: &dyn UpdateDelta,
    ) -> Result<Option<Written>, Refused> {
        if self.at.is_in_transaction() {
            return self.buffer_update(id, before, new, new_ttl, delta);
        }
        // One that stays the same waits for no transaction.
        if self.has_claims() && !matches!(new, New::Same) {
            self.check_record_claims(id)?;
        }
        let Before {
            ts: before,
            own,
            mut len,
        } = before;
        let ts = self.ts_after(before);
        match new {
            New::Patch(patch) => {
                debug_assert!(new_ttl == NewTtl::Same && !self.contents().has_coming());
                let change = Change::Patch {
                    id,
                    patch,
                    ts,
                    delta,
                };
                self.commit(change);
            }
            New::Same if !self.indexes().iter().any(|index| index.spec.names_ts()) => {
                let (before, after) = (&[], &[]);
                let change = Change::Touch {
                    id,
                    before,
                    after,
                    ts,
                };
                self.commit(change);
            }
            New::Same => {
                // The key of an index is the time of the last write.
                let Some(keys) = self.rekey(id, None, ts)? else {
                    return Ok(None);
                };
                let change = Change::Touch {
                    id,
                    before: &keys.before,
                    after: &keys.after,
                    ts,
                };
                self.commit(change);
            }
            New::Bytes(bytes) => {
                self.check_size(bytes)?;
                if !self.replace(id, bytes, ts, new_ttl.read(bytes, own), delta)? {
                    return Ok(None);
                }
                len = bytes.len();
            }
        }
        Ok(Some(Written { before, ts, len }))
    }

    /// Replaces a document. Returns `false` if it is not visible, which is checked only if there are indexes.
    fn replace(
        &mut self,
        id: RecordId,
        bytes: &[u8],
        ts: Millis,
        own: OwnTtl,
        delta: &dyn UpdateDelta,
    ) -> Result<bool, Refused> {
        let doc = Doc::new(bytes);
        let mut keys = None;
        if !self.indexes().is_empty() {
            let Some(rekeyed) = self.rekey(id, Some(doc), ts)? else {
                return Ok(false);
            };
            keys = Some(rekeyed);
        }
        let (before, after): (&[_], &[_]) = match &keys {
            Some(keys) => (&keys.before, &keys.after),
            None => (&[], &[]),
        };
        let stamp = self.stamp(doc, ts, own);
        let change = Change::Replace {
            id,
            bytes,
            before,
            after,
            stamp,
            delta,
        };
        self.commit(change);
        Ok(true)
    }

    /// Computes the keys of a document before and after it becomes `new` (`None`: it stays the same) at `ts`. Removes
    /// expired documents that hold a unique key. Returns `None` if the document is not visible.
    fn rekey(
        &mut self,
        id: RecordId,
        new: Option<Doc<'_>>,
        ts: Millis,
    ) -> Result<Option<Rekeyed>, Refused> {
        let Some(stored) = self.visible(id) else {
            return Ok(None);
        };
        let old = Doc::new(stored.bytes);
        let before = self.keys_of(old, stored.ts)?;
        let after = self.keys_of(new.unwrap_or(old), ts)?;
        let mut in_the_way: SmallVec<[RecordId; 2]> = SmallVec::new();
        for (index, (before, after)) in self.indexes().iter().zip(before.iter().zip(&after)) {
            if before != after {
                self.check_unique(index, after, Some((id, before)), &mut in_the_way)?;
            }
        }
        self.free(&in_the_way);
        Ok(Some(Rekeyed { before, after }))
    }

    pub(super) fn check_size(&self, bytes: &[u8]) -> Result<(), Refused> {
        match self.state.limit() {
            Some(limit) if bytes.len() > limit.bytes => Err(Refused::TooLarge((limit.refusal)())),
            _ => Ok(()),
        }
    }

    /// Returns the `_ts` for a write to a document that was last written at `before`. A long command may reach a document
    /// that another command wrote to after this one began. Then the later `_ts` stays, so that its life is not shortened.
    /// (If `before` lies in a future that the clock has left, the document is written now.)
    pub(super) fn ts_after(&self, before: Millis) -> Millis {
        match before <= self.seen {
            true => self.now.max(before),
            false => self.now,
        }
    }

    /// Removes a visible document and returns its `_ts`.
    pub fn remove(&mut self, id: RecordId) -> Result<Option<Millis>, Refused> {
        let Some(ts) = self.visible(id).map(|stored| stored.ts) else {
            return Ok(None);
        };
        if self.at.is_in_transaction() {
            self.buffer_remove(id)?;
            return Ok(Some(ts));
        }
        if self.has_claims() {
            self.check_record_claims(id)?;
        }
        self.take_out(id, Cause::Deleted);
        Ok(Some(ts))
    }

    pub(super) fn take_out(&mut self, id: RecordId, cause: Cause) {
        let change = Change::Remove { id, cause };
        self.commit(change);
        self.state.contents_mut().compact(id.segment());
    }

    /// Removes expired documents that block a write.
    pub(super) fn free(&mut self, ended: &[RecordId]) {
        for &id in ended {
            self.take_out(id, Cause::Expired);
        }
    }

    /// Returns the record that has the key with that hash, expired or not.
    pub(super) fn holder(&self, hash: u64, key: &[u8]) -> Option<RecordId> {
        self.contents().ids().find(hash, |id| {
            let segment = self.contents().segments().get(id.segment())?;
            has_key(segment.bytes_of(id.slot())?, key).then_some(id)
        })
    }

    /// Returns the document if it is visible.
    pub fn visible(&self, id: RecordId) -> Option<Stored<'_>> {
        self.view().get(id)
    }

    fn is_visible(&self, id: RecordId) -> bool {
        self.visible(id).is_some()
    }

    pub(super) fn keys_of(&self, doc: Doc<'_>, ts: Millis) -> Result<AllKeys, Refused> {
        self.indexes()
            .iter()
            .map(|index| IndexKeys::of(&index.spec, doc, ts).map_err(Refused::Unindexable))
            .collect()
    }

    /// Checks the keys against a unique index. A visible document under one of them is a conflict; an expired one is added
    /// to `in_the_way`, to be removed. `own` is the document itself with the keys that it had. It keeps those, even if an
    /// index that is being prepared to become unique has other documents under them.
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
            if self.has_claims() {
                self.check_key_claims(index, key)?;
            }
            for holder in index.holders(key).filter(|&holder| Some(holder) != own) {
                if self.is_visible(holder) {
                    return Err(Refused::duplicate(index, key, holder));
                }
                if !in_the_way.contains(&holder) {
                    in_the_way.push(holder);
                }
            }
        }
        Ok(())
    }

    pub(super) fn indexes(&self) -> &[Index] {
        self.contents().indexes()
    }

    #[inline]
    pub(super) fn stamp(&self, doc: Doc<'_>, ts: Millis, own: OwnTtl) -> Stamp {
        Stamp {
            ts,
            own,
            dates: self.contents().date_end(doc),
            pending: self.contents().pending_end(doc),
        }
    }
}
