//! Frees expired documents in slices, and changes a rule only when no document is left that had expired under it.

use std::time::Instant;

use smallvec::SmallVec;

use crate::clock;
use crate::storage::contents::{Cause, Change};
use crate::storage::{Collection, Dropped, RecordId, Rules, Writer};
use crate::value::Millis;

/// How many documents are removed before the time is checked again.
const CHUNK: usize = 32;

/// The result of a slice of reaping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slice {
    /// Documents freed.
    pub removed: u64,
    /// Whether expired documents are left.
    pub due: bool,
    /// Whether there is more to do right away: expired documents, or memory to give back.
    pub more: bool,
}

/// The proof that a collection holds no document that had expired by some moment. Only draining creates one, and it is
/// valid under that hold of the lock. Functions that could revive a document require it, because expiry is final.
pub(in crate::storage) struct Drained {
    by: Millis,
}

// === impl Drained ===

impl Drained {
    /// Returns the moment: all documents that had expired by then are removed.
    pub fn by(&self) -> Millis {
        self.by
    }
}

// === impl Collection ===

impl Collection {
    /// Frees documents that have expired by `now`, until none is left or the deadline `until` passes.
    pub fn reap(&self, now: Millis, until: Instant) -> Slice {
        let mut state = self.exclusive();
        // Checked under the lock: if the clock was set back meanwhile, documents written after that have not expired.
        let now = self.horizon.clamp_to_now(now);
        let seen = self.seen_by_writer(&mut state, now);
        Writer::new(&mut state, now, seen).reap(now, Some(until))
    }

    /// Sets up a collection that no other thread can find yet. Nothing in it has expired.
    pub(in crate::storage) fn set_up(&self, now: Millis, prepare: impl FnOnce(&mut Rules<'_>)) {
        let mut state = self.exclusive();
        debug_assert_eq!(state.contents().totals().count, 0, "it holds documents");
        let writer = Writer::new(&mut state, now, now);
        prepare(&mut Rules::new(writer, Drained { by: now }));
    }

    /// Makes a change that could revive documents, but only after all documents that have expired under the present rule
    /// are removed: expiry is final. Removes documents until the deadline `until`. If some are left, `Ok(Err(change))`
    /// returns the change to the caller, who tries again with a fresh `now` after other tasks have run. The last check and
    /// the change share one hold of the lock.
    pub fn drain_then<T, F: FnOnce(&mut Rules<'_>) -> T>(
        &self,
        now: Millis,
        until: Instant,
        change: F,
    ) -> Result<Result<T, F>, Dropped> {
        let mut state = self.exclusive();
        if state.is_dropped() {
            return Err(Dropped);
        }
        let seen = self.seen_by_writer(&mut state, now);
        let mut writer = Writer::new(&mut state, now, seen);
        // Drain up to the latest moment at which any command has read, not only up to this command's `now`.
        Ok(match writer.drain(seen, Some(until)) {
            Some(drained) => Ok(change(&mut Rules::new(writer, drained))),
            None => Err(change),
        })
    }
}

// === impl Writer ===

impl Writer<'_> {
    /// Frees all documents that have expired `by` a moment. Returns `None` if the deadline passed first.
    pub(in crate::storage) fn drain(
        &mut self,
        by: Millis,
        until: Option<Instant>,
    ) -> Option<Drained> {
        if self.reap(by, until).due {
            return None;
        }
        self.contents_mut().forget_ended_versions(by);
        Some(Drained { by })
    }

    fn reap(&mut self, now: Millis, until: Option<Instant>) -> Slice {
        let is_over = || until.is_some_and(|until| clock::monotonic() >= until);
        let mut slice = Slice::default();
        let before = self.contents().totals().count;
        while self.reap_some(now) {
            if is_over() {
                slice.removed = before - self.contents().totals().count;
                slice.due = self.is_due(now);
                slice.more = slice.due || self.contents().can_shrink();
                return slice;
            }
        }
        slice.removed = before - self.contents().totals().count;
        slice.more = self.shrink(is_over);
        slice
    }

    /// Frees some documents that have expired by `now`, or makes bounds exact where they suggested expired documents.
    /// Returns `false` if none is left.
    pub(in crate::storage) fn reap_some(&mut self, now: Millis) -> bool {
        if !self.is_due(now) {
            return false;
        }
        let contents = self.contents_mut();
        let default = contents.default_ttl();
        let from = contents.reap_from();
        let due = contents
            .segments()
            .from(from.segment())
            .find(|(_, s)| s.bounds().earliest(default).has_come(now));
        let Some((number, segment)) = due else {
            // All segments from here on are visited. The next round starts at the first segment and uses the exact bounds.
            contents.set_reap_from(RecordId::FIRST);
            contents.tighten();
            return true;
        };
        let slot = if number == from.segment() {
            from.slot()
        } else {
            0
        };
        let ended: SmallVec<[u16; CHUNK]> = segment.ended(slot, default, now).take(CHUNK).collect();
        for &slot in &ended {
            let change = Change::Remove {
                id: RecordId::new(number, slot),
                cause: Cause::Expired,
            };
            contents.commit(now, change);
        }
        let next = match ended.last() {
            Some(&last) if ended.len() == CHUNK => RecordId::new(number, last).next(),
            // This segment is done, except for documents in earlier slots that have expired meanwhile.
            _ => RecordId::new(number, 0),
        };
        contents.set_reap_from(next);
        if next.slot() == 0 {
            // Compact only now, so that documents about to be removed are not moved first.
            contents.compact(number);
            contents.tighten_segment(number);
        }
        true
    }

    /// Gives back memory that the `_id` map and the indexes no longer need. Returns whether there may be more.
    fn shrink(&mut self, is_over: impl Fn() -> bool) -> bool {
        while self.contents_mut().shrink_some(CHUNK) {
            if is_over() {
                return true;
            }
        }
        false
    }

    /// Returns whether a document may have expired by `now`.
    pub(in crate::storage) fn is_due(&self, now: Millis) -> bool {
        self.contents().earliest_end().has_come(now)
    }
}
