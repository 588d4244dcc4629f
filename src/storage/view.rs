//! A collection as it is at one moment: only what has not ended.

use std::ops::ControlFlow;

use smallvec::SmallVec;

use super::collection::State;
use super::contents::Contents;
use super::idmap::IdMap;
use super::index::{ID_INDEX, Index, IndexKeys, IndexNumber, Usage};
use super::{Namespace, Options, ReadPoint, RecordId, Stored, Totals};
use crate::ttl::{DefaultTtl, End, TsIndex};
use crate::value::{Doc, Millis};

/// A look under the shared lock. Every document that leaves it has passed the rule with this view's `now`.
pub struct View<'a> {
    state: &'a State,
    at: ReadPoint,
}

// === impl View ===

impl<'a> View<'a> {
    #[inline]
    fn contents(&self) -> &'a Contents {
        self.state.contents()
    }

    pub(super) fn ids(&self) -> &'a IdMap {
        self.contents().ids()
    }

    pub(super) fn new(state: &'a State, at: ReadPoint) -> Self {
        Self { state, at }
    }

    #[inline]
    pub fn now(&self) -> Millis {
        self.at.now()
    }

    /// How often a command found its way through the map of `_id`s.
    pub fn id_usage(&self) -> &'a Usage {
        self.state.id_usage()
    }

    #[inline]
    pub fn get(&self, id: RecordId) -> Option<Stored<'a>> {
        let stored = self
            .contents()
            .segments()
            .get(id.segment())?
            .get(id.slot(), self.default_ttl())?;
        (!stored.end.has_come(self.now())).then_some(stored)
    }

    /// What stands in several records, for somebody who will read it all at once.
    ///
    /// Scattered documents cost a few waits for memory each. Here those of all documents overlap: loads that do not depend on
    /// each other are made in a row, first of the slots, then of each document's first line (whose page has to be found), then
    /// of the lines behind it. What the sums are is of no interest.
    pub fn get_several<const N: usize>(
        &self,
        ids: &[RecordId],
        found: &mut SmallVec<[Option<Stored<'a>>; N]>,
    ) {
        /// What one load brings.
        const LINE: usize = 64;
        /// Behind that the processor itself runs ahead of whoever reads on.
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

    /// All documents from that record on, in natural order. Iterated from inside: adapters of iterators that the compiler does
    /// not see through cost a scan a tenth of its time.
    #[inline]
    pub fn each_up<B>(
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

    /// The same against the natural order.
    #[inline]
    pub fn each_down<B>(
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

    /// All documents, upwards.
    #[cfg(test)]
    pub fn all(&self) -> Vec<(RecordId, Stored<'a>)> {
        let mut all = Vec::new();
        let _ = self.each_up(RecordId::FIRST, |id, stored| {
            all.push((id, stored));
            ControlFlow::<()>::Continue(())
        });
        all
    }

    /// The newest record: a statement's scans stop here, so that it never feeds itself.
    pub fn newest(&self) -> RecordId {
        match self.contents().segments().last() {
            Some((number, segment)) => RecordId::new(number, segment.last_id()),
            None => RecordId::FIRST,
        }
    }

    /// The last document that made way in a capped collection.
    pub fn evicted(&self) -> Option<RecordId> {
        self.contents().evicted()
    }

    /// The indexes that clients have made.
    pub fn indexes(&self) -> impl Iterator<Item = &'a Index> + use<'a> {
        self.ways()
            .iter()
            .filter(|index| index.spec.name != ID_INDEX)
    }

    pub fn index(&self, name: &str) -> Option<&'a Index> {
        self.indexes().find(|index| index.spec.name == name)
    }

    /// All that can be read in order: the same, and `_id`s where somebody asked for their order.
    pub fn ways(&self) -> &'a [Index] {
        self.contents().indexes()
    }

    pub fn way(&self, name: &str) -> Option<&'a Index> {
        self.ways().iter().find(|index| index.spec.name == name)
    }

    /// The very one that somebody has seen before.
    pub fn numbered(&self, number: IndexNumber) -> Option<&'a Index> {
        self.ways().iter().find(|index| index.number == number)
    }

    /// Exactly the visible documents: what lives in memory minus a look at those segments where something may have ended.
    pub fn totals(&self) -> Totals {
        let (held, ended) = (self.contents().totals(), self.ended());
        Totals {
            count: held.count - ended.count,
            bytes: held.bytes - ended.bytes,
        }
    }

    /// Documents that have ended and still take memory.
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

    /// Bytes that they still take in an index. Looks at each of them.
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
                // What cannot be indexed has no entries, and who had ended before the index was made has none either.
                if let Ok(keys) = IndexKeys::of(&index.spec, Doc::new(stored.bytes), stored.ts) {
                    bytes += index.bytes_of(&keys, RecordId::new(number, slot)) as u64;
                }
            }
        }
        bytes
    }

    /// When the first of them ended.
    pub fn waiting_since(&self) -> Option<End> {
        let segments = self.contents().segments().all();
        segments
            .filter_map(|segment| segment.first_ended(self.default_ttl(), self.now()))
            .min()
    }

    /// Nothing here ends before this moment.
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

    pub fn options(&self) -> &'a Options {
        self.state.options()
    }

    pub fn namespace(&self) -> &'a Namespace {
        self.state.namespace()
    }

    /// How often the collection was renamed.
    pub fn renames(&self) -> u32 {
        self.state.renames()
    }

    /// The collection was dropped since it was looked up.
    pub fn is_dropped(&self) -> bool {
        self.state.is_dropped()
    }

    /// Bytes that documents take from the allocator, holes and ended ones included.
    #[cfg(test)]
    pub fn allocated(&self) -> usize {
        let segments = self.contents().segments().all();
        segments.map(|segment| segment.allocated()).sum()
    }
}
