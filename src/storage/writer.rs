//! The one write path: checks a change of a document against what is there, then has it committed, all or nothing.

use std::ops::ControlFlow;

use smallvec::SmallVec;

use super::by_id::has_key;
use super::collection::State;
use super::contents::{Cause, Change, Contents};
use super::idmap::with_id_key;
use super::index::{Index, IndexKeys, KeyBytes};
use super::stored::Stamp;
use super::{Cap, Options, ReadPoint, RecordId, Stored, View};
use crate::error::Error;
use crate::ttl::OwnTtl;
use crate::value::{Doc, Millis, Patch};

/// A change under the exclusive lock.
pub struct Writer<'a> {
    state: &'a mut State,
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

/// What a document becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum New {
    /// What it was: only its `_ts` changes.
    Same,
    /// The same but for a few bytes. Only where [`Writer::may_patch`] says so.
    Patch(Patch),
    /// Other bytes under the same `_id`.
    Bytes(Vec<u8>),
}

/// What is known of a document that is about to be written to, besides its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Before {
    ts: Millis,
    own: OwnTtl,
    len: usize,
}

/// A write that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The `_ts` that the document had before, and the one that it has now.
    pub before: Millis,
    pub ts: Millis,
    /// How many bytes it has now.
    pub len: usize,
}

type AllKeys = SmallVec<[IndexKeys; 2]>;

/// A document's keys in each index before and after a write; empty if they are all the same.
#[derive(Default)]
struct Rekeyed {
    before: AllKeys,
    after: AllKeys,
}

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
    /// `seen` is what [`super::Collection`] says of `now`. It is the earlier of the two only if the clock was set back since the
    /// command began: then the document is written now, and not in a future that it would have to live through first.
    pub(super) fn new(state: &'a mut State, now: Millis, seen: Millis) -> Self {
        Self {
            state,
            now: now.min(seen),
            seen,
        }
    }

    #[inline]
    pub(super) fn contents(&self) -> &Contents {
        self.state.contents()
    }

    #[inline]
    pub(super) fn contents_mut(&mut self) -> &mut Contents {
        self.state.contents_mut()
    }

    pub(super) fn options_mut(&mut self) -> &mut Options {
        self.state.options_mut()
    }

    /// What a reader would see now.
    pub fn view(&self) -> View<'_> {
        View::new(self.state, ReadPoint::at(self.seen))
    }

    /// Adds a document, which has an `_id`. Ended documents that hold its `_id` or a unique key make way.
    pub fn insert(&mut self, bytes: &[u8]) -> Result<RecordId, Refused> {
        self.check_size(bytes)?;
        let doc = Doc::new(bytes);
        let mut in_the_way: SmallVec<[RecordId; 2]> = SmallVec::new();
        let (hash, holder) = with_id_key(doc, |key| {
            let hash = self.contents().ids().hash(key);
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
        for (index, keys) in self.indexes().iter().zip(&keys) {
            self.check_unique(index, keys, None, &mut in_the_way)?;
        }
        self.free(&in_the_way);
        let stamp = self.stamp(doc, self.now, OwnTtl::of(doc));
        let id = self.state.contents_mut().commit(Change::Insert {
            hash,
            bytes,
            keys: &keys,
            stamp,
        });
        if let Some(cap) = self.state.options().cap {
            self.make_room(cap, id);
        }
        Ok(id)
    }

    /// Removes documents until a capped collection holds no more than it may: first those that have ended, which count for
    /// nobody, then the oldest. The newest always stays. What is in memory is counted, so this costs nothing while it fits.
    fn make_room(&mut self, cap: Cap, newest: RecordId) {
        let seen = self.seen;
        while !cap.holds(self.contents().totals()) && self.reap_some(seen) {}
        while !cap.holds(self.contents().totals()) {
            // Nothing here has ended, so the first record is the oldest document; and behind the last that made way it is near.
            let from = self.contents().evicted().unwrap_or(RecordId::FIRST);
            let first = |id, _: Stored<'_>| ControlFlow::Break(id);
            let oldest = self.view().each_up(from, first).break_value();
            let Some(oldest) = oldest.filter(|id| *id != newest) else {
                return;
            };
            self.take_out(oldest, Cause::Evicted);
        }
    }

    /// Whether a change of these root fields can be a [`New::Patch`]: no index and no rule depends on them.
    pub fn may_patch(&self, writes: impl Fn(&str) -> bool) -> bool {
        let mut indexes = self.indexes().iter();
        !self.contents().has_coming() && !indexes.any(|index| index.spec.depends_on(&writes))
    }

    /// Whether the document is visible and still has these bytes. Comparing the bytes themselves needs no version counter,
    /// and a document that came back to the same value is as good as untouched.
    pub fn is_unchanged(&self, id: RecordId, expected: &[u8]) -> bool {
        self.visible(id)
            .is_some_and(|stored| stored.bytes == expected)
    }

    /// Writes to a document, if it is visible.
    pub fn update(
        &mut self,
        id: RecordId,
        new: &New,
        new_ttl: NewTtl,
    ) -> Result<Option<Written>, Refused> {
        let Some(stored) = self.visible(id) else {
            return Ok(None);
        };
        let before = Before::of(&stored);
        self.update_found(id, before, new, new_ttl)
    }

    /// The one way to write to a document that is there: its clock restarts, whatever it becomes. The caller has found it in
    /// this lock hold; it is looked up again only where its keys are needed. `None`: it is not visible then.
    #[inline]
    pub fn update_found(
        &mut self,
        id: RecordId,
        before: Before,
        new: &New,
        new_ttl: NewTtl,
    ) -> Result<Option<Written>, Refused> {
        let Before {
            ts: before,
            own,
            mut len,
        } = before;
        let ts = self.ts_after(before);
        match new {
            New::Patch(patch) => {
                debug_assert!(new_ttl == NewTtl::Same && !self.contents().has_coming());
                let change = Change::Patch { id, patch, ts };
                self.state.contents_mut().commit(change);
            }
            New::Same if !self.indexes().iter().any(|index| index.spec.names_ts()) => {
                let (before, after) = (&[], &[]);
                self.state.contents_mut().commit(Change::Touch {
                    id,
                    before,
                    after,
                    ts,
                });
            }
            New::Same => {
                // The key of an index is the time of the last write.
                let Some(keys) = self.rekey(id, None, ts)? else {
                    return Ok(None);
                };
                self.state.contents_mut().commit(Change::Touch {
                    id,
                    before: &keys.before,
                    after: &keys.after,
                    ts,
                });
            }
            New::Bytes(bytes) => {
                self.check_size(bytes)?;
                if !self.replace(id, bytes, ts, new_ttl.read(bytes, own))? {
                    return Ok(None);
                }
                len = bytes.len();
            }
        }
        Ok(Some(Written { before, ts, len }))
    }

    /// `false`: it is not visible, which is asked where there are indexes.
    fn replace(
        &mut self,
        id: RecordId,
        bytes: &[u8],
        ts: Millis,
        own: OwnTtl,
    ) -> Result<bool, Refused> {
        let doc = Doc::new(bytes);
        let mut keys = Rekeyed::default();
        if !self.indexes().is_empty() {
            let Some(rekeyed) = self.rekey(id, Some(doc), ts)? else {
                return Ok(false);
            };
            keys = rekeyed;
        }
        let stamp = self.stamp(doc, ts, own);
        self.state.contents_mut().commit(Change::Replace {
            id,
            bytes,
            before: &keys.before,
            after: &keys.after,
            stamp,
        });
        Ok(true)
    }

    /// The keys of a document that becomes another one (`None`: stays what it is) and is written at `ts`. Ended documents that hold
    /// a unique key make way. `None`: it is not visible.
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

    /// The `_ts` of a document that this writer writes to and that was last written at `before`. A command that has been running
    /// for a while may come to a document that somebody wrote to after it began: that write's lease is not cut short. (What was
    /// written in a future that the clock has left is written now.)
    pub(super) fn ts_after(&self, before: Millis) -> Millis {
        match before <= self.seen {
            true => self.now.max(before),
            false => self.now,
        }
    }

    /// Removes a visible document. Returns the `_ts` that it had.
    pub fn remove(&mut self, id: RecordId) -> Option<Millis> {
        let ts = self.visible(id)?.ts;
        self.take_out(id, Cause::Deleted);
        Some(ts)
    }

    fn take_out(&mut self, id: RecordId, cause: Cause) {
        self.state
            .contents_mut()
            .commit(Change::Remove { id, cause });
        self.state.contents_mut().compact(id.segment());
    }

    /// Removes ended documents that are in the way.
    pub(super) fn free(&mut self, ended: &[RecordId]) {
        for &id in ended {
            self.take_out(id, Cause::Expired);
        }
    }

    /// The record that has the key of that hash, whether it has ended or not.
    fn holder(&self, hash: u64, key: &[u8]) -> Option<RecordId> {
        self.contents().ids().find(hash, |id| {
            let segment = self.contents().segments().get(id.segment())?;
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
        self.indexes()
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

    fn indexes(&self) -> &[Index] {
        self.contents().indexes()
    }

    pub(super) fn stamp(&self, doc: Doc<'_>, ts: Millis, own: OwnTtl) -> Stamp {
        Stamp {
            ts,
            own,
            dates: self.contents().date_end(doc),
            pending: self.contents().pending_end(doc),
        }
    }
}
