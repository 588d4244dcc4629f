//! One collection: its documents, its indexes, its TTL settings, and the lock around them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use uuid::Uuid;

use super::contents::Contents;
use super::index::Usage;
use super::{Namespace, Options, ReadPoint, RecordId, SizeLimit, View, Writer};
use crate::aside::uncut;
use crate::clock::Clock;
use crate::ttl::{DefaultTtl, End, TsIndex};
use crate::value::Millis;
use crate::wait::Wait;

/// Longer than the lock is held when all is well.
pub(super) const WHEN_ALL_IS_WELL: Duration = Duration::from_millis(5);

pub struct Collection {
    pub(super) uuid: Uuid,
    pub(super) state: RwLock<State>,
    /// The latest moment at which anybody has looked at this collection. What had ended by then was seen to be gone, so a
    /// writer whose own `now` is older must not bring it back. Raised by every look, lowered when the clock is set back.
    pub(super) latest: AtomicI64,
    /// The last step back of the clock that this collection has made. Read under the shared lock, changed under the
    /// exclusive one, and asked for only while the clock is going back.
    pub(super) rewound: AtomicU64,
    /// Tells a moment that lies ahead (a command that began before the clock was set back) from one that has come.
    pub(super) clock: Option<Clock>,
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

/// Everything that the lock guards.
pub(super) struct State {
    pub namespace: Namespace,
    pub contents: Contents,
    /// That of the map of `_id`s.
    pub id_usage: Usage,
    pub default: DefaultTtl,
    /// The index on `_ts` that shows the default to clients; there while the default is on.
    pub ts_index: Option<TsIndex>,
    pub options: Options,
    pub limit: Option<SizeLimit>,
    /// The last document that made way in a capped collection: nothing before it is left.
    pub evicted: Option<RecordId>,
    /// The record at which the reaper goes on.
    pub reap_from: RecordId,
    pub dropped: bool,
    /// How often it was given another name: readers that go on are told.
    pub renames: u32,
}

/// The collection was dropped (or renamed away) since it was looked up: look it up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped;

// === impl Collection ===

impl Collection {
    pub fn new(namespace: Namespace, options: Options) -> Self {
        Self {
            uuid: Uuid::new_v4(),
            state: RwLock::new(State {
                namespace,
                contents: Contents::new(Arc::default()),
                id_usage: Usage::since(Millis(0)),
                default: DefaultTtl::Off,
                ts_index: None,
                options,
                limit: None,
                evicted: None,
                reap_from: RecordId::FIRST,
                dropped: false,
                renames: 0,
            }),
            latest: AtomicI64::new(i64::MIN),
            rewound: AtomicU64::new(0),
            clock: None,
            damaged: AtomicBool::new(false),
            ordering_ids: AtomicBool::new(false),
        }
    }

    /// A collection in a server, whose clock may be set back.
    #[must_use]
    pub(super) fn with(mut self, clock: Option<Clock>, freed: Arc<AtomicU64>) -> Self {
        if let Some(clock) = &clock {
            self.state.get_mut().id_usage = Usage::since(clock.now());
        }
        self.clock = clock;
        self.state.get_mut().contents = Contents::new(freed);
        self
    }

    /// A collection in a server that takes no larger documents.
    #[must_use]
    pub fn with_limit(mut self, limit: Option<SizeLimit>) -> Self {
        self.state.get_mut().limit = limit;
        self
    }

    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// The lock is held for a slice of work, but one document's filter may take long: who waits for that lets others go on.
    #[inline]
    pub(super) fn shared(&self) -> RwLockReadGuard<'_, State> {
        self.state
            .try_read_for(WHEN_ALL_IS_WELL)
            .unwrap_or_else(|| uncut(|| self.state.read()))
    }

    #[inline]
    pub(super) fn exclusive(&self) -> Exclusive<'_> {
        let state = self
            .state
            .try_write_for(WHEN_ALL_IS_WELL)
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
        look(&View::new(&state, seen))
    }

    /// Changes the collection at `now`. Nobody reads it meanwhile, so: one document, or a batch of at most about a hundred.
    pub fn write<T>(
        &self,
        now: Millis,
        change: impl FnOnce(&mut Writer<'_>) -> T,
    ) -> Result<T, Dropped> {
        let mut state = self.exclusive();
        if state.dropped {
            return Err(Dropped);
        }
        let seen = self.seen_by_writer(&mut state, now);
        Ok(change(&mut Writer::new(&mut state, now, seen)))
    }

    /// Notes that someone looks at `now`; returns the latest such moment. Call it under the lock.
    #[inline]
    fn seen(&self, now: Millis) -> Millis {
        if self.clock.as_ref().is_some_and(Clock::is_going_back)
            && let Some(from) = self.not_yet_back()
        {
            return from;
        }
        self.note(now)
    }

    /// The same for whoever holds the lock exclusively, and can take the collection back first.
    #[inline]
    pub(super) fn seen_by_writer(&self, state: &mut State, now: Millis) -> Millis {
        if self.clock.as_ref().is_some_and(Clock::is_going_back) {
            self.go_back(state, None);
        }
        self.note(now)
    }

    #[inline]
    fn note(&self, now: Millis) -> Millis {
        // The same millisecond most of the time: read first, and leave the cache line alone.
        let latest = self.latest.load(Ordering::Relaxed);
        if latest >= now.0 {
            return Millis(latest);
        }
        let now = self.come(now);
        Millis(self.latest.fetch_max(now.0, Ordering::Relaxed).max(now.0))
    }

    /// The moment, or now if it lies ahead.
    pub(super) fn come(&self, moment: Millis) -> Millis {
        match &self.clock {
            Some(clock) => moment.min(clock.now()),
            None => moment,
        }
    }

    /// Over when a document has come since this call, or the collection was dropped.
    pub fn arrival(&self) -> Wait {
        Wait::until(self.shared().contents.arrivals.listen())
    }

    pub fn namespace(&self) -> Namespace {
        self.shared().namespace.clone()
    }

    /// Whether something here may be due to be freed, or memory waits to be given back.
    pub(super) fn wants_reaping(&self, now: Millis) -> bool {
        let state = self.shared();
        state.contents.can_shrink() || state.contents.earliest_end(state.default).has_come(now)
    }

    /// Whether anything here can ever end under the present rules, or memory waits to be given back.
    pub(super) fn can_expire(&self) -> bool {
        let state = self.shared();
        // Bounds are what was written, until somebody visits: of documents that were removed they know nothing.
        let holds_any = state.contents.totals().count > 0;
        state.contents.can_shrink()
            || holds_any && state.contents.earliest_end(state.default) != End::NEVER
    }

    /// Lets the next change panic half-way.
    #[cfg(test)]
    pub fn panic_half_way(&self) {
        self.exclusive().contents.panic_half_way();
    }

    pub(super) fn rename(&self, to: Namespace) {
        let mut state = self.exclusive();
        state.namespace = to;
        state.renames += 1;
    }

    /// Empties the collection for good and hands its contents over, so that freeing them holds up nobody.
    pub(super) fn retire(&self) -> Box<dyn Send> {
        empty(&mut self.exclusive())
    }

    /// Lets another one take this one's place and empties it, if `allows` has nothing against that when it sees how this one
    /// is set up. Nobody can change it in between. (`allows` is not to look at documents: nobody's time is asked.)
    pub(super) fn give_way<E>(
        &self,
        allows: impl FnOnce(&View<'_>) -> Result<(), E>,
        take_place: impl FnOnce(),
    ) -> Result<Box<dyn Send>, E> {
        let mut state = self.exclusive();
        allows(&View::new(&state, Millis(i64::MIN)))?;
        // First: nobody finds an empty collection under the name.
        take_place();
        Ok(empty(&mut state))
    }
}

/// Marks it dropped and hands over what it held.
fn empty(state: &mut State) -> Box<dyn Send> {
    state.dropped = true;
    Box::new(state.contents.take())
}

// === impl Exclusive ===

impl Exclusive<'_> {
    /// A panic has left some document half-written. What is left is not shown to anybody: readers that still hold the
    /// collection find it dropped and empty, and the catalog refuses it until somebody drops it.
    #[cold]
    fn close(&mut self) {
        tracing::error!(
            collection = %self.state.namespace,
            "a write failed half-way: the collection is closed and must be dropped"
        );
        self.collection.damaged.store(true, Ordering::Relaxed);
        // Not freed: it may be inconsistent in ways that another panic would come of.
        std::mem::forget(empty(&mut self.state));
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        if self.state.contents.is_torn() {
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
