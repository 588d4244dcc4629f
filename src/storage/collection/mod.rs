//! One collection: its documents, its indexes, its TTL settings, and the lock around them.

mod state;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use uuid::Uuid;

use super::expiry::Horizon;
use super::{Namespace, Options, ReadPoint, SizeLimit, View, Writer};
use crate::aside::uncut;
use crate::clock::Clock;
use crate::ttl::End;
use crate::value::Millis;
use crate::wait::Wait;

pub(super) use state::State;

/// Longer than the lock is held when all is well.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_millis(5);

pub struct Collection {
    uuid: Uuid,
    state: RwLock<State>,
    /// How far anybody has looked.
    pub(super) horizon: Horizon,
    /// A write failed half-way: nothing here can be trusted, and the catalog refuses to hand the collection out.
    damaged: AtomicBool,
    /// Somebody is building the ordered index of `_id`s.
    pub(super) ordering_ids: AtomicBool,
}

/// The collection, held exclusively.
pub(super) struct Exclusive<'a> {
    collection: &'a Collection,
    state: RwLockWriteGuard<'a, State>,
}

/// The collection was dropped (or renamed away) since it was looked up: look it up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped;

// === impl Collection ===

impl Collection {
    pub fn new(namespace: Namespace, options: Options) -> Self {
        Self {
            uuid: Uuid::new_v4(),
            state: RwLock::new(State::new(namespace, options)),
            horizon: Horizon::new(None),
            damaged: AtomicBool::new(false),
            ordering_ids: AtomicBool::new(false),
        }
    }

    /// A collection in a server, whose clock may be set back.
    #[must_use]
    pub(super) fn with(mut self, clock: Option<Clock>, freed: Arc<AtomicU64>) -> Self {
        self.state.get_mut().join(clock.as_ref(), freed);
        self.horizon = Horizon::new(clock);
        self
    }

    /// A collection in a server that takes no larger documents.
    #[must_use]
    pub fn with_limit(mut self, limit: Option<SizeLimit>) -> Self {
        self.state.get_mut().set_limit(limit);
        self
    }

    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// The lock is held for a slice of work, but one document's filter may take long: who waits for that lets others go on.
    #[inline]
    pub(super) fn shared(&self) -> RwLockReadGuard<'_, State> {
        self.state
            .try_read_for(LOCK_TIMEOUT)
            .unwrap_or_else(|| uncut(|| self.state.read()))
    }

    #[inline]
    pub(super) fn exclusive(&self) -> Exclusive<'_> {
        let state = self
            .state
            .try_write_for(LOCK_TIMEOUT)
            .unwrap_or_else(|| uncut(|| self.state.write()));
        Exclusive {
            collection: self,
            state,
        }
    }

    /// A write to it failed half-way.
    #[inline]
    pub(super) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Looks at the collection from a read point, or at the latest moment at which anybody looked: what one command has
    /// seen to be gone, no other finds. Keep it short: a waiting writer makes later readers wait too.
    pub fn read<T>(&self, at: ReadPoint, look: impl FnOnce(&View<'_>) -> T) -> T {
        let state = self.shared();
        let seen = self.seen(at.now());
        look(&View::new(&state, at.moved_to(seen)))
    }

    /// The same for whoever looks at the collection itself: schema changes, the reaper, those who put `_id`s in order. It is not
    /// for what a command shows its client, which goes by the command's read point.
    pub fn read_present<T>(&self, now: Millis, look: impl FnOnce(&View<'_>) -> T) -> T {
        self.read(ReadPoint::at(now), look)
    }

    /// Changes the collection at `now`. Nobody reads it meanwhile, so: one document, or a batch of at most about a hundred.
    pub fn write<T>(
        &self,
        now: Millis,
        change: impl FnOnce(&mut Writer<'_>) -> T,
    ) -> Result<T, Dropped> {
        let mut state = self.exclusive();
        if state.is_dropped() {
            return Err(Dropped);
        }
        let seen = self.seen_by_writer(&mut state, now);
        Ok(change(&mut Writer::new(&mut state, now, seen)))
    }

    /// Whether anybody holds its lock, shared or not.
    #[cfg(test)]
    pub fn is_locked(&self) -> bool {
        self.state.is_locked()
    }

    /// Over when a document has come since this call, or the collection was dropped.
    pub fn arrival(&self) -> Wait {
        self.shared().contents().arrival()
    }

    pub fn namespace(&self) -> Namespace {
        self.shared().namespace().clone()
    }

    /// Whether something here may be due to be freed, or memory waits to be given back.
    pub(super) fn wants_reaping(&self, now: Millis) -> bool {
        let state = self.shared();
        let contents = state.contents();
        contents.can_shrink() || contents.earliest_end().has_come(now)
    }

    /// Whether anything here can ever end under the present rules, or memory waits to be given back.
    pub(super) fn can_expire(&self) -> bool {
        let state = self.shared();
        let contents = state.contents();
        // Bounds are what was written, until somebody visits: of documents that were removed they know nothing.
        let holds_any = contents.totals().count > 0;
        contents.can_shrink() || holds_any && contents.earliest_end() != End::NEVER
    }

    /// Lets the next change panic half-way.
    #[cfg(test)]
    pub fn panic_half_way(&self) {
        self.exclusive().contents_mut().panic_half_way();
    }

    pub(super) fn rename(&self, to: Namespace) {
        self.exclusive().rename(to);
    }

    /// Empties the collection for good and hands its contents over, so that freeing them holds up nobody.
    pub(super) fn retire(&self) -> Box<dyn Send> {
        self.exclusive().empty()
    }

    /// Lets another one take this one's place and empties it, if `allows` has nothing against that when it sees how this one
    /// is set up. Nobody can change it in between. (`allows` is not to look at documents: nobody's time is asked.)
    pub(super) fn give_way<E>(
        &self,
        allows: impl FnOnce(&View<'_>) -> Result<(), E>,
        take_place: impl FnOnce(),
    ) -> Result<Box<dyn Send>, E> {
        let mut state = self.exclusive();
        allows(&View::new(&state, ReadPoint::at(Millis(i64::MIN))))?;
        // First: nobody finds an empty collection under the name.
        take_place();
        Ok(state.empty())
    }
}

// === impl Exclusive ===

impl Exclusive<'_> {
    /// A panic has left some document half-written. What is left is not shown to anybody: readers that still hold the
    /// collection find it dropped and empty, and the catalog refuses it until somebody drops it.
    #[cold]
    fn close(&mut self) {
        tracing::error!(
            collection = %self.state.namespace(),
            "a write failed half-way: the collection is closed and must be dropped"
        );
        self.collection.damaged.store(true, Ordering::Relaxed);
        // Not freed: it may be inconsistent in ways that another panic would come of.
        std::mem::forget(self.state.empty());
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
