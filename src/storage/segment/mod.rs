//! A segment: a run of consecutive record ids, and one heap with the bytes of their documents.
//!
//! ```text
//! slots  [ id 0 | id 1 | id 4 | … ]     sorted by id; a slot whose length is 0 is dead
//!            └──────────┐
//! heap   [ document · document · (hole) · document · … ]
//! ```
//!
//! Many documents share one heap, because an allocator rounds each small block up and never gives back the pages between
//! scattered survivors. Here the overhead is the slot, and a mostly dead segment is rewritten as a whole. A changed
//! document stays in place if it fits (there is a little spare room behind each document). Otherwise it moves to the end of
//! the heap. A large document has a block of its own, so that rewriting a heap stays cheap however large documents become.
//! Ids are never reused and survive compaction. A segment knows no index and no lock.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

use crate::value::{Doc, Millis, Patch};

use super::expiry::date_ends::{DateEnds, PendingEnds};
use super::stored::{Stamp, Stored, Totals};
use crate::storage::expiry::Bounds;
use crate::ttl::{DefaultTtl, End, OwnTtl};

/// The size at which a heap is full and the next segment begins.
const HEAP_BYTES: usize = 256 * 1024;
/// Documents from this size on are stored outside the heap (allocators do not round such blocks up by much).
const LARGE: usize = 16 * 1024;
/// Large documents take no heap, so their number also fills a segment. Otherwise a scan would visit thousands of them at
/// once.
const MAX_LARGE: usize = 64;
/// Slot ids are 16 bits wide.
const MAX_SLOTS: usize = 1 << 16;
/// A heap with fewer dead bytes is not worth rewriting.
const MIN_DEAD: usize = 16 * 1024;

/// A run of documents with consecutive record ids.
pub(super) struct Segment {
    slots: Vec<Slot>,
    dates: DateEnds,
    /// The ends under the next date rules, once they are computed for this segment ([`super::expiry::dates`]).
    pending: Option<Box<PendingEnds>>,
    heap: Vec<u8>,
    /// Large documents by slot id.
    large: BTreeMap<u16, Box<[u8]>>,
    live: usize,
    /// Bytes of all live documents, in the heap or outside.
    live_bytes: usize,
    /// Bytes of the heap that belong to live documents, including the spare room behind them.
    heap_live: usize,
    bounds: Bounds,
}

/// The place and the TTL data of one document.
#[derive(Clone, Copy)]
struct Slot {
    ts: Millis,
    /// The position in the heap, or `OUTSIDE`.
    at: u32,
    /// 0 for a dead slot.
    len: u32,
    own: OwnTtl,
    id: u16,
    /// Free bytes behind the document, for it to grow into.
    spare: u16,
}

const OUTSIDE: u32 = u32::MAX;

/// Returns how much room to leave behind a document: enough for a counter to widen or a short field to be added.
fn spare(len: usize) -> u16 {
    (8 + len / 64) as u16
}

// === impl Segment ===

impl Segment {
    /// Creates a segment. `like` is the segment before, whose number of slots is the best guess for this one's. The first
    /// segment of a collection starts small, because most collections of a test stay tiny.
    pub fn new(like: Option<&Segment>) -> Self {
        let (slots, heap) = like.map_or((0, 0), |before| (before.slots.len(), HEAP_BYTES));
        Self {
            slots: Vec::with_capacity(slots),
            dates: DateEnds::default(),
            pending: None,
            heap: Vec::with_capacity(heap),
            large: BTreeMap::new(),
            live: 0,
            live_bytes: 0,
            heap_live: 0,
            bounds: Bounds::NONE,
        }
    }

    pub fn has_room(&self, len: usize) -> bool {
        let last = self.slots.last().map_or(0, |slot| usize::from(slot.id) + 1);
        let width = len + usize::from(spare(len));
        last < MAX_SLOTS
            && self.large.len() < MAX_LARGE
            && (len >= LARGE || self.heap.len() + width <= HEAP_BYTES)
    }

    /// Gives back the memory reserved for more documents, when none will be added.
    pub fn seal(&mut self) {
        self.slots.shrink_to_fit();
        self.heap.shrink_to_fit();
    }

    /// Adds a document after the others and returns its slot id. The caller has checked `has_room`.
    pub fn push(&mut self, bytes: &[u8], stamp: Stamp) -> u16 {
        let id = self.slots.last().map_or(0, |slot| slot.id + 1);
        let (at, spare) = self.place(id, bytes);
        self.slots.push(Slot {
            ts: stamp.ts,
            at,
            len: bytes.len() as u32,
            own: stamp.own,
            id,
            spare,
        });
        self.set_dates(self.slots.len() - 1, &stamp);
        self.live += 1;
        self.live_bytes += bytes.len();
        self.bounds.include(stamp.own, stamp.ts, stamp.dates);
        id
    }

    /// Stores the bytes at the end of the heap, or outside. Returns their position and the room behind them.
    fn place(&mut self, id: u16, bytes: &[u8]) -> (u32, u16) {
        if bytes.len() >= LARGE {
            self.large.insert(id, bytes.into());
            return (OUTSIDE, 0);
        }
        let spare = spare(bytes.len());
        let width = bytes.len() + usize::from(spare);
        let at = self.heap.len() as u32;
        if self.heap.len() + width > self.heap.capacity() && self.heap.len() >= HEAP_BYTES / 2 {
            // Grown in quarters: doubling a heap for one longer document would waste most of it.
            self.heap.reserve_exact(width + HEAP_BYTES / 4);
        }
        self.heap.extend_from_slice(bytes);
        self.heap.resize(at as usize + width, 0);
        self.heap_live += width;
        (at, spare)
    }

    /// Releases the bytes of a slot: they become a hole in the heap, or a block is freed.
    fn vacate(&mut self, slot: Slot) {
        if slot.at == OUTSIDE {
            self.large.remove(&slot.id);
        } else {
            self.heap_live -= slot.len as usize + usize::from(slot.spare);
        }
    }

    fn set_dates(&mut self, at: usize, stamp: &Stamp) {
        self.dates.set(self.slots.len(), at, stamp.dates);
        if let Some(pending) = &mut self.pending {
            pending.set(self.slots.len(), at, stamp.pending);
        }
    }

    /// Returns the position of the slot with that id, if it is alive.
    #[inline]
    fn find(&self, id: u16) -> Option<usize> {
        // Without gaps the id is the position.
        let at = match self.slots.get(usize::from(id)) {
            Some(slot) if slot.id == id => usize::from(id),
            _ => self.slots.binary_search_by_key(&id, |slot| slot.id).ok()?,
        };
        (self.slots[at].len > 0).then_some(at)
    }

    #[inline(always)]
    fn end(&self, at: usize, default: DefaultTtl) -> End {
        let slot = &self.slots[at];
        default.end(slot.own, slot.ts).min(self.dates.get(at))
    }

    #[inline]
    fn bytes(&self, at: usize) -> &[u8] {
        let slot = &self.slots[at];
        if slot.at == OUTSIDE {
            return self
                .large
                .get(&slot.id)
                .map(AsRef::as_ref)
                .unwrap_or_default();
        }
        &self.heap[slot.at as usize..slot.at as usize + slot.len as usize]
    }

    fn bytes_mut(&mut self, at: usize) -> &mut [u8] {
        let slot = &self.slots[at];
        if slot.at == OUTSIDE {
            let large = self.large.get_mut(&slot.id);
            return large.map(AsMut::as_mut).unwrap_or_default();
        }
        &mut self.heap[slot.at as usize..slot.at as usize + slot.len as usize]
    }

    // Always inlined: returned through memory and read back in wider pieces, it costs a scan a tenth of its time.
    #[inline(always)]
    fn stored(&self, at: usize, default: DefaultTtl) -> Stored<'_> {
        Stored {
            bytes: self.bytes(at),
            ts: self.slots[at].ts,
            own: self.slots[at].own,
            end: self.end(at, default),
        }
    }

    /// Loads the slot that is probably at this position. The value has no meaning.
    #[inline]
    pub fn peek(&self, id: u16) -> u32 {
        self.slots.get(usize::from(id)).map_or(0, |slot| slot.at)
    }

    /// Returns the bytes of the document with that id, expired or not.
    #[inline]
    pub fn bytes_of(&self, id: u16) -> Option<&[u8]> {
        Some(self.bytes(self.find(id)?))
    }

    /// Returns the bytes of the document with that id, expired or not, and the moment of its last write.
    pub fn document(&self, id: u16) -> Option<(&[u8], Millis)> {
        let at = self.find(id)?;
        Some((self.bytes(at), self.slots[at].ts))
    }

    /// Returns the document with that id, expired or not.
    #[inline]
    pub fn get(&self, id: u16, default: DefaultTtl) -> Option<Stored<'_>> {
        Some(self.stored(self.find(id)?, default))
    }

    /// Calls `each` for the visible documents with ids from `from` on, in ascending order.
    #[inline]
    pub fn each_up<'s, B>(
        &'s self,
        from: u16,
        default: DefaultTtl,
        now: Millis,
        mut each: impl FnMut(u16, Stored<'s>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        for at in self.from(from, default, now) {
            if let Some((id, stored)) = self.visible(at, default, now) {
                each(id, stored)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Calls `each` for the visible documents with ids up to `to`, in descending order.
    #[inline]
    pub fn each_down<'s, B>(
        &'s self,
        to: u16,
        default: DefaultTtl,
        now: Millis,
        mut each: impl FnMut(u16, Stored<'s>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        for at in self.up_to(to, default, now).rev() {
            if let Some((id, stored)) = self.visible(at, default, now) {
                each(id, stored)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Returns the positions of the slots with ids from `from` on, or an empty range if all documents have expired.
    fn from(&self, from: u16, default: DefaultTtl, now: Millis) -> Range<usize> {
        let start = if self.is_over(default, now) {
            self.slots.len()
        } else {
            self.slots.partition_point(|slot| slot.id < from)
        };
        start..self.slots.len()
    }

    /// Returns the positions of the slots with ids up to `to`, or an empty range if all documents have expired.
    fn up_to(&self, to: u16, default: DefaultTtl, now: Millis) -> Range<usize> {
        let end = if self.is_over(default, now) {
            0
        } else {
            self.slots.partition_point(|slot| slot.id <= to)
        };
        0..end
    }

    /// Returns whether all documents have expired, so that a scan can skip them. (After a mass expiry that is most of a
    /// collection, until the reaper has freed them.)
    #[inline]
    fn is_over(&self, default: DefaultTtl, now: Millis) -> bool {
        self.bounds.latest(default).has_come(now)
    }

    #[inline(always)]
    fn visible(&self, at: usize, default: DefaultTtl, now: Millis) -> Option<(u16, Stored<'_>)> {
        let slot = &self.slots[at];
        if slot.len == 0 {
            return None;
        }
        let stored = self.stored(at, default);
        (!stored.end.has_come(now)).then_some((slot.id, stored))
    }

    /// Gives a live document new bytes and a new stamp. Returns how many bytes it had.
    pub fn replace(&mut self, id: u16, bytes: &[u8], stamp: Stamp) -> usize {
        let Some(at) = self.find(id) else {
            return bytes.len();
        };
        let slot = self.slots[at];
        self.live_bytes = self.live_bytes - slot.len as usize + bytes.len();
        let width = slot.len as usize + usize::from(slot.spare);
        let (place, spare) = if slot.at != OUTSIDE && bytes.len() <= width {
            let start = slot.at as usize;
            self.heap[start..start + bytes.len()].copy_from_slice(bytes);
            // A document that shrank much gives up its spare room, which counts as a hole from now on.
            let left = (width - bytes.len()).min(usize::from(spare(bytes.len())) * 4);
            self.heap_live -= width - bytes.len() - left;
            (slot.at, left as u16)
        } else {
            self.vacate(slot);
            self.place(id, bytes)
        };
        self.slots[at] = Slot {
            ts: stamp.ts,
            at: place,
            len: bytes.len() as u32,
            own: stamp.own,
            id,
            spare,
        };
        self.set_dates(at, &stamp);
        self.bounds.include(stamp.own, stamp.ts, stamp.dates);
        self.compact_if_worth_it();
        slot.len as usize
    }

    /// Overwrites bytes of a document in place (or none) and sets its `_ts`. Returns what else decides its end, which the
    /// patch does not change: its own ttl, and its end by dates.
    pub fn patch(&mut self, id: u16, patch: &Patch, ts: Millis) -> Option<(OwnTtl, End)> {
        let at = self.find(id)?;
        if !patch.is_empty() {
            patch.apply(self.bytes_mut(at));
        }
        let dates = self.dates.get(at);
        let slot = &mut self.slots[at];
        slot.ts = ts;
        self.bounds.include(slot.own, ts, dates);
        Some((slot.own, dates))
    }

    /// Computes the ends of all documents under the next date rules. From now on writers maintain them.
    pub fn compute_pending(&mut self, end: impl Fn(Doc<'_>) -> End) {
        let mut pending = PendingEnds::new();
        for at in 0..self.slots.len() {
            if self.slots[at].len > 0 {
                let end = end(Doc::new(self.bytes(at)));
                pending.set(self.slots.len(), at, end);
            }
        }
        self.pending = Some(Box::new(pending));
    }

    pub fn forget_coming(&mut self) {
        self.pending = None;
    }

    /// Puts the next date rules in force.
    pub fn install_pending(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.dates = pending.install(&mut self.bounds);
        }
    }

    /// Marks a document as dead and returns how many bytes it had. The next compaction frees its memory.
    pub fn remove(&mut self, id: u16) -> usize {
        let Some(at) = self.find(id) else { return 0 };
        self.vacate(self.slots[at]);
        self.live -= 1;
        let len = std::mem::take(&mut self.slots[at].len) as usize;
        self.live_bytes -= len;
        len
    }

    /// Rewrites the segment when a third of its heap consists of holes. A heap of a quarter of a megabyte is small enough
    /// to do this at once.
    pub fn compact_if_worth_it(&mut self) {
        let dead = self.heap.len() - self.heap_live;
        if dead < MIN_DEAD || dead < self.heap_live / 2 {
            return;
        }
        let mut heap = Vec::with_capacity(self.heap_live);
        let mut slots = Vec::with_capacity(self.live);
        let mut kept = Vec::with_capacity(self.live);
        let mut bounds = Bounds::NONE;
        let last = self.slots.last().map(|slot| slot.id);
        for (at, &slot) in self.slots.iter().enumerate() {
            // The last slot stays even if it is dead, so that its id is not given out twice.
            if slot.len == 0 && Some(slot.id) != last {
                continue;
            }
            let mut moved = slot;
            if slot.at != OUTSIDE && slot.len > 0 {
                moved.at = heap.len() as u32;
                moved.spare = spare(slot.len as usize);
                heap.extend_from_slice(self.bytes(at));
                heap.resize(heap.len() + usize::from(moved.spare), 0);
            }
            slots.push(moved);
            kept.push(at);
            if slot.len > 0 {
                bounds.include(slot.own, slot.ts, self.dates.get(at));
            }
        }
        let mut pending = self.pending.take();
        if let Some(pending) = &mut pending {
            pending.keep(&kept);
        }
        let heap_live = heap.len();
        let large = std::mem::take(&mut self.large);
        *self = Self {
            slots,
            dates: self.dates.of(&kept),
            pending,
            heap,
            large,
            live: self.live,
            live_bytes: self.live_bytes,
            heap_live,
            bounds,
        };
    }

    /// Returns the ids of expired documents, from `from` on.
    pub fn ended(&self, from: u16, default: DefaultTtl, now: Millis) -> impl Iterator<Item = u16> {
        let start = self.slots.partition_point(|slot| slot.id < from);
        (start..self.slots.len())
            .filter(move |&at| self.slots[at].len > 0 && self.end(at, default).has_come(now))
            .map(|at| self.slots[at].id)
    }

    /// Returns the totals of the documents that have expired but still take memory.
    pub fn ended_totals(&self, default: DefaultTtl, now: Millis) -> Totals {
        let mut totals = Totals::default();
        if !self.bounds.earliest(default).has_come(now) {
            return totals;
        }
        if self.is_over(default, now) {
            return Totals {
                count: self.live as u64,
                bytes: self.live_bytes as u64,
            };
        }
        for at in 0..self.slots.len() {
            let slot = &self.slots[at];
            let gone = slot.len > 0 && self.end(at, default).has_come(now);
            totals.count += u64::from(gone);
            totals.bytes += if gone { u64::from(slot.len) } else { 0 };
        }
        totals
    }

    /// Returns the earliest end of the expired documents that still take memory.
    pub fn first_ended(&self, default: DefaultTtl, now: Millis) -> Option<End> {
        if !self.bounds.earliest(default).has_come(now) {
            return None;
        }
        (0..self.slots.len())
            .filter(|&at| self.slots[at].len > 0)
            .map(|at| self.end(at, default))
            .min()
            .filter(|end| end.has_come(now))
    }

    /// Makes the bounds exact.
    pub fn tighten(&mut self) {
        let mut bounds = Bounds::NONE;
        for (at, slot) in self.slots.iter().enumerate() {
            if slot.len > 0 {
                bounds.include(slot.own, slot.ts, self.dates.get(at));
            }
        }
        self.bounds = bounds;
    }

    /// Returns the highest slot id given out.
    pub fn last_id(&self) -> u16 {
        self.slots.last().map_or(0, |slot| slot.id)
    }

    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    pub fn is_dead(&self) -> bool {
        self.live == 0
    }

    /// Returns how many bytes the segment has allocated.
    #[cfg(test)]
    pub fn allocated(&self) -> usize {
        let large: usize = self.large.values().map(|block| block.len()).sum();
        large
            + self.heap.capacity()
            + self.slots.capacity() * size_of::<Slot>()
            + self.dates.allocated()
            + self
                .pending
                .as_ref()
                .map_or(0, |pending| pending.allocated())
    }
}

#[cfg(test)]
mod tests;
