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
use super::{Namespace, RecordId, Totals, View, Writer};
use crate::aside::uncut;
use crate::clock::Clock;
use crate::error::Error;
use crate::value::{DocBuf, Millis};

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

/// How `DefaultTTL` looks among the indexes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TsIndex {
    pub name: String,
    pub key: DocBuf,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Where the oldest documents make way for new ones.
    pub cap: Option<Cap>,
    /// `indexingPolicy.indexingMode`, if the client gave one.
    pub indexing_mode: Option<IndexingMode>,
    /// What else `create` was given and listCollections shows.
    pub shown: DocBuf,
}

/// The largest document that a server takes, where that is less than MongoDB's, and what it says of a larger one.
#[derive(Debug, Clone, Copy)]
pub struct SizeLimit {
    pub bytes: usize,
    pub refusal: fn() -> Error,
}

/// How much a capped collection holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    pub bytes: u64,
    pub documents: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexingMode {
    Consistent,
    Lazy,
    None,
}

// === impl IndexingMode ===

impl IndexingMode {
    pub const NAMES: &[(&str, Self)] = &[
        ("consistent", Self::Consistent),
        ("lazy", Self::Lazy),
        ("none", Self::None),
    ];
}

/// The collection was dropped (or renamed away) since it was looked up: look it up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped;

// === impl Cap ===

impl Cap {
    pub(super) fn holds(self, documents: Totals) -> bool {
        documents.bytes <= self.bytes && self.documents.is_none_or(|most| documents.count <= most)
    }
}

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

    /// Looks at the collection as it is at `now`, or at the latest moment at which anybody looked: what one command has
    /// seen to be gone, no other finds. Keep it short: a waiting writer makes later readers wait too.
    pub fn read<T>(&self, now: Millis, look: impl FnOnce(&View<'_>) -> T) -> T {
        let state = self.shared();
        let seen = self.seen(now);
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
mod tests {
    use super::*;
    use crate::clock::monotonic;
    use crate::storage::index::IndexSpec;
    use crate::storage::{RecordId, Refused, Replaced};
    use crate::value::{Doc, key};
    use bson::doc;
    use std::ops::Bound;
    use std::time::Duration;

    fn collection(default: DefaultTtl) -> Collection {
        let made = Collection::new(Namespace::new("db", "c"), Options::default());
        made.write(Millis(0), |w| w.set_default_ttl(default, None))
            .unwrap();
        made
    }

    fn add(
        collection: &Collection,
        now: i64,
        document: bson::Document,
    ) -> Result<RecordId, Refused> {
        let bytes = document.to_vec().unwrap();
        collection.write(Millis(now), |w| w.insert(&bytes)).unwrap()
    }

    fn ids(collection: &Collection, now: i64) -> Vec<i32> {
        collection.read(Millis(now), |view| {
            let up: Vec<_> = view.scan_up(RecordId::FIRST).collect();
            let mut down: Vec<_> = view
                .scan_down(RecordId(u64::MAX))
                .map(|(id, _)| id)
                .collect();
            down.reverse();
            assert_eq!(up.iter().map(|(id, _)| *id).collect::<Vec<_>>(), down);
            assert_eq!(view.totals().count, up.len() as u64);
            up.iter()
                .map(|(_, s)| Doc::new(s.bytes).get("_id").as_i32().unwrap())
                .collect()
        })
    }

    fn reap(collection: &Collection, now: i64) -> u64 {
        let mut removed = 0;
        loop {
            let slice = collection.reap(Millis(now), monotonic());
            removed += slice.removed;
            if !slice.more {
                return removed;
            }
        }
    }

    #[test]
    fn an_ended_document_makes_way_for_its_id_and_its_unique_keys() {
        let c = collection(DefaultTtl::Seconds(10));
        c.write(Millis(0), |w| {
            let mut spec = IndexSpec::new("u_1", DocBuf::from(doc! {"u": 1}));
            spec.unique = true;
            w.add_index(spec);
        })
        .unwrap();
        add(&c, 0, doc! {"_id": 1, "u": "a"}).unwrap();
        add(&c, 5_000, doc! {"_id": 2, "u": "b"}).unwrap();
        assert!(matches!(
            add(&c, 9_999, doc! {"_id": 1}),
            Err(Refused::Duplicate { index: None, .. })
        ));
        assert!(matches!(
            add(&c, 9_999, doc! {"_id": 3, "u": "a"}),
            Err(Refused::Duplicate { index: Some(_), .. })
        ));
        add(&c, 10_000, doc! {"_id": 3, "u": "a"}).unwrap();
        add(&c, 15_000, doc! {"_id": 2, "u": "c"}).unwrap();
        assert_eq!(ids(&c, 15_000), [3, 2]);
        c.read(Millis(15_000), |view| {
            assert_eq!(view.index("u_1").unwrap().len(), 2)
        });
        assert_eq!(reap(&c, 15_000), 0);
    }

    #[test]
    fn a_longer_default_brings_nothing_back() {
        let c = collection(DefaultTtl::Seconds(10));
        for n in 0..500 {
            add(&c, i64::from(n) * 20, doc! {"_id": n}).unwrap();
        }
        let now = Millis(15_000);
        let mut change = |w: &mut Writer<'_>| w.set_default_ttl(DefaultTtl::Never, None);
        let mut rounds = 0;
        // No time at all: every round removes one chunk.
        while let Err(again) = c.drain_then(now, monotonic(), change).unwrap() {
            change = again;
            rounds += 1;
        }
        assert!(rounds > 3, "{rounds}");
        assert_eq!(ids(&c, 15_000).first(), Some(&251));
        assert_eq!(ids(&c, 1_000_000).len(), 249);
    }

    #[test]
    fn a_writer_with_an_older_now_cannot_revive_what_was_seen_to_be_gone() {
        let c = collection(DefaultTtl::Seconds(10));
        let document = doc! {"_id": 1};
        let id = add(&c, 0, document.clone()).unwrap();
        assert_eq!(ids(&c, 10_000), Vec::<i32>::new());
        let bytes = document.to_vec().unwrap();
        let replaced = c
            .write(Millis(9_000), |w| w.replace(id, &bytes, &bytes))
            .unwrap();
        assert_eq!(replaced, Replaced::Stale);
        let touched = c.write(Millis(9_000), |w| w.touch(id, &bytes)).unwrap();
        assert_eq!(touched, Replaced::Stale);
    }

    /// A statement over many documents takes a while, and its `_ts` is the moment at which it began.
    #[test]
    fn a_writer_with_an_older_now_ends_nobody_early() {
        let documents = [doc! {"_id": 1, "n": 0}, doc! {"_id": 2, "n": 0}];
        let bytes = documents.map(|document| document.to_vec().unwrap());
        let other = doc! {"_id": 1, "n": 1}.to_vec().unwrap();
        for indexed in [false, true] {
            let c = collection(DefaultTtl::Seconds(10));
            if indexed {
                c.write(Millis(0), |w| {
                    w.add_index(IndexSpec::new("_ts_1", DocBuf::from(doc! {"_ts": 1})));
                })
                .unwrap();
            }
            let add = |bytes| c.write(Millis(0), |w| w.insert(bytes)).unwrap().unwrap();
            let ids_of = bytes.each_ref().map(|bytes| add(bytes));
            // It begins at 2 s; others write at 9 s; at 9.5 s it comes to the same documents.
            for (now, seen) in [(9_000, 9_000), (2_000, 9_500)] {
                c.read(Millis(seen), |_| ());
                let (new, old) = match now {
                    9_000 => (&other, &bytes[0]),
                    _ => (&bytes[0], &other),
                };
                c.write(Millis(now), |w| {
                    assert!(matches!(
                        w.replace(ids_of[0], old, new),
                        Replaced::Done { .. }
                    ));
                    assert!(matches!(
                        w.touch(ids_of[1], &bytes[1]),
                        Replaced::Done { .. }
                    ));
                })
                .unwrap();
            }
            assert_eq!(ids(&c, 18_999), [1, 2], "{indexed}");
            if indexed {
                let moments: Vec<_> = c.read(Millis(18_999), |view| {
                    let index = view.index("_ts_1").unwrap();
                    let entries = index.up(Bound::Unbounded, &[0xff]);
                    entries
                        .map(|entry| crate::storage::index::split(entry).1)
                        .collect()
                });
                assert_eq!(moments, ids_of);
            }
            assert_eq!(ids(&c, 19_000), Vec::<i32>::new(), "{indexed}");
            assert_eq!(reap(&c, 19_000), 2);
        }
    }

    #[test]
    fn a_reader_with_an_older_now_finds_no_more_than_others_did() {
        let c = collection(DefaultTtl::Seconds(10));
        add(&c, 0, doc! {"_id": 1}).unwrap();
        add(&c, 5_000, doc! {"_id": 2}).unwrap();
        assert_eq!(ids(&c, 10_000), [2]);
        // Else a writer would find by its own now what the latest look does not let it touch, and search for ever.
        assert_eq!(ids(&c, 9_999), [2]);
    }

    #[test]
    fn a_command_from_before_the_clock_was_set_back_does_no_harm() {
        let clock = Clock::frozen(Millis(5_000));
        let c = collection(DefaultTtl::Seconds(10)).with(Some(clock.clone()), Arc::default());
        add(&c, 5_000, doc! {"_id": 1}).unwrap();
        // It began when it was 90 seconds later.
        let late = Millis(95_000);
        assert_eq!(ids(&c, late.0), [1]);
        assert_eq!(c.reap(late, monotonic()).removed, 0);
        assert_eq!(ids(&c, 5_000), [1]);
        assert!(
            add(&c, 5_000, doc! {"_id": 1}).is_err(),
            "it lives, so nobody takes its place"
        );
        // What it writes is written now, and lives no longer than its ttl.
        add(&c, late.0, doc! {"_id": 2}).unwrap();
        clock.set(Millis(14_999));
        assert_eq!(ids(&c, 14_999), [1, 2]);
        clock.set(Millis(15_000));
        assert_eq!(ids(&c, 15_000), Vec::<i32>::new());
    }

    /// Counted in documents looked at: each insert into a full collection may look at a few, not at all that have ended.
    #[test]
    fn a_capped_collection_makes_room_first_where_documents_have_ended() {
        let cap = Cap {
            bytes: u64::MAX,
            documents: Some(100),
        };
        let options = Options {
            cap: Some(cap),
            ..Options::default()
        };
        let c = Collection::new(Namespace::new("db", "c"), options);
        c.write(Millis(0), |w| w.set_default_ttl(DefaultTtl::Never, None))
            .unwrap();
        // Every other one ends after a second.
        for n in 0..100 {
            let ttl = if n % 2 == 0 { 1 } else { -1 };
            add(&c, 0, doc! {"_id": n, "ttl": ttl}).unwrap();
        }
        for n in 100..150 {
            add(&c, 1_000, doc! {"_id": n}).unwrap();
        }
        let living: Vec<i32> = (0..150).filter(|n| n % 2 == 1 || *n >= 100).collect();
        assert_eq!(ids(&c, 1_000), living, "nobody had to go");
        assert_eq!(c.state.read().evicted, None);
        add(&c, 1_000, doc! {"_id": 150}).unwrap();
        assert_eq!(ids(&c, 1_000).first(), Some(&3), "the oldest has made way");
        assert_eq!(ids(&c, 1_000).len(), 100);
        assert_eq!(c.freed.load(Ordering::Relaxed), 50);
    }

    #[test]
    fn a_full_capped_collection_holds_no_more_ended_documents_than_living_ones() {
        let options = Options {
            cap: Some(Cap {
                bytes: 20_000,
                documents: None,
            }),
            ..Options::default()
        };
        let c = Collection::new(Namespace::new("db", "c"), options);
        c.write(Millis(0), |w| {
            w.set_default_ttl(DefaultTtl::Seconds(1), None)
        })
        .unwrap();
        for n in 0..20_000 {
            add(&c, i64::from(n), doc! {"_id": n}).unwrap();
            assert!(c.state.read().totals.bytes <= 20_000, "{n}");
        }
        assert_eq!(ids(&c, 19_999), (19_000..20_000).collect::<Vec<_>>());
        assert_eq!(c.state.read().evicted, None);
    }

    #[test]
    fn reaping_leaves_exactly_the_living_and_their_index_entries() {
        let c = collection(DefaultTtl::Seconds(100));
        c.write(Millis(0), |w| {
            w.add_index(IndexSpec::new("n_1", DocBuf::from(doc! {"n": 1})));
        })
        .unwrap();
        let pad = "x".repeat(200);
        for n in 0..20_000 {
            let ttl = if n % 10 == 3 { -1 } else { 1 + n % 7 };
            add(&c, 0, doc! {"_id": n, "n": n, "ttl": ttl, "pad": &pad}).unwrap();
        }
        let before = c.read(Millis(0), |view| view.allocated());
        assert_eq!(reap(&c, 7_000), 18_000);
        let living: Vec<i32> = (0..20_000).filter(|n| n % 10 == 3).collect();
        assert_eq!(ids(&c, 7_000), living);
        c.read(Millis(7_000), |view| {
            assert!(
                view.allocated() < before / 6,
                "{} of {before}",
                view.allocated()
            );
            let index = view.index("n_1").unwrap();
            let through: Vec<RecordId> = index
                .up(Bound::Unbounded, &[0xff])
                .map(|entry| crate::storage::index::split(entry).1)
                .collect();
            assert_eq!(through.len(), 2_000);
            assert!(through.iter().all(|&id| view.get(id).is_some()));
            for n in 0..20_000 {
                let mut bytes = Vec::new();
                key::encode(crate::value::Value::int32(n).as_ref(), false, &mut bytes);
                assert_eq!(view.by_id(&bytes).is_some(), n % 10 == 3, "{n}");
            }
        });
    }

    #[test]
    fn date_indexes_end_documents_too_and_changing_them_brings_nothing_back() {
        let c = collection(DefaultTtl::Off);
        c.write(Millis(0), |w| {
            let mut spec = IndexSpec::new("at_1", DocBuf::from(doc! {"at": 1}));
            spec.expire_after = Some(5);
            w.add_index(spec);
        })
        .unwrap();
        let date = |ms: i64| bson::DateTime::from_millis(ms);
        add(&c, 0, doc! {"_id": 1, "at": date(1_000)}).unwrap();
        add(
            &c,
            0,
            doc! {"_id": 2, "at": [date(9_000), date(2_000), date(7_000)]},
        )
        .unwrap();
        add(&c, 0, doc! {"_id": 3, "at": "soon"}).unwrap();
        add(&c, 0, doc! {"_id": 4, "at": date(50_000)}).unwrap();
        assert_eq!(ids(&c, 5_999), [1, 2, 3, 4]);
        assert_eq!(ids(&c, 6_000), [2, 3, 4]);
        assert_eq!(ids(&c, 7_000), [3, 4]);
        let until = monotonic() + Duration::from_secs(1);
        assert!(
            c.drain_then(Millis(7_000), until, |w| w
                .drop_indexes(|index| index.spec.name == "at_1")
                .len())
                .unwrap()
                .is_ok()
        );
        assert_eq!(ids(&c, 99_000), [3, 4]);
    }
}
