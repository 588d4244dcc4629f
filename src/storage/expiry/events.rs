//! When change streams are told that a document has ended: when its memory is freed, or at the instant of its end.
//!
//! By default the delete event is a side effect of the removal, so it is as late as the reaper. With
//! `--expiry-events instant`, a document is removed at the instant of its end, while changes are recorded: the reaper's task
//! wakes at the next end, and every command that begins later than an end first removes what has ended
//! ([`Catalog::tell_ended`]). So the event stands in the log in front of everything that was written after the end, and
//! nobody can tell it twice, because a document is removed once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock;
use crate::interrupt::run_blocking;
use crate::storage::contents::{Cause, Change, Contents};
use crate::storage::{Catalog, Collection, RecordId, Writer};
use crate::ttl::End;
use crate::value::Millis;

/// What a server knows about the events of expired documents.
#[derive(Debug)]
pub struct ExpiryEvents {
    is_instant: AtomicBool,
    /// No document ends before this moment whose end was not told. Writers lower it under the lock of their collection.
    next: AtomicI64,
    /// Held while ends are told, so that they are told in their order.
    telling: Mutex<()>,
    /// Given when `next` was lowered.
    lowered: Arc<Notify>,
    /// How late the latest event was, in milliseconds, at most.
    longest_delay: AtomicU64,
}

/// So many ends are told without handing the worker to other tasks first.
const FEW: usize = 256;
/// How many documents are removed under one hold of a collection's lock.
const CHUNK: usize = 32;

// === impl ExpiryEvents ===

impl Default for ExpiryEvents {
    fn default() -> Self {
        Self {
            is_instant: AtomicBool::new(false),
            next: AtomicI64::new(i64::MIN),
            telling: Mutex::new(()),
            lowered: Arc::default(),
            longest_delay: AtomicU64::new(0),
        }
    }
}

impl ExpiryEvents {
    /// Tells ends at their instant from now on.
    pub fn set_instant(&self) {
        self.is_instant.store(true, Ordering::Relaxed);
    }

    pub fn is_instant(&self) -> bool {
        self.is_instant.load(Ordering::Relaxed)
    }

    /// Returns the longest time between the end of a document and its event.
    pub fn longest_delay(&self) -> Duration {
        Duration::from_millis(self.longest_delay.load(Ordering::Relaxed))
    }

    /// Notes the earliest end of a collection, if ends are told at their instant. Called under its lock, after a write or a
    /// change of its rules.
    pub(in crate::storage) fn note_end(&self, end: End) {
        if self.next.fetch_min(end.millis(), Ordering::SeqCst) > end.millis() {
            self.lowered.notify_one();
        }
    }

    /// Returns the signal that an end was found which is earlier than all others.
    pub(super) fn lowered(&self) -> Arc<Notify> {
        Arc::clone(&self.lowered)
    }

    /// Returns how long it takes at `now` until a document may end.
    fn until_next(&self, now: Millis) -> Duration {
        let next = self.next.load(Ordering::SeqCst);
        Duration::from_millis(u64::try_from(next.saturating_sub(now.0)).unwrap_or(0))
    }

    fn may_be_due(&self, now: Millis) -> bool {
        self.next.load(Ordering::SeqCst) <= now.0
    }

    /// Notes how late an event is.
    pub(in crate::storage) fn note_delay(&self, end: End, now: Millis) {
        let delay = u64::try_from(now.0.saturating_sub(end.millis())).unwrap_or(0);
        self.longest_delay.fetch_max(delay, Ordering::Relaxed);
    }
}

// === impl Catalog ===

impl Catalog {
    /// Starts to record changes, unless that has begun already.
    pub fn start_recording(&self, now: Millis) {
        let shared = self.shared();
        if shared.log.is_recording() {
            return;
        }
        // What has ended before is no event of the future.
        if shared.expiry_events.is_instant() {
            self.sweep(now);
        }
        shared.log.start(&shared.time, now);
    }

    /// Returns how long it takes at `now` until an end has to be told, if ends are told at their instant.
    pub(super) fn until_told(&self, now: Millis) -> Option<Duration> {
        let shared = self.shared();
        let tells = shared.expiry_events.is_instant() && shared.log.is_recording();
        tells.then(|| shared.expiry_events.until_next(now))
    }

    /// If events come at the instant: removes all documents that have ended by `now`, in the order of their ends.
    pub fn tell_ended(&self, now: Millis) {
        let shared = self.shared();
        let events = &shared.expiry_events;
        if !events.is_instant() || !shared.log.is_recording() || !events.may_be_due(now) {
            return;
        }
        let _alone = events.telling.lock();
        if !events.may_be_due(now) {
            return;
        }
        // First, so that a write which lowers it meanwhile is not forgotten.
        events.next.store(i64::MAX, Ordering::SeqCst);
        let due = self.due(now);
        let mut ended: Vec<(End, usize, RecordId)> = Vec::new();
        for (at, collection) in due.iter().enumerate() {
            let found = collection.ended_by(now);
            ended.extend(found.into_iter().map(|(end, id)| (end, at, id)));
        }
        ended.sort_unstable_by_key(|(end, at, id)| (end.millis(), *at, *id));
        let tell = || {
            for together in ended.chunk_by(|(_, one, _), (_, other, _)| one == other) {
                for some in together.chunks(CHUNK) {
                    due[some[0].1].remove_ended(some.iter().map(|(_, _, id)| *id), now);
                }
            }
            // What ended meanwhile goes, too, and the bounds become exact.
            for collection in &due {
                while collection.reap(now, clock::monotonic() + SLICE).due {}
            }
        };
        match ended.len() <= FEW {
            true => tell(),
            false => run_blocking(tell),
        }
        for collection in self.each() {
            events.note_end(collection.earliest_end());
        }
    }
}

/// How long a collection's lock is held to make its bounds exact.
const SLICE: Duration = Duration::from_millis(1);

// === impl Collection ===

impl Collection {
    fn earliest_end(&self) -> End {
        self.shared().contents().earliest_end()
    }

    /// Returns the documents that have ended by `now`.
    fn ended_by(&self, now: Millis) -> Vec<(End, RecordId)> {
        let state = self.shared();
        let contents = state.contents();
        let default = contents.default_ttl();
        let segments = contents.segments().from(0);
        let due = segments.filter(|(_, segment)| segment.bounds().earliest(default).has_come(now));
        let ended = due.flat_map(|(number, segment)| {
            let slots = segment.ended(0, default, now);
            slots.map(move |slot| RecordId::new(number, slot))
        });
        ended
            .filter_map(|id| Some((contents.record_end(id)?, id)))
            .collect()
    }

    /// Removes documents if they have ended by `now`.
    fn remove_ended(&self, ids: impl Iterator<Item = RecordId>, now: Millis) {
        let mut state = self.exclusive();
        // Checked under the lock: if the clock was set back meanwhile, documents written after that have not expired.
        let now = self.horizon.clamp_to_now(now);
        let seen = self.seen_by_writer(&mut state, now);
        let mut writer = Writer::new(&mut state, now, seen);
        for id in ids {
            writer.remove_ended(id, now);
        }
    }
}

// === impl Contents ===

impl Contents {
    /// Returns the end of a document.
    pub(in crate::storage) fn record_end(&self, id: RecordId) -> Option<End> {
        let segment = self.segments().get(id.segment())?;
        Some(segment.get(id.slot(), self.default_ttl())?.end)
    }
}

// === impl Writer ===

impl Writer<'_> {
    fn remove_ended(&mut self, id: RecordId, now: Millis) {
        let contents = self.contents_mut();
        let Some(end) = contents.record_end(id).filter(|end| end.has_come(now)) else {
            return;
        };
        // The event says when the document ended, but not before what was told already: a rule may have ended it that
        // began to hold later.
        let latest = contents
            .shared()
            .log
            .latest_wall()
            .unwrap_or(Millis(end.millis()));
        let wall = Millis(end.millis()).max(latest).min(now);
        let change = Change::Remove {
            id,
            cause: Cause::Expired,
        };
        contents.commit(wall, change);
        contents.compact(id.segment());
    }
}
