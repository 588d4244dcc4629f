//! A transaction: a snapshot, and writes that become visible all at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use ahash::AHashMap;
use parking_lot::Mutex;

use super::collection::State;
use super::namespace_locks::UsedNames;
use super::{
    Catalog, Collection, LogOp, LogTransaction, ReadPoint, RecordId, Rules, Snapshot,
    TransactionId, Writer, free,
};
use crate::value::{ClusterTime, Millis};
use crate::wait::Wait;

/// The most memory that the buffers of all transactions may take.
const MAX_BUFFERED: usize = 1 << 30;

/// What all transactions of a server share.
#[derive(Debug)]
pub(super) struct Transactions {
    latest: AtomicU64,
    /// Numbers the writes of all transactions, for the log of changes.
    writes: AtomicU64,
    /// The bytes in the buffers of all transactions, and of the names that they use.
    buffered: AtomicUsize,
    /// How many they may be.
    limit: AtomicUsize,
    /// The collections that each transaction has written to. No other lock is acquired under this one.
    joined: Mutex<AHashMap<TransactionId, Vec<Arc<Collection>>>>,
}

/// A transaction that is open. Dropping it aborts it.
pub struct Transaction {
    snapshot: Snapshot,
    writes: PendingWrites,
    /// Freed last, when nothing of the transaction is left: schema changes wait for them.
    names: UsedNames,
}

/// The writes of a transaction, which are in the buffers of its collections. Dropping them throws them away.
struct PendingWrites {
    transaction: TransactionId,
    catalog: Arc<Catalog>,
}

/// A transaction could not be committed, and nothing of it was applied: a document that it wrote to has ended, or one of its
/// collections was dropped or has other indexes now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitConflict;

/// Why a transaction cannot set up a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotNew {
    /// It was there before the transaction.
    Existing,
    /// The transaction has written to it.
    Written,
}

// === impl Transactions ===

impl Default for Transactions {
    fn default() -> Self {
        Self {
            latest: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            buffered: AtomicUsize::new(0),
            limit: AtomicUsize::new(MAX_BUFFERED),
            joined: Mutex::default(),
        }
    }
}

impl Transactions {
    /// Returns the number of the next write. The first one is 1.
    pub fn next_write(&self) -> u64 {
        self.writes.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub fn buffered(&self) -> usize {
        self.buffered.load(Ordering::Relaxed)
    }

    /// Returns whether the buffers may not grow any more.
    pub fn are_full(&self) -> bool {
        self.buffered() > self.limit.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub fn limit_to(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Notes that a buffer has grown or shrunk.
    pub fn count(&self, before: usize, after: usize) {
        self.buffered.fetch_add(after, Ordering::Relaxed);
        self.buffered.fetch_sub(before, Ordering::Relaxed);
    }

    /// Notes that a buffer is gone.
    pub fn release(&self, bytes: usize) {
        self.buffered.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Notes that a transaction has written to a collection for the first time.
    pub fn join(&self, transaction: TransactionId, collection: Arc<Collection>) {
        let mut joined = self.joined.lock();
        joined.entry(transaction).or_default().push(collection);
    }

    fn leave(&self, transaction: TransactionId) -> Vec<Arc<Collection>> {
        let mut joined = self.joined.lock();
        joined.remove(&transaction).unwrap_or_default()
    }
}

// === impl Catalog ===

impl Catalog {
    /// Begins a transaction that reads the present, whatever is written later.
    pub fn begin(self: &Arc<Self>) -> Transaction {
        self.begin_with(Snapshot::open(self.shared()))
    }

    /// Begins a transaction that reads the past, if an open snapshot keeps it.
    pub fn begin_at(self: &Arc<Self>, time: ClusterTime) -> Option<Transaction> {
        Snapshot::open_at(self.shared(), time).map(|snapshot| self.begin_with(snapshot))
    }

    fn begin_with(self: &Arc<Self>, snapshot: Snapshot) -> Transaction {
        let latest = &self.shared().transactions.latest;
        Transaction {
            snapshot,
            writes: PendingWrites {
                transaction: TransactionId(latest.fetch_add(1, Ordering::Relaxed) + 1),
                catalog: Arc::clone(self),
            },
            names: UsedNames::new(self.shared()),
        }
    }

    /// Returns the bytes that the writes of all open transactions take, and the names that they use.
    pub fn buffered_bytes(&self) -> usize {
        self.shared().transactions.buffered()
    }

    /// Returns the bytes that earlier versions of documents take, which snapshots need.
    pub fn earlier_bytes(&self) -> usize {
        self.shared().snapshots.bytes()
    }

    /// Frees the earlier versions that no snapshot needs. Usually the reaper does so.
    pub fn free_versions(&self) {
        for collection in self.each() {
            if collection.shared().contents().can_shrink() {
                collection.exclusive().contents_mut().prune_versions();
            }
        }
    }

    /// Returns the time of the oldest snapshot that is open.
    pub fn oldest_snapshot(&self) -> Option<ClusterTime> {
        self.shared().snapshots.oldest()
    }

    /// Keeps the past of this length readable, without an open snapshot. Called again and again as time passes.
    pub fn keep_past(&self, window: Duration, now: Millis) {
        let millis = i64::try_from(window.as_millis()).unwrap_or(i64::MAX);
        let since = ClusterTime::first_of(Millis(now.0.saturating_sub(millis)));
        self.shared().snapshots.keep_since(since);
    }

    /// Keeps no more of the past readable than the open snapshots need.
    pub fn forget_past(&self) {
        let shared = self.shared();
        shared.snapshots.keep_since(shared.time.latest());
    }

    /// Opens a snapshot of the present.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::open(self.shared())
    }

    /// Opens a snapshot of the past, if one that is open keeps it.
    pub fn snapshot_at(&self, time: ClusterTime) -> Option<Snapshot> {
        Snapshot::open_at(self.shared(), time)
    }
}

// === impl Collection ===

impl Collection {
    /// Sets up a collection that the transaction has created and not written to yet. `change` returns what the log is told.
    pub fn set_up_created(
        &self,
        at: ReadPoint,
        change: impl FnOnce(&mut Rules<'_>) -> Vec<LogOp>,
    ) -> Result<(), NotNew> {
        let creator = self.creator().filter(|by| Some(*by) == at.transaction());
        let creator = creator.ok_or(NotNew::Existing)?;
        // Only one command of a transaction runs at a time, so nothing is written in between.
        let is_empty = |state: &State| {
            let versions = state.contents().versions();
            let own = versions.and_then(|versions| versions.own.get(&creator));
            own.is_none_or(|own| own.from(RecordId::FIRST).next().is_none())
        };
        if !is_empty(&self.shared()) {
            return Err(NotNew::Written);
        }
        let mut told = Vec::new();
        self.set_up(at.now(), |rules| told = change(rules));
        let mut state = self.exclusive();
        let (shared, schema) = (
            Arc::clone(state.contents().shared()),
            state.contents().schema(),
        );
        let own = state.contents_mut().own_mut(creator);
        let before = own.bytes();
        own.schema = schema;
        for op in told {
            own.tell(shared.numbered(None, || op));
        }
        shared.transactions.count(before, own.bytes());
        Ok(())
    }
}

// === impl Transaction ===

impl Transaction {
    /// Returns where a statement of the transaction reads and writes. Each statement has its own `now`.
    pub fn read_point(&self, now: Millis) -> ReadPoint {
        ReadPoint::of(&self.snapshot, now).within(self.writes.transaction)
    }

    /// Notes that a statement uses the collection of this name, until the transaction ends. Returns a wait if a schema change
    /// needs the name.
    pub fn use_collection(&mut self, database: &str, collection: &str) -> Result<(), Wait> {
        self.names.add((database, collection))
    }

    /// Returns whether the transaction may use another name. If all transactions together hold too much, one that uses many names may
    /// not.
    pub fn may_use_more(&self) -> bool {
        const FEW: usize = 1_000;
        self.names.len() < FEW || !self.writes.catalog.shared().transactions.are_full()
    }

    /// Returns the logical time as of which the transaction reads.
    pub fn time(&self) -> ClusterTime {
        self.snapshot.time()
    }

    /// Applies all writes at one logical time, or none. The log of changes gets the client's name of the transaction, if it
    /// is on.
    pub fn commit(
        self,
        now: Millis,
        name: impl FnOnce() -> LogTransaction,
    ) -> Result<(), CommitConflict> {
        let Self {
            snapshot,
            writes,
            names,
        } = self;
        // Its own writes need not be noted for it.
        drop(snapshot);
        let committed = writes.commit(now, name);
        drop(names);
        committed
    }
}

// === impl PendingWrites ===

impl PendingWrites {
    fn take_joined(&self) -> Vec<Arc<Collection>> {
        self.catalog.shared().transactions.leave(self.transaction)
    }

    /// Removes the collections that the transaction has created.
    fn remove_created(&self, joined: &[Arc<Collection>]) {
        for collection in joined {
            if collection.creator() == Some(self.transaction) {
                self.catalog.remove_uncommitted(collection);
            }
        }
    }

    /// Applies the writes. No reader sees a part of them: the locks of all collections are held until the last one is
    /// written.
    fn commit(
        &self,
        now: Millis,
        name: impl FnOnce() -> LogTransaction,
    ) -> Result<(), CommitConflict> {
        let mut joined = self.take_joined();
        // One order for all, so that two commits do not wait for each other. A rename locks two collections in another
        // order, so it must not run meanwhile. Nor may a collection be created that the transaction has created.
        joined.sort_by_key(|collection| collection.uuid());
        let created: Vec<_> = joined
            .iter()
            .filter(|joined| joined.creator().is_some())
            .map(|created| (created.namespace(), created))
            .collect();
        let changes_catalog = !created.is_empty();
        let mut alone = (joined.len() > 1 || changes_catalog).then(|| self.catalog.alone());
        let may_publish = alone.as_deref_mut().is_none_or(|alone| {
            let mut names = created.iter().map(|(name, _)| name);
            names.all(|name| self.catalog.may_publish(name, alone))
        });
        let mut locked: Vec<_> = joined.iter().map(|joined| joined.exclusive()).collect();
        let mut writers = Vec::with_capacity(locked.len());
        for (collection, state) in joined.iter().zip(&mut locked) {
            let seen = collection.seen_by_writer(state, now);
            writers.push(Writer::new(state, now, seen));
        }
        let id = self.transaction;
        if !may_publish || !writers.iter().all(|writer| writer.can_commit(id)) {
            for mut writer in writers {
                writer.discard_own(id);
            }
            drop((locked, alone));
            self.remove_created(&joined);
            return Err(CommitConflict);
        }
        // What has ended makes way first, and is told apart from what the transaction did.
        let owns: Vec<_> = writers
            .iter_mut()
            .map(|writer| writer.make_way(id))
            .collect();
        let are_new: Vec<bool> = joined
            .iter()
            .map(|joined| joined.creator().is_some())
            .collect();
        // Who finds them waits for the locks.
        for (name, created) in created {
            self.catalog.publish(name, created);
        }
        // All changes of the transaction have one time.
        let shared = self.catalog.shared();
        let turn = shared.log.note_write(now).then(|| shared.turn(now));
        let time = match &turn {
            Some(turn) => turn.time(),
            None => shared.time.tick(now),
        };
        for (joined, is_new) in joined.iter().zip(&are_new) {
            if *is_new {
                joined.set_named(time);
            }
        }
        let mut changes = Vec::new();
        for ((mut writer, own), is_new) in writers.into_iter().zip(owns).zip(are_new) {
            writer.time = Some(time);
            writer.apply_own(own, is_new, &mut changes);
        }
        if let Some(turn) = turn.filter(|_| !changes.is_empty()) {
            changes.sort_by_key(|change| change.number);
            let changes = changes
                .into_iter()
                .map(|change| (change.subject, change.op));
            turn.append_all(name(), changes);
        }
        Ok(())
    }
}

/// Throws the writes away. Nobody but the transaction has seen them.
impl Drop for PendingWrites {
    fn drop(&mut self) {
        let joined = self.take_joined();
        for collection in &joined {
            let own = collection
                .exclusive()
                .contents_mut()
                .take_own(self.transaction);
            // Without the lock: there may be millions.
            if let Some(own) = own {
                let most = own.most();
                free(own, most);
            }
        }
        self.remove_created(&joined);
    }
}
