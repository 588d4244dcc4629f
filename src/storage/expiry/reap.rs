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

// === impl Collection ===

impl Collection {
    /// Frees documents that have ended by `now`, until there are none left or it is `until`.
    pub fn reap(&self, now: Millis, until: Instant) -> Slice {
        let mut state = self.exclusive();
        // Asked under the lock: if time was set back since, what was written after that has not ended.
        let now = self.come(now);
        let seen = self.seen_by_writer(&mut state, now);
        Writer::new(&mut state, now, seen).reap(now, until)
    }

    /// Sets up a collection that nobody can find yet: nothing in it has ended.
    pub(in crate::storage) fn set_up(&self, now: Millis, prepare: impl FnOnce(&mut Rules<'_>)) {
        let mut state = self.exclusive();
        debug_assert_eq!(state.contents.totals().count, 0, "it holds documents");
        prepare(&mut Rules::drained(Writer::new(&mut state, now, now)));
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
        if state.dropped {
            return Err(Dropped);
        }
        let seen = self.seen_by_writer(&mut state, now);
        let mut writer = Writer::new(&mut state, now, seen);
        // By the latest moment at which anybody looked, not just by this command's.
        if writer.reap(seen, until).due {
            return Ok(Err(change));
        }
        Ok(Ok(change(&mut Rules::drained(writer))))
    }
}

// === impl Writer ===

impl Writer<'_> {
    fn reap(&mut self, now: Millis, until: Instant) -> Slice {
        let mut slice = Slice::default();
        let before = self.state.contents.totals().count;
        while self.reap_some(now) {
            if clock::monotonic() >= until {
                slice.removed = before - self.state.contents.totals().count;
                slice.due = self.is_due(now);
                slice.more = slice.due || self.state.contents.can_shrink();
                return slice;
            }
        }
        slice.removed = before - self.state.contents.totals().count;
        slice.more = self.shrink(until);
        slice
    }

    /// Frees some documents that have ended by `now`, or finds out that there are none where there might have been. `false`:
    /// there are none left.
    pub(in crate::storage) fn reap_some(&mut self, now: Millis) -> bool {
        if !self.is_due(now) {
            return false;
        }
        let default = self.state.default;
        let from = self.state.reap_from;
        let due = self
            .state
            .contents
            .segments()
            .from(from.segment())
            .find(|(_, s)| s.bounds().earliest(default).has_come(now));
        let Some((number, segment)) = due else {
            // All segments from here on are visited. Whatever was passed over at the start of the round is looked at
            // through the exact bounds.
            self.state.reap_from = RecordId::FIRST;
            self.state.contents.tighten();
            return true;
        };
        let slot = if number == from.segment() {
            from.slot()
        } else {
            0
        };
        let ended: SmallVec<[u16; CHUNK]> = segment.ended(slot, default, now).take(CHUNK).collect();
        for &slot in &ended {
            self.state.contents.commit(Change::Remove {
                id: RecordId::new(number, slot),
                cause: Cause::Expired,
            });
        }
        self.state.reap_from = match ended.last() {
            Some(&last) if ended.len() == CHUNK => RecordId::new(number, last).next(),
            // Through, but for those before that have ended meanwhile.
            _ => RecordId::new(number, 0),
        };
        if self.state.reap_from.slot() == 0 {
            // Only now: what is about to go need not be moved before.
            self.state.contents.compact(number);
            self.state.contents.tighten_segment(number);
        }
        true
    }

    /// Gives back what the `_id` map and the indexes no longer need. Returns whether there may be more to give.
    fn shrink(&mut self, until: Instant) -> bool {
        while self.state.contents.shrink_some(CHUNK) {
            if clock::monotonic() >= until {
                return true;
            }
        }
        false
    }

    /// Whether something may have ended by `now`.
    pub(in crate::storage) fn is_due(&self, now: Millis) -> bool {
        let earliest = self.state.contents.earliest_end(self.state.default);
        earliest.has_come(now)
    }
}
