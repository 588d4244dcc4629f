//! A read-only view of a collection at one moment, without expired documents.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use uuid::Uuid;

use super::collection::State;
use super::contents::Contents;
use super::idmap::IdMap;
use super::index::{Entry, ID_INDEX, Index, IndexKeys, IndexNumber, IndexUsage, split};
use super::versions::Past;
use super::{CollectionOptions, Namespace, ReadPoint, RecordId, Stored, Totals};
use crate::ttl::{DefaultTtl, End, TsIndex};
use crate::value::{Doc, Millis};

/// A view under the shared lock. Every document that it returns has passed the TTL rule at the view's `now`.
pub struct View<'a> {
    state: &'a State,
    contents: &'a Contents,
    at: ReadPoint,
}

// === impl View ===

impl<'a> View<'a> {
    #[inline]
    fn contents(&self) -> &'a Contents {
        self.contents
    }

    pub(super) fn ids(&self) -> &'a IdMap {
        self.contents().ids()
    }

    pub(super) fn new(state: &'a State, at: ReadPoint) -> Self {
        Self {
            state,
            contents: state.contents_at(at),
            at,
        }
    }

    #[inline]
    pub fn now(&self) -> Millis {
        self.at.now()
    }

    /// Returns whether the server refuses to read a whole collection for a query.
    pub fn refuses_scans(&self) -> bool {
        let refuses = &self.contents().shared().refuses_scans;
        refuses.load(Ordering::Relaxed)
    }

    /// Returns the UUID of the collection.
    pub fn uuid(&self) -> Option<Uuid> {
        self.contents().subject().uuid
    }

    /// Returns how often commands used the map of `_id`s.
    pub fn id_usage(&self) -> &'a IndexUsage {
        self.state.id_usage()
    }

    /// Returns what differs from the present, for a reader with a snapshot.
    #[inline]
    pub(super) fn past(&self) -> Option<Past<'a>> {
        Past::of(self.contents(), self.at)
    }

    #[inline]
    pub fn get(&self, id: RecordId) -> Option<Stored<'a>> {
        if let Some(past) = self.past()
            && let Some(version) = past.version(id)
        {
            return version;
        }
        self.present(id)
    }

    /// Returns the document as it is now, whatever the snapshot.
    #[inline]
    pub(super) fn present(&self, id: RecordId) -> Option<Stored<'a>> {
        let stored = self
            .contents()
            .segments()
            .get(id.segment())?
            .get(id.slot(), self.default_ttl())?;
        (!stored.end.has_come(self.now())).then_some(stored)
    }

    /// Returns the documents of several records, for a caller that will read them all at once.
    ///
    /// Each scattered document costs a few waits for memory. Here the waits of all documents overlap: independent loads
    /// follow each other, first of the slots, then of the first line of each document (whose page must be found), then of
    /// the lines after it. The sums have no meaning.
    pub fn get_several<const N: usize>(
        &self,
        ids: &[RecordId],
        found: &mut SmallVec<[Option<Stored<'a>>; N]>,
    ) {
        /// The bytes that one load brings.
        const LINE: usize = 64;
        /// After this many bytes the processor itself prefetches for a sequential reader.
        const NEAR: usize = 1024;
        found.clear();
        let segments = self.contents().segments();
        let mut sum = 0_u32;
        if ids.len() > 1 {
            for id in ids {
                sum ^= segments.get(id.segment()).map_or(0, |s| s.peek(id.slot()));
            }
        }
        for &id in ids {
            found.push(self.get(id));
        }
        if ids.len() > 1 {
            for stored in found.iter().flatten() {
                sum ^= stored.bytes.first().map_or(0, |&byte| u32::from(byte));
            }
            for stored in found.iter().flatten() {
                let near = &stored.bytes[..stored.bytes.len().min(NEAR)];
                sum ^= near
                    .chunks_exact(LINE)
                    .fold(0, |sum, line| sum ^ u32::from(line[LINE - 1]));
            }
        }
        std::hint::black_box(sum);
    }

    /// Calls `each` for all documents from that record on, in natural order. This is internal iteration, because iterator
    /// adapters that the compiler cannot inline cost a scan a tenth of its time.
    #[inline]
    pub fn each_up<B>(
        &self,
        from: RecordId,
        mut each: impl FnMut(RecordId, Stored<'a>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        match self.past() {
            None => self.each_present_up(from, each),
            Some(past) => merge(
                past.up(from),
                RecordId::lt,
                |each| self.each_present_up(from, each),
                &mut each,
            ),
        }
    }

    #[inline]
    fn each_present_up<B>(
        &self,
        from: RecordId,
        mut each: impl FnMut(RecordId, Stored<'a>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        for (number, segment) in self.contents().segments().from(from.segment()) {
            let slot = if number == from.segment() {
                from.slot()
            } else {
                0
            };
            segment.each_up(slot, self.default_ttl(), self.now(), |slot, stored| {
                each(RecordId::new(number, slot), stored)
            })?;
        }
        ControlFlow::Continue(())
    }

    /// Calls `each` for all documents from that record back to the first, against the natural order.
    #[inline]
    pub fn each_down<B>(
        &self,
        from: RecordId,
        mut each: impl FnMut(RecordId, Stored<'a>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        match self.past() {
            None => self.each_present_down(from, each),
            Some(past) => merge(
                past.down(from),
                RecordId::gt,
                |each| self.each_present_down(from, each),
                &mut each,
            ),
        }
    }

    #[inline]
    fn each_present_down<B>(
        &self,
        from: RecordId,
        mut each: impl FnMut(RecordId, Stored<'a>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        for (number, segment) in self.contents().segments().up_to(from.segment()).rev() {
            let slot = if number == from.segment() {
                from.slot()
            } else {
                u16::MAX
            };
            segment.each_down(slot, self.default_ttl(), self.now(), |slot, stored| {
                each(RecordId::new(number, slot), stored)
            })?;
        }
        ControlFlow::Continue(())
    }

    /// Returns all documents in natural order.
    #[cfg(test)]
    pub fn all(&self) -> Vec<(RecordId, Stored<'a>)> {
        let mut all = Vec::new();
        let _ = self.each_up(RecordId::FIRST, |id, stored| {
            all.push((id, stored));
            ControlFlow::<()>::Continue(())
        });
        all
    }

    /// Returns the newest record. The scans of a statement stop here, so that it never reads its own inserts.
    pub fn newest(&self) -> RecordId {
        if let Some(past) = self.past() {
            return past.newest();
        }
        match self.contents().segments().last() {
            Some((number, segment)) => RecordId::new(number, segment.last_id()),
            None => RecordId::FIRST,
        }
    }

    /// Returns the last document that was evicted from a capped collection.
    pub fn evicted(&self) -> Option<RecordId> {
        self.contents().evicted()
    }

    /// Returns the indexes that clients have created.
    pub fn indexes(&self) -> impl Iterator<Item = &'a Index> + use<'a> {
        self.ways()
            .iter()
            .filter(|index| index.spec.name != ID_INDEX)
    }

    pub fn index(&self, name: &str) -> Option<&'a Index> {
        self.indexes().find(|index| index.spec.name == name)
    }

    /// Returns all indexes that can be read in order: those of clients, and the ordered index of `_id`s if it was built.
    pub fn ways(&self) -> &'a [Index] {
        self.contents().indexes()
    }

    pub fn way(&self, name: &str) -> Option<&'a Index> {
        self.ways().iter().find(|index| index.spec.name == name)
    }

    /// Returns the records with exactly that key in an index.
    pub fn holders(
        &self,
        index: &'a Index,
        key: &'a [u8],
    ) -> impl Iterator<Item = RecordId> + use<'a> {
        let past = self.past();
        let changed = past.map(|past| past.entries(index)).unwrap_or_default();
        let changed = changed
            .into_iter()
            .filter(move |entry| entry.starts_with(key));
        let present = index.holders(key);
        present
            .filter(move |id| past.is_none_or(|past| past.version(*id).is_none()))
            .chain(changed.map(|entry| split(&entry).1))
    }

    /// Returns the entries that replace those of changed records in an index, for a reader with a snapshot. Present entries
    /// count only if [`View::is_unchanged`] says so.
    pub fn changed_entries(&self, index: &Index) -> Option<Vec<Entry>> {
        self.past().map(|past| past.entries(index))
    }

    /// Returns whether the reader sees the record as it is now.
    pub fn is_unchanged(&self, id: RecordId) -> bool {
        self.past().is_none_or(|past| past.version(id).is_none())
    }

    /// Returns the index with that number, which the caller has seen before.
    pub fn numbered(&self, number: IndexNumber) -> Option<&'a Index> {
        self.ways().iter().find(|index| index.number == number)
    }

    /// Returns the exact totals of the visible documents: those in memory, minus the expired ones in segments that may have
    /// any.
    pub fn totals(&self) -> Totals {
        let (held, ended) = (self.contents().totals(), self.ended());
        Totals {
            count: held.count - ended.count,
            bytes: held.bytes - ended.bytes,
        }
    }

    /// Returns the totals of the documents that have expired and still take memory.
    pub fn ended(&self) -> Totals {
        let mut ended = Totals::default();
        if self.earliest_end().has_come(self.now()) {
            for segment in self.contents().segments().all() {
                let part = segment.ended_totals(self.default_ttl(), self.now());
                ended.count += part.count;
                ended.bytes += part.bytes;
            }
        }
        ended
    }

    /// Returns how many bytes the expired documents still take in an index. Visits each of them.
    pub fn ended_bytes(&self, index: &Index) -> u64 {
        let default = self.default_ttl();
        let due = self.contents().segments().from(0).filter(|(_, segment)| {
            let earliest = segment.bounds().earliest(default);
            earliest.has_come(self.now())
        });
        let mut bytes = 0;
        for (number, segment) in due {
            for slot in segment.ended(0, default, self.now()) {
                let Some(stored) = segment.get(slot, default) else {
                    continue;
                };
                // A document that cannot be indexed has no entries, and neither has one that had expired before the index
                // was created.
                if let Ok(keys) = IndexKeys::of(&index.spec, Doc::new(stored.bytes), stored.ts) {
                    bytes += index.bytes_of(&keys, RecordId::new(number, slot)) as u64;
                }
            }
        }
        bytes
    }

    /// Returns the earliest end of the expired documents that still take memory.
    pub fn waiting_since(&self) -> Option<End> {
        let segments = self.contents().segments().all();
        segments
            .filter_map(|segment| segment.first_ended(self.default_ttl(), self.now()))
            .min()
    }

    /// Returns the moment before which no document expires.
    fn earliest_end(&self) -> End {
        self.contents().earliest_end()
    }

    #[inline]
    pub fn default_ttl(&self) -> DefaultTtl {
        self.contents().default_ttl()
    }

    pub fn ts_index(&self) -> Option<&'a TsIndex> {
        self.contents().ts_index()
    }

    pub fn options(&self) -> &'a CollectionOptions {
        self.state.options()
    }

    pub fn namespace(&self) -> &'a Namespace {
        self.state.namespace()
    }

    /// Returns how often the collection was renamed.
    pub fn renames(&self) -> u32 {
        self.state.renames()
    }

    /// Returns whether the collection was dropped since the caller looked it up. A snapshot from before can still read it.
    pub fn is_dropped(&self) -> bool {
        self.state.is_dropped() && std::ptr::eq(self.contents, self.state.contents())
    }

    /// Returns whether the reader has a snapshot.
    pub fn is_of_snapshot(&self) -> bool {
        self.at.as_of().is_some()
    }

    /// Returns whether the reader may use the index: it is complete, and was so when the reader's snapshot was opened.
    pub fn is_usable(&self, index: &Index) -> bool {
        index.ready && self.at.as_of().is_none_or(|time| index.since <= time)
    }

    /// Returns how many bytes documents have allocated, including holes and expired documents.
    #[cfg(test)]
    pub fn allocated(&self) -> usize {
        let segments = self.contents().segments().all();
        segments.map(|segment| segment.allocated()).sum()
    }
}

/// Calls `each` for the present documents, and for the versions of those that have changed in their place. Both come in the
/// same order.
fn merge<'a, B>(
    changed: impl Iterator<Item = (RecordId, Option<Stored<'a>>)>,
    is_before: fn(&RecordId, &RecordId) -> bool,
    present: impl FnOnce(&mut dyn FnMut(RecordId, Stored<'a>) -> ControlFlow<B>) -> ControlFlow<B>,
    each: &mut dyn FnMut(RecordId, Stored<'a>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let mut changed = changed.peekable();
    present(&mut |id, stored| {
        while let Some((other, version)) = changed.next_if(|(other, _)| is_before(other, &id)) {
            version.map_or(ControlFlow::Continue(()), |version| each(other, version))?;
        }
        match changed.next_if(|(other, _)| *other == id) {
            Some((_, Some(version))) => each(id, version),
            Some((_, None)) => ControlFlow::Continue(()),
            None => each(id, stored),
        }
    })?;
    changed.try_for_each(|(id, version)| {
        version.map_or(ControlFlow::Continue(()), |version| each(id, version))
    })
}
