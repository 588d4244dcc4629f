//! Freeing what has ended, in slices; and changing a rule only once nothing is left that had ended under it.

use std::time::Instant;

use smallvec::SmallVec;

use crate::clock;
use crate::storage::contents::{Cause, Change};
use crate::storage::{Collection, Dropped, RecordId, Rules, Writer};
use crate::value::Millis;

/// How many documents are removed between two looks at the time.
const CHUNK: usize = 32;

/// What a slice of reaping did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slice {
    /// Documents freed.
    pub removed: u64,
    /// Documents that have ended are left.
    pub due: bool,
    /// There is more to do right away: those, or memory to be given back.
    pub more: bool,
}

/// Nothing is left in a collection that had ended by some moment. Only draining makes one, for the lock hold in which that is so.
/// Whatever could bring a document back takes it, since expired is final.
pub(in crate::storage) struct Drained {
    by: Millis,
}

// === impl Drained ===

impl Drained {
    /// What had ended by then is removed.
    pub fn by(&self) -> Millis {
        self.by
    }
}

// === impl Collection ===

impl Collection {
    /// Frees documents that have ended by `now`, until there are none left or it is `until`.
    pub fn reap(&self, now: Millis, until: Instant) -> Slice {
        let mut state = self.exclusive();
        // Asked under the lock: if time was set back since, what was written after that has not ended.
        let now = self.horizon.clamp_to_now(now);
        let seen = self.seen_by_writer(&mut state, now);
        Writer::new(&mut state, now, seen).reap(now, Some(until))
    }

    /// Sets up a collection that nobody can find yet: nothing in it has ended.
    pub(in crate::storage) fn set_up(&self, now: Millis, prepare: impl FnOnce(&mut Rules<'_>)) {
        let mut state = self.exclusive();
        debug_assert_eq!(state.contents().totals().count, 0, "it holds documents");
        let writer = Writer::new(&mut state, now, now);
        prepare(&mut Rules::new(writer, Drained { by: now }));
    }

    /// Makes a change that could bring documents back, but only when everything that has ended under the rule that
    /// still holds is removed: expired is final. Removes until `until`; `Ok(Err(change))` hands the change back to be
    /// tried again, with a fresh `now`, after others had their turn. The last look and the change share one lock hold.
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
        // By the latest moment at which anybody looked, not just by this command's.
        Ok(match writer.drain(seen, Some(until)) {
            Some(drained) => Ok(change(&mut Rules::new(writer, drained))),
            None => Err(change),
        })
    }
}

// === impl Writer ===

impl Writer<'_> {
    /// Frees everything that has ended `by` a moment. `None`: it was `until` before all was done.
    pub(in crate::storage) fn drain(
        &mut self,
        by: Millis,
        until: Option<Instant>,
    ) -> Option<Drained> {
        (!self.reap(by, until).due).then_some(Drained { by })
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

    /// Frees some documents that have ended by `now`, or finds out that there are none where there might have been. `false`:
    /// there are none left.
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
            // All segments from here on are visited. Whatever was passed over at the start of the round is looked at
            // through the exact bounds.
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
            contents.commit(Change::Remove {
                id: RecordId::new(number, slot),
                cause: Cause::Expired,
            });
        }
        let next = match ended.last() {
            Some(&last) if ended.len() == CHUNK => RecordId::new(number, last).next(),
            // Through, but for those before that have ended meanwhile.
            _ => RecordId::new(number, 0),
        };
        contents.set_reap_from(next);
        if next.slot() == 0 {
            // Only now: what is about to go need not be moved before.
            contents.compact(number);
            contents.tighten_segment(number);
        }
        true
    }

    /// Gives back what the `_id` map and the indexes no longer need. Returns whether there may be more to give.
    fn shrink(&mut self, is_over: impl Fn() -> bool) -> bool {
        while self.contents_mut().shrink_some(CHUNK) {
            if is_over() {
                return true;
            }
        }
        false
    }

    /// Whether something may have ended by `now`.
    pub(in crate::storage) fn is_due(&self, now: Millis) -> bool {
        self.contents().earliest_end().has_come(now)
    }
}
