//! A collection: documents, indexes and TTL settings behind one lock.
//!
//! [`Collection::read`] acquires the lock shared and passes a [`View`] to a closure. [`Collection::write`] acquires it
//! exclusively and passes a [`Writer`]. [`State`] is everything that the lock guards. A collection does not decide what a
//! closure reads or writes, and it does not know the catalog.

mod state;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use uuid::Uuid;

use super::expiry::Horizon;
use super::{
    CollectionOptions, LogOp, Namespace, ReadPoint, Shared, SizeLimit, TransactionId, View, Writer,
};
use crate::clock::Clock;
use crate::interrupt::run_blocking;
use crate::ttl::End;
use crate::value::{ClusterTime, Millis};
use crate::wait::Wait;

pub(super) use state::State;

/// How long to wait for a lock before handing the worker to other tasks. Locks are usually held for less than this.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_millis(5);

/// A collection, shared by the catalog and by the commands that use it.
pub struct Collection {
    uuid: Uuid,
    state: RwLock<State>,
    /// The latest moment at which any command has read the collection.
    pub(super) horizon: Horizon,
    /// Set when a write failed half-way. The contents cannot be trusted then, and the catalog refuses to hand the
    /// collection out.
    damaged: AtomicBool,
    /// Set while the ordered index of `_id`s is being built.
    pub(super) ordering_ids: AtomicBool,
    /// Itself, for a transaction that writes to it and comes back when it ends.
    me: Weak<Self>,
    /// The transaction that has created the collection and not committed. Zero if there is none.
    creator: AtomicU64,
    /// The logical time since which it has its name. Snapshots from before do not find it there. Written under
    /// `Catalog::changing`, before it can be found.
    named: AtomicU64,
}

/// A collection whose lock is held exclusively.
pub(super) struct Exclusive<'a> {
    collection: &'a Collection,
    state: RwLockWriteGuard<'a, State>,
}

/// The error that the collection was dropped, or replaced by a rename, since the caller looked it up. The caller looks it
/// up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped;

// === impl Collection ===

impl Collection {
    pub fn new(namespace: Namespace, options: CollectionOptions) -> Self {
        let uuid = Uuid::new_v4();
        Self {
            uuid,
            state: RwLock::new(State::new(namespace, uuid, options)),
            horizon: Horizon::new(None),
            damaged: AtomicBool::new(false),
            ordering_ids: AtomicBool::new(false),
            me: Weak::new(),
            creator: AtomicU64::new(0),
            named: AtomicU64::new(0),
        }
    }

    /// Tells the collection where it is.
    #[must_use]
    pub(super) fn known_as(mut self, me: &Weak<Self>) -> Self {
        self.me = Weak::clone(me);
        self
    }

    /// Attaches the collection to a server, whose clock may be set back.
    #[must_use]
    pub(super) fn with(mut self, clock: Option<Clock>, shared: Arc<Shared>) -> Self {
        self.state.get_mut().join(clock.as_ref(), shared);
        self.horizon = Horizon::new(clock);
        self
    }

    /// Sets the largest document that the collection accepts.
    #[must_use]
    pub fn with_limit(mut self, limit: Option<SizeLimit>) -> Self {
        self.state.get_mut().set_limit(limit);
        self
    }

    /// Returns the transaction that has created the collection and not committed.
    #[inline]
    pub(super) fn creator(&self) -> Option<TransactionId> {
        let creator = TransactionId(self.creator.load(Ordering::Acquire));
        (creator != TransactionId::NONE).then_some(creator)
    }

    /// Hides a new collection from all but its creator.
    pub(super) fn set_creator(&self, creator: TransactionId) {
        // Its commit finds the collection by its writes, even if there are none.
        let mut state = self.exclusive();
        let told = state.contents().shared().numbered(None, || state.created());
        let own = state.contents_mut().own_mut(creator);
        own.tell(told);
        let bytes = own.bytes();
        state.contents().shared().transactions.count(0, bytes);
        drop(state);
        self.creator.store(creator.0, Ordering::Release);
    }

    /// Drops a collection that was never committed. Nobody is told.
    pub(super) fn discard(&self) {
        drop(self.exclusive().empty(None));
    }

    /// Shows the collection to all: its creator has committed.
    pub(super) fn reveal(&self) {
        self.creator.store(0, Ordering::Release);
    }

    /// Returns the logical time since which it has its name.
    pub(super) fn named(&self) -> ClusterTime {
        ClusterTime(self.named.load(Ordering::Acquire))
    }

    pub(super) fn set_named(&self, time: ClusterTime) {
        self.named.store(time.0, Ordering::Release);
    }

    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// Acquires the lock shared. Holders keep it for one slice of work, but the filter of a single document may take long,
    /// so a thread that waits too long hands its worker to other tasks.
    #[inline]
    pub(super) fn shared(&self) -> RwLockReadGuard<'_, State> {
        self.state
            .try_read_for(LOCK_TIMEOUT)
            .unwrap_or_else(|| run_blocking(|| self.state.read()))
    }

    #[inline]
    pub(super) fn exclusive(&self) -> Exclusive<'_> {
        let state = self
            .state
            .try_write_for(LOCK_TIMEOUT)
            .unwrap_or_else(|| run_blocking(|| self.state.write()));
        Exclusive {
            collection: self,
            state,
        }
    }

    /// Returns whether a write to the collection failed half-way.
    #[inline]
    pub(super) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Reads the collection at a read point, or at the latest moment at which any command has read it, if that is later. So
    /// a document that one command has found expired is expired for all others. Keep `look` short: later readers wait
    /// behind a waiting writer.
    pub fn read<T>(&self, at: ReadPoint, look: impl FnOnce(&View<'_>) -> T) -> T {
        let state = self.shared();
        let seen = self.seen(at.now());
        look(&View::new(&state, at.moved_to(seen)))
    }

    /// Reads the collection as it is at `now`, for code that works on the collection itself: schema changes, the reaper,
    /// the build of the ordered index of `_id`s. What a command shows to its client must use the command's read point
    /// instead.
    pub fn read_present<T>(&self, now: Millis, look: impl FnOnce(&View<'_>) -> T) -> T {
        self.read(ReadPoint::at(now), look)
    }

    /// Changes the collection at `now`. Readers wait meanwhile, so change one document, or a batch of at most about a
    /// hundred.
    pub fn write<T>(
        &self,
        now: Millis,
        change: impl FnOnce(&mut Writer<'_>) -> T,
    ) -> Result<T, Dropped> {
        self.write_at(ReadPoint::at(now), change)
    }

    /// Changes the collection for a client that reads at this point. The writes of a transaction go into its buffer.
    #[inline]
    pub fn write_at<T>(
        &self,
        at: ReadPoint,
        change: impl FnOnce(&mut Writer<'_>) -> T,
    ) -> Result<T, Dropped> {
        let mut state = self.exclusive();
        if state.is_dropped() {
            return Err(Dropped);
        }
        let seen = self.seen_by_writer(&mut state, at.now());
        let mut writer = Writer::new(&mut state, at.now(), seen).reading(at);
        let done = change(&mut writer);
        if writer.joins
            && let (Some(transaction), Some(me)) = (at.transaction(), self.me.upgrade())
        {
            let shared = state.contents().shared();
            shared.transactions.join(transaction, me);
        }
        Ok(done)
    }

    /// Returns whether the lock is held, shared or exclusively.
    #[cfg(test)]
    pub fn is_locked(&self) -> bool {
        self.state.is_locked()
    }

    /// Returns a wait that ends when a document is added after this call, or when the collection is dropped.
    pub fn arrival(&self) -> Wait {
        self.shared().contents().arrival()
    }

    pub fn namespace(&self) -> Namespace {
        self.shared().namespace().clone()
    }

    /// Returns how often the collection was renamed ([`View::renames`]).
    pub fn renames(&self) -> u32 {
        self.shared().renames()
    }

    /// Returns whether a document may have expired by `now`, or memory can be given back.
    pub(super) fn wants_reaping(&self, now: Millis) -> bool {
        let state = self.shared();
        let contents = state.contents();
        contents.can_shrink() || contents.earliest_end().has_come(now)
    }

    /// Returns whether any document can ever expire under the present rules, or memory can be given back.
    pub(super) fn can_expire(&self) -> bool {
        let state = self.shared();
        let contents = state.contents();
        // Removing a document does not narrow the bounds; only a visit to all documents does. So check first that there are
        // any.
        let holds_any = contents.totals().count > 0;
        contents.can_shrink() || holds_any && contents.earliest_end() != End::NEVER
    }

    /// Makes the next change panic half-way.
    #[cfg(test)]
    pub fn panic_half_way(&self) {
        self.exclusive().contents_mut().panic_half_way();
    }

    /// Gives the collection another name, in place of the collection `replaced`.
    pub(super) fn rename(&self, to: Namespace, replaced: Option<Uuid>, now: Millis) {
        let mut state = self.exclusive();
        let op = || LogOp::Rename {
            to: to.clone(),
            replaced,
        };
        state.contents().record(now, op);
        state.rename(to);
    }

    /// Returns the number of documents, and roughly what they take.
    pub(super) fn weight(&self) -> (u64, usize) {
        let state = self.shared();
        let (totals, versions) = (state.contents().totals(), state.contents().versions());
        let earlier = versions.map_or(0, |versions| versions.earlier.bytes());
        let present = usize::try_from(totals.bytes).unwrap_or(usize::MAX);
        (totals.count, present.saturating_add(earlier))
    }

    /// Empties the collection for good and returns its contents, so that the caller can free them without the lock. Snapshots from
    /// before `kept` still read them.
    pub(super) fn retire(&self, now: Millis, kept: Option<ClusterTime>) -> Option<Box<dyn Send>> {
        let mut state = self.exclusive();
        let documents = state.contents().totals().count;
        state.contents().record(now, || LogOp::Drop { documents });
        state.empty(kept)
    }

    /// Lets go what a dropped collection still holds for snapshots.
    pub(super) fn forget_past(&self) {
        let past = self.exclusive().take_past();
        drop(past);
    }

    /// Empties this collection after `take_place` has put another one in its place. `allows` sees the settings of this
    /// collection and may refuse. They cannot change in between. (`allows` must not look at documents: its view has no
    /// meaningful time.)
    pub(super) fn give_way<E>(
        &self,
        allows: impl FnOnce(&View<'_>) -> Result<(), E>,
        take_place: impl FnOnce() -> Option<ClusterTime>,
    ) -> Result<Option<Box<dyn Send>>, E> {
        let mut state = self.exclusive();
        allows(&View::new(&state, ReadPoint::at(Millis(i64::MIN))))?;
        // First, so that no reader finds an empty collection under the name.
        let kept = take_place();
        Ok(state.empty(kept))
    }
}

// === impl Exclusive ===

impl Exclusive<'_> {
    /// Closes the collection after a panic has left a document half-written. The remaining contents are not shown to any
    /// client: readers that still hold the collection find it dropped and empty, and the catalog refuses it until a client
    /// drops it.
    #[cold]
    fn close(&mut self) {
        tracing::error!(
            collection = %self.state.namespace(),
            "a write failed half-way: the collection is closed and must be dropped"
        );
        self.collection.damaged.store(true, Ordering::Relaxed);
        // Leak the contents instead of freeing them: they may be inconsistent, and freeing them could panic again.
        std::mem::forget(self.state.empty(None));
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        if self.state.contents().is_torn() {
            self.close();
        }
    }
}

impl std::ops::Deref for Exclusive<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl std::ops::DerefMut for Exclusive<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl std::fmt::Debug for Collection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Collection({})", self.uuid)
    }
}

#[cfg(test)]
mod tests;
