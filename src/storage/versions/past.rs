//! What a reader with a snapshot sees.

use std::iter::Peekable;

use super::{EarlierVersion, OwnWrite, OwnWrites, Versions};
use crate::storage::contents::Contents;
use crate::storage::index::{Entry, Index, IndexKeys, entry};
use crate::storage::{ReadPoint, RecordId, Stored};
use crate::ttl::End;
use crate::value::{ClusterTime, Doc, Millis};

/// The records that differ from the present for a reader: those that changed since its snapshot, and those that its
/// transaction has written.
#[derive(Clone, Copy)]
pub(in crate::storage) struct Past<'a> {
    contents: &'a Contents,
    versions: &'a Versions,
    own: Option<&'a OwnWrites>,
    as_of: ClusterTime,
    now: Millis,
}

/// The ids of two sorted sources, without the ids that both have.
struct Merged<A: Iterator, B: Iterator> {
    a: Peekable<A>,
    b: Peekable<B>,
    descending: bool,
}

// === impl Past ===

impl<'a> Past<'a> {
    /// Returns `None` if the reader sees the present: it has no snapshot, or nothing has changed since.
    #[inline]
    pub fn of(contents: &'a Contents, at: ReadPoint) -> Option<Self> {
        let as_of = at.as_of()?;
        let versions = contents.versions()?;
        Some(Self {
            contents,
            versions,
            own: at.transaction().and_then(|id| versions.own.get(&id)),
            as_of,
            now: at.now(),
        })
    }

    /// Returns what the reader sees of a record. The outer `None` means that it sees the present.
    pub fn version(&self, id: RecordId) -> Option<Option<Stored<'a>>> {
        if let Some(write) = self.own.and_then(|own| own.get(id)) {
            return Some(self.own_version(write));
        }
        let version = self.versions.earlier.as_of(id, self.as_of)?;
        Some(version.and_then(|version| self.stored(version)))
    }

    /// Returns the records from that one on that differ from the present, in natural order.
    pub fn up(self, from: RecordId) -> impl Iterator<Item = (RecordId, Option<Stored<'a>>)> {
        let earlier = self.versions.earlier.since(self.as_of, from);
        let own = self.own.into_iter().flat_map(move |own| own.from(from));
        let ids = Merged {
            a: earlier.map(|(id, _)| id).peekable(),
            b: own.map(|(id, _)| id).peekable(),
            descending: false,
        };
        ids.filter_map(move |id| Some((id, self.version(id)?)))
    }

    /// Returns the records up to that one that differ from the present, against the natural order.
    pub fn down(self, to: RecordId) -> impl Iterator<Item = (RecordId, Option<Stored<'a>>)> {
        let first = RecordId::FIRST;
        let earlier = self.versions.earlier.since(self.as_of, first).rev();
        let own = self
            .own
            .into_iter()
            .flat_map(move |own| own.from(first).rev());
        let ids = Merged {
            a: earlier.map(|(id, _)| id).peekable(),
            b: own.map(|(id, _)| id).peekable(),
            descending: true,
        };
        ids.skip_while(move |id| *id > to)
            .filter_map(move |id| Some((id, self.version(id)?)))
    }

    /// Returns the records outside the collection's map of `_id`s that may have an `_id` with that hash.
    pub fn by_id(&self, hash: u64) -> impl Iterator<Item = RecordId> {
        let own = self.own.map_or(&[][..], |own| own.by_id(hash));
        let earlier = self.versions.earlier.by_id(hash);
        own.iter().chain(earlier).copied()
    }

    /// Returns the entries that the records which differ from the present would have in an index, sorted.
    pub fn entries(&self, index: &Index) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (id, stored) in self.up(RecordId::FIRST) {
            let Some(stored) = stored else { continue };
            // A version that an index of today cannot hold has no entries in it.
            if let Ok(keys) = IndexKeys::of(&index.spec, Doc::new(stored.bytes), stored.ts) {
                entries.extend(keys.keys.iter().map(|key| entry(key, id)));
            }
        }
        entries.sort_unstable();
        entries
    }

    /// Returns the last record that the reader can see.
    pub fn newest(&self) -> RecordId {
        match self.own {
            Some(own) => own.newest(),
            None => RecordId(RecordId::PROVISIONAL.0 - 1),
        }
    }

    /// A transaction's own documents do not end before it commits.
    fn own_version(&self, write: &'a OwnWrite) -> Option<Stored<'a>> {
        match write {
            OwnWrite::Removed => None,
            OwnWrite::Written { bytes, ttl } => Some(Stored {
                bytes,
                ts: self.now,
                own: *ttl,
                end: End::NEVER,
            }),
        }
    }

    /// Returns the version, unless its document has ended: a snapshot keeps none alive.
    fn stored(&self, version: &'a EarlierVersion) -> Option<Stored<'a>> {
        let end = self.contents.end_of(version);
        (!end.has_come(self.now)).then_some(Stored {
            bytes: &version.bytes,
            ts: version.ts,
            own: version.ttl,
            end,
        })
    }
}

// === impl Merged ===

impl<A, B> Iterator for Merged<A, B>
where
    A: Iterator<Item = RecordId>,
    B: Iterator<Item = RecordId>,
{
    type Item = RecordId;

    fn next(&mut self) -> Option<RecordId> {
        let (a, b) = (self.a.peek().copied(), self.b.peek().copied());
        let (Some(x), Some(y)) = (a, b) else {
            return self.a.next().or_else(|| self.b.next());
        };
        if x == y {
            self.b.next();
        }
        match x == y || (x < y) != self.descending {
            true => self.a.next(),
            false => self.b.next(),
        }
    }
}
