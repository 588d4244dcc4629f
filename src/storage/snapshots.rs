//! The snapshots that are open: past states of all collections that some reader still needs.
//!
//! A snapshot is a logical time. While one is open, every write notes the version before it (`versions`), so that the
//! snapshot's readers find it. Nothing else is needed: with no snapshot open, a write only looks at a counter.
//!
//! A writer takes its logical time first and then looks whether a snapshot is open, under the lock of its collection. A
//! snapshot announces itself first and then reads the logical time. All four steps are sequentially consistent, so either
//! the writer sees the snapshot and notes the old version, or the snapshot is not earlier than the write. In that case its
//! readers find the new version, because they wait for the collection's lock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ahash::AHashMap;
use parking_lot::Mutex;

use super::namespace::Names;
use super::{Namespace, Shared};
use crate::value::ClusterTime;

/// The open snapshots of a server.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    /// How many are open, or about to be.
    open: AtomicUsize,
    /// How many there are of each time. No other lock is acquired under this one.
    times: Mutex<BTreeMap<ClusterTime, usize>>,
    /// The names whose collections were dropped or renamed while a snapshot was open, and when. Their earlier documents are
    /// not kept, so a snapshot from before cannot read them.
    vanished: Mutex<AHashMap<Namespace, ClusterTime>>,
}

/// An open snapshot. Dropping it closes it.
#[derive(Debug)]
pub struct Snapshot {
    time: ClusterTime,
    shared: Arc<Shared>,
}

// === impl Snapshots ===

impl Snapshots {
    /// Returns whether a snapshot is open. A writer asks after it has taken its logical time.
    #[inline]
    pub fn are_open(&self) -> bool {
        self.open.load(Ordering::SeqCst) > 0
    }

    /// Notes that the collection of this name was dropped or renamed.
    pub fn note_vanished(&self, name: &Namespace, time: ClusterTime) {
        if self.are_open() {
            self.vanished.lock().insert(name.clone(), time);
        }
    }

    /// Returns whether the collection of this name was dropped or renamed after that time.
    pub fn has_vanished(&self, name: (&str, &str), since: ClusterTime) -> bool {
        let vanished = self.vanished.lock();
        let time = vanished.get(&name as &dyn Names);
        time.is_some_and(|time| *time > since)
    }

    /// Returns the time of the oldest open snapshot. Versions that ended by then are needed no more.
    pub fn oldest(&self) -> Option<ClusterTime> {
        let times = self.times.lock();
        times.first_key_value().map(|(time, _)| *time)
    }
}

// === impl Snapshot ===

impl Snapshot {
    /// Opens a snapshot of the present.
    pub(super) fn open(shared: &Arc<Shared>) -> Self {
        shared.snapshots.open.fetch_add(1, Ordering::SeqCst);
        // Held until the time is entered: otherwise versions that it needs could be dropped in between.
        let mut times = shared.snapshots.times.lock();
        let time = shared.time.latest();
        *times.entry(time).or_default() += 1;
        drop(times);
        Self {
            time,
            shared: Arc::clone(shared),
        }
    }

    /// Opens a snapshot of the past, if one that is still open is not later.
    pub(super) fn open_at(shared: &Arc<Shared>, time: ClusterTime) -> Option<Self> {
        let mut times = shared.snapshots.times.lock();
        let (oldest, _) = times.first_key_value()?;
        if *oldest > time {
            return None;
        }
        shared.snapshots.open.fetch_add(1, Ordering::SeqCst);
        *times.entry(time).or_default() += 1;
        drop(times);
        Some(Self {
            time,
            shared: Arc::clone(shared),
        })
    }

    pub fn time(&self) -> ClusterTime {
        self.time
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let mut times = self.shared.snapshots.times.lock();
        if let Some(count) = times.get_mut(&self.time) {
            *count -= 1;
            if *count == 0 {
                times.remove(&self.time);
            }
        }
        if times.is_empty() {
            *self.shared.snapshots.vanished.lock() = AHashMap::new();
        }
        drop(times);
        self.shared.snapshots.open.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Millis;

    #[test]
    fn a_past_time_can_be_read_while_an_older_snapshot_is_open() {
        let shared = Arc::new(Shared::default());
        let first = shared.time.tick(Millis(5_000));
        assert!(Snapshot::open_at(&shared, first).is_none());
        let open = Snapshot::open(&shared);
        assert_eq!(open.time(), first);
        let second = shared.time.tick(Millis(5_000));
        let later = Snapshot::open(&shared);
        assert_eq!(shared.snapshots.oldest(), Some(first));
        let again = Snapshot::open_at(&shared, first).unwrap();
        drop(open);
        assert_eq!(shared.snapshots.oldest(), Some(first));
        drop(again);
        assert_eq!(shared.snapshots.oldest(), Some(second));
        assert!(Snapshot::open_at(&shared, first).is_none());
        drop(later);
        assert!(!shared.snapshots.are_open());
    }
}
