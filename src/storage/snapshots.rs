//! The snapshots that are open: past states of all collections that some reader still needs.
//!
//! A snapshot is a logical time. While one is open, every write notes the version before it (`versions`), so that the
//! snapshot's readers find it. Nothing else is needed: with no snapshot open, a write only looks at a counter. A collection that
//! is dropped or renamed meanwhile stays under its name for those readers ([`Former`]).
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
use super::{Collection, Namespace, Shared, free};
use crate::value::ClusterTime;

/// The open snapshots of a server.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    /// How many are open, or about to be.
    open: AtomicUsize,
    /// How many there are of each time. No other lock is acquired under this one.
    times: Mutex<BTreeMap<ClusterTime, usize>>,
    /// The bytes of the earlier versions in all collections.
    bytes: AtomicUsize,
    /// Keeps the past that clients may read without an open snapshot of their own. Locked before `times`.
    window: Mutex<Option<ClusterTime>>,
    /// The collections that were dropped or renamed while a snapshot was open, by the names that they had, the earliest first.
    /// Locked before `times`.
    former: Mutex<FormerCollections>,
}

/// The bytes of a small document, to guess how many there are.
const SMALL_DOCUMENT: usize = 64;

type FormerCollections = AHashMap<Namespace, Vec<Former>>;

/// A collection that had a name for some time.
#[derive(Debug)]
struct Former {
    /// `None` if its documents are no longer kept.
    collection: Option<Arc<Collection>>,
    since: ClusterTime,
    until: ClusterTime,
    /// What its documents take, if they are kept for snapshots only.
    bytes: usize,
}

/// The documents of a collection that a snapshot could read are no longer kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Forgotten;

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

    /// Notes that a collection loses its name at that time. `bytes` is what its documents will take, if it is dropped. Returns
    /// the time if an earlier snapshot may still read it.
    pub fn note_former(
        &self,
        name: &Namespace,
        collection: &Arc<Collection>,
        until: ClusterTime,
        bytes: usize,
    ) -> Option<ClusterTime> {
        // Asked under the lock: whoever closes a snapshot prunes after that.
        let mut former = self.former.lock();
        if !self.are_open() {
            return None;
        }
        self.count_bytes(0, bytes);
        former.entry(name.clone()).or_default().push(Former {
            collection: Some(Arc::clone(collection)),
            since: collection.named(),
            until,
            bytes,
        });
        Some(until)
    }

    /// Returns the collection that had this name at that time and has it no longer.
    pub fn former(
        &self,
        name: (&str, &str),
        at: ClusterTime,
    ) -> Result<Option<Arc<Collection>>, Forgotten> {
        let former = self.former.lock();
        let all = former.get(&name as &dyn Names);
        let had_it = |former: &&Former| former.since <= at && at < former.until;
        match all.and_then(|all| all.iter().find(had_it)) {
            None => Ok(None),
            Some(former) => former.collection.clone().ok_or(Forgotten).map(Some),
        }
    }

    /// Forgets the documents of all former collections, before the clock is set back: what has ended must not come back.
    pub fn forget_former(&self) {
        let mut gone = Vec::new();
        for former in self.former.lock().values_mut().flatten() {
            gone.extend(former.collection.take());
            self.count_bytes(std::mem::take(&mut former.bytes), 0);
        }
        // Cursors may still hold them.
        for collection in gone {
            collection.forget_past();
        }
    }

    /// Lets the former collections go that no snapshot needs.
    fn prune_former(&self) {
        let mut gone = Vec::new();
        let mut former = self.former.lock();
        if former.is_empty() {
            return;
        }
        // Asked under the lock: a snapshot that is opened after this is later than all that is noted here.
        let oldest = self.oldest();
        former.retain(|_, all| {
            let is_needed =
                |former: &mut Former| oldest.is_some_and(|oldest| former.until > oldest);
            gone.extend(all.extract_if(.., |former| !is_needed(former)));
            !all.is_empty()
        });
        drop(former);
        if !gone.is_empty() {
            let bytes: usize = gone.iter().map(|former| former.bytes).sum();
            self.count_bytes(bytes, 0);
            free(gone, (bytes / SMALL_DOCUMENT) as u64);
        }
    }

    /// Notes that a collection keeps more or fewer earlier versions.
    pub fn count_bytes(&self, before: usize, after: usize) {
        self.bytes.fetch_add(after, Ordering::Relaxed);
        self.bytes.fetch_sub(before, Ordering::Relaxed);
    }

    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Keeps the versions since that time, and no longer those before it. The first call opens the window.
    pub fn keep_since(&self, since: ClusterTime) {
        let mut window = self.window.lock();
        let before = *window;
        if before.is_some_and(|before| since <= before) {
            return;
        }
        self.enter(since);
        *window = Some(since);
        if let Some(before) = before {
            self.leave(before);
        }
    }

    fn enter(&self, time: ClusterTime) {
        self.open.fetch_add(1, Ordering::SeqCst);
        *self.times.lock().entry(time).or_default() += 1;
    }

    fn leave(&self, time: ClusterTime) {
        let mut times = self.times.lock();
        if let Some(count) = times.get_mut(&time) {
            *count -= 1;
            if *count == 0 {
                times.remove(&time);
            }
        }
        let oldest = times.first_key_value().map(|(time, _)| *time);
        drop(times);
        self.open.fetch_sub(1, Ordering::SeqCst);
        if oldest.is_none_or(|oldest| oldest > time) {
            self.prune_former();
        }
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

    /// Opens a snapshot of the past, if one that is still open is not later. The present needs none to keep it.
    pub(super) fn open_at(shared: &Arc<Shared>, time: ClusterTime) -> Option<Self> {
        shared.snapshots.open.fetch_add(1, Ordering::SeqCst);
        let mut times = shared.snapshots.times.lock();
        let is_kept = times
            .first_key_value()
            .is_some_and(|(oldest, _)| *oldest <= time);
        if !is_kept && shared.time.latest() != time {
            drop(times);
            shared.snapshots.open.fetch_sub(1, Ordering::SeqCst);
            // A collection that was dropped meanwhile may have been kept for this one.
            shared.snapshots.prune_former();
            return None;
        }
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
        self.shared.snapshots.leave(self.time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::CollectionOptions;
    use crate::value::Millis;

    #[test]
    fn a_window_keeps_the_past_and_moves_on() {
        let shared = Arc::new(Shared::default());
        let times: Vec<_> = (1..=4)
            .map(|n| shared.time.tick(Millis(n * 1_000)))
            .collect();
        shared.snapshots.keep_since(times[0]);
        assert!(Snapshot::open_at(&shared, times[0]).is_some());
        let name = Namespace::new("db", "gone");
        let gone = Arc::new(Collection::new(name.clone(), CollectionOptions::default()));
        let noted = shared.snapshots.note_former(&name, &gone, times[1], 100);
        assert_eq!(noted, Some(times[1]));
        let found = |at| shared.snapshots.former(("db", "gone"), at);
        assert!(found(times[0]).is_ok_and(|found| found.is_some()));
        assert!(found(times[1]).is_ok_and(|found| found.is_none()));
        assert_eq!(shared.snapshots.bytes(), 100);
        let open = Snapshot::open_at(&shared, times[1]).unwrap();
        shared.snapshots.keep_since(times[2]);
        assert_eq!(
            shared.snapshots.oldest(),
            Some(times[1]),
            "a reader keeps it longer"
        );
        drop(open);
        assert!(Snapshot::open_at(&shared, times[1]).is_none());
        assert!(Snapshot::open_at(&shared, times[3]).is_some());
        shared.snapshots.keep_since(times[0]);
        assert_eq!(
            shared.snapshots.oldest(),
            Some(times[2]),
            "it never moves back"
        );
        shared.snapshots.keep_since(times[3]);
        assert!(shared.snapshots.former.lock().is_empty());
        assert_eq!(shared.snapshots.bytes(), 0);
        assert_eq!(Arc::strong_count(&gone), 1);
    }

    #[test]
    fn who_closes_a_snapshot_late_takes_nothing_from_a_new_one() {
        let shared = Arc::new(Shared::default());
        let closed = Snapshot::open(&shared);
        shared.time.tick(Millis(1_000));
        // The thread that closes the last snapshot has found none that is open, and is interrupted.
        drop(closed);
        let open = Snapshot::open(&shared);
        let name = Namespace::new("db", "gone");
        let gone = Arc::new(Collection::new(name.clone(), CollectionOptions::default()));
        let until = shared.time.tick(Millis(2_000));
        shared.snapshots.note_former(&name, &gone, until, 100);
        shared.snapshots.prune_former();
        let found = shared.snapshots.former(("db", "gone"), open.time());
        assert!(found.is_ok_and(|found| found.is_some()));
        drop(open);
        assert_eq!(shared.snapshots.bytes(), 0);
        assert_eq!(
            shared.snapshots.note_former(&name, &gone, until, 100),
            None,
            "nobody needs it"
        );
    }

    #[test]
    fn a_past_time_can_be_read_while_an_older_snapshot_is_open() {
        let shared = Arc::new(Shared::default());
        let first = shared.time.tick(Millis(5_000));
        assert!(
            Snapshot::open_at(&shared, first).is_some(),
            "it is the present"
        );
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
