//! One collection: its documents, its indexes, its TTL settings, and the lock around them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use uuid::Uuid;

use super::dates::Coming;
use super::idmap::IdMap;
use super::index::{Index, Usage};
use super::segments::Segments;
use super::ttl::{Bounds, DefaultTtl, End};
use super::{Namespace, Options, ReadPoint, RecordId, SizeLimit, Totals, TsIndex, View, Writer};
use crate::aside::uncut;
use crate::clock::Clock;
use crate::value::Millis;

/// Longer than the lock is held when all is well.
pub(super) const WHEN_ALL_IS_WELL: Duration = Duration::from_millis(5);

pub struct Collection {
    pub(super) uuid: Uuid,
    /// Read under the shared lock, changed under the exclusive one.
    pub(super) ids: IdMap,
    pub(super) state: RwLock<State>,
    /// The latest moment at which anybody has looked at this collection. What had ended by then was seen to be gone, so a
    /// writer whose own `now` is older must not bring it back. Raised by every look, lowered when the clock is set back.
    pub(super) latest: AtomicI64,
    /// The last step back of the clock that this collection has made. Read under the shared lock, changed under the
    /// exclusive one, and asked for only while the clock is going back.
    pub(super) rewound: AtomicU64,
    /// Tells a moment that lies ahead (a command that began before the clock was set back) from one that has come.
    pub(super) clock: Option<Clock>,
    /// Ended documents freed, in all collections of the catalog together.
    pub(super) freed: Arc<AtomicU64>,
}

/// Everything that the lock guards.
pub(super) struct State {
    pub namespace: Namespace,
    pub segments: Segments,
    /// The number of the next segment: never reused, also when all segments are gone.
    pub next_segment: u64,
    pub indexes: Vec<Index>,
    /// The number of the next index: never reused.
    pub next_index: u64,
    /// That of the map of `_id`s.
    pub id_usage: Usage,
    pub default: DefaultTtl,
    /// The index on `_ts` that shows the default to clients; there while the default is on.
    pub ts_index: Option<TsIndex>,
    pub options: Options,
    pub limit: Option<SizeLimit>,
    /// What lives in memory, ended or not.
    pub totals: Totals,
    /// Lower bounds over all segments.
    pub bounds: Bounds,
    /// The date rules to come, while their ends are being computed.
    pub coming: Option<Coming>,
    /// The last document that made way in a capped collection: nothing before it is left.
    pub evicted: Option<RecordId>,
    /// The record at which the reaper goes on.
    pub reap_from: RecordId,
    /// The shard of the `_id` map at which it goes on giving memory back (behind the last one: indexes); `None` when there is
    /// nothing to give.
    pub shrink_from: Option<usize>,
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
            ids: IdMap::new(),
            state: RwLock::new(State {
                namespace,
                segments: Segments::default(),
                next_segment: 0,
                indexes: Vec::new(),
                next_index: 0,
                id_usage: Usage::since(Millis(0)),
                default: DefaultTtl::Off,
                ts_index: None,
                options,
                limit: None,
                totals: Totals::default(),
                bounds: Bounds::NONE,
                coming: None,
                evicted: None,
                reap_from: RecordId::FIRST,
                shrink_from: None,
                dropped: false,
                renames: 0,
            }),
            latest: AtomicI64::new(i64::MIN),
            rewound: AtomicU64::new(0),
            clock: None,
            freed: Arc::default(),
        }
    }

    /// A collection in a server, whose clock may be set back.
    #[must_use]
    pub(super) fn with(mut self, clock: Option<Clock>, freed: Arc<AtomicU64>) -> Self {
        if let Some(clock) = &clock {
            self.state.get_mut().id_usage = Usage::since(clock.now());
        }
        self.clock = clock;
        self.freed = freed;
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
    pub(super) fn exclusive(&self) -> RwLockWriteGuard<'_, State> {
        self.state
            .try_write_for(WHEN_ALL_IS_WELL)
            .unwrap_or_else(|| uncut(|| self.state.write()))
    }

    /// Looks at the collection from a read point, or at the latest moment at which anybody looked: what one command has
    /// seen to be gone, no other finds. Keep it short: a waiting writer makes later readers wait too.
    pub fn read<T>(&self, at: ReadPoint, look: impl FnOnce(&View<'_>) -> T) -> T {
        let state = self.shared();
        let seen = self.seen(at.now());
        look(&View::new(&state, &self.ids, seen))
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
        Ok(change(&mut Writer::new(self, &mut state, now, seen)))
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

    pub fn namespace(&self) -> Namespace {
        self.shared().namespace.clone()
    }

    /// Whether something here may be due to be freed, or memory waits to be given back.
    pub(super) fn wants_reaping(&self, now: Millis) -> bool {
        let state = self.shared();
        state.shrink_from.is_some() || state.bounds.earliest(state.default).has_come(now)
    }

    /// Whether anything here can ever end under the present rules, or memory waits to be given back.
    pub(super) fn can_expire(&self) -> bool {
        let state = self.shared();
        // Bounds are what was written, until somebody visits: of documents that were removed they know nothing.
        let holds_any = state.totals.count > 0;
        state.shrink_from.is_some()
            || holds_any && state.bounds.earliest(state.default) != End::NEVER
    }

    pub(super) fn rename(&self, to: Namespace) {
        let mut state = self.exclusive();
        state.namespace = to;
        state.renames += 1;
    }

    /// Empties the collection for good and hands its contents over, so that freeing them holds up nobody.
    pub(super) fn retire(&self) -> Box<dyn Send> {
        self.empty(&mut self.exclusive())
    }

    /// Lets another one take this one's place and empties it, if `allows` has nothing against that when it sees how this one
    /// is set up. Nobody can change it in between. (`allows` is not to look at documents: nobody's time is asked.)
    pub(super) fn give_way<E>(
        &self,
        allows: impl FnOnce(&View<'_>) -> Result<(), E>,
        take_place: impl FnOnce(),
    ) -> Result<Box<dyn Send>, E> {
        let mut state = self.exclusive();
        allows(&View::new(&state, &self.ids, Millis(i64::MIN)))?;
        // First: nobody finds an empty collection under the name.
        take_place();
        Ok(self.empty(&mut state))
    }

    fn empty(&self, state: &mut State) -> Box<dyn Send> {
        state.dropped = true;
        state.totals = Totals::default();
        state.bounds = Bounds::NONE;
        Box::new((
            std::mem::take(&mut state.segments),
            std::mem::take(&mut state.indexes),
            self.ids.take(),
        ))
    }
}

impl std::fmt::Debug for Collection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Collection({})", self.uuid)
    }
}

#[cfg(test)]
mod tests;
