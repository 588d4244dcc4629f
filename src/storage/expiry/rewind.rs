//! Lets a collection follow the clock when a test sets it back, without reviving documents.
//!
//! The clock goes back for all collections at once. But documents that have expired by then must be removed one collection
//! after the other, while other commands keep writing and changing rules. So each collection goes back on its own, under
//! one hold of its lock: it removes the documents that have expired by the moment that the clock has left, and it resets
//! its [`Horizon`]. Until then that moment is its time. Readers see the collection at that moment. A writer first takes the
//! collection back, because a document written at the new time must not be judged by the old one. The thread that moved the
//! clock takes all remaining collections back, and only then is the step complete.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use super::Drained;
use crate::clock::{Clock, Rewind};
use crate::storage::collection::State;
use crate::storage::{Collection, Writer};
use crate::value::Millis;

/// The latest moment at which any command has read a collection. Documents that had expired by then were seen as gone, so a
/// writer with an older `now` must not revive them. Every read raises it. Only a [`Drained`] lowers it, when the clock is
/// set back.
pub(in crate::storage) struct Horizon {
    /// The latest moment at which any command has read.
    latest: AtomicI64,
    /// The number of the last step back that the collection has made. Read under the shared lock and written under the
    /// exclusive one. Used only while the clock is going back.
    rewound: AtomicU64,
    /// Tells whether a moment lies in the future, as for a command that began before the clock was set back.
    clock: Option<Clock>,
}

// === impl Horizon ===

impl Horizon {
    pub fn new(clock: Option<Clock>) -> Self {
        Self {
            latest: AtomicI64::new(i64::MIN),
            rewound: AtomicU64::new(0),
            clock,
        }
    }

    /// Returns the moment, or now if the moment lies in the future.
    pub fn clamp_to_now(&self, moment: Millis) -> Millis {
        match &self.clock {
            Some(clock) => moment.min(clock.now()),
            None => moment,
        }
    }

    /// Notes a read at `now` and returns the latest such moment.
    #[inline]
    fn raise(&self, now: Millis) -> Millis {
        // Usually it is the same millisecond: read first, and do not write to the cache line.
        let latest = self.latest.load(Ordering::Relaxed);
        if latest >= now.0 {
            return Millis(latest);
        }
        let now = self.clamp_to_now(now);
        Millis(self.latest.fetch_max(now.0, Ordering::Relaxed).max(now.0))
    }

    #[inline]
    fn is_going_back(&self) -> bool {
        self.clock.as_ref().is_some_and(Clock::is_going_back)
    }

    /// Returns the present step back if the collection has not made it. Call it only while the clock is going back.
    #[cold]
    fn to_follow(&self) -> Option<Rewind> {
        let rewind = self.clock.as_ref()?.rewind();
        (self.rewound.load(Ordering::Relaxed) < rewind.number).then_some(rewind)
    }

    /// Records that the collection has made a step back, and forgets earlier reads. No expired document is left that could
    /// come back.
    fn lower(&self, step: Rewind, drained: &Drained) {
        debug_assert!(
            drained.by() >= step.from,
            "what has ended since is not removed"
        );
        self.latest.store(i64::MIN, Ordering::Relaxed);
        self.rewound.store(step.number, Ordering::Relaxed);
    }
}

// === impl Collection ===

impl Collection {
    /// Notes a read at `now` and returns the latest such moment. Call it under the lock.
    #[inline]
    pub(in crate::storage) fn seen(&self, now: Millis) -> Millis {
        // While the clock goes back and this collection has not followed, its readers still read at the moment that the
        // clock has left. They need not note that: all documents that had expired by then will be removed.
        if self.horizon.is_going_back()
            && let Some(step) = self.horizon.to_follow()
        {
            return step.from;
        }
        self.horizon.raise(now)
    }

    /// Like [`Collection::seen`] for a holder of the exclusive lock, which takes the collection back first.
    #[inline]
    pub(in crate::storage) fn seen_by_writer(&self, state: &mut State, now: Millis) -> Millis {
        if self.horizon.is_going_back() {
            self.go_back(state, None);
        }
        self.horizon.raise(now)
    }

    /// Makes the clock's step back, or a part of it. Returns `false` if the deadline passed first.
    pub(in crate::storage) fn follow_back(&self, until: Instant) -> bool {
        self.go_back(&mut self.exclusive(), Some(until))
    }

    /// Makes the step back under the caller's lock. Without a deadline it is complete when this returns.
    #[cold]
    fn go_back(&self, state: &mut State, until: Option<Instant>) -> bool {
        let Some(step) = self.horizon.to_follow() else {
            return true;
        };
        // The clock is not lowered yet, so this caller still runs in the old time, and others may follow.
        if self.horizon.clamp_to_now(step.from) == step.from {
            return true;
        }
        let mut writer = Writer::new(state, step.from, step.from);
        let Some(drained) = writer.drain(step.from, until) else {
            return false;
        };
        self.horizon.lower(step, &drained);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Weak};

    use bson::doc;

    use super::*;
    use crate::clock::{self, Watcher};
    use crate::storage::Catalog;
    use crate::storage::ReadPoint;
    use crate::storage::expiry::Reaper;
    use crate::ttl::DefaultTtl;
    use crate::value::Doc;

    const HOUR: i64 = 3_600_000;
    const T: Millis = Millis(10 * HOUR);

    /// Runs code in the middle of a step back. Watchers are called in the order in which they were added: before or after
    /// the reaper, which sweeps the collections and then takes them back.
    struct Between<B, M> {
        before: B,
        moved: M,
    }

    impl<B: Fn() + Send + Sync, M: Fn() + Send + Sync> Watcher for Between<B, M> {
        fn before_rewind(&self, _: Millis) {
            (self.before)();
        }
        fn moved(&self, back: bool) {
            if back {
                (self.moved)();
            }
        }
    }

    fn watch(clock: &Clock, watcher: &Arc<impl Watcher + 'static>) {
        let weak: Weak<_> = Arc::downgrade(watcher);
        clock.watch(weak);
    }

    fn server() -> (Clock, Arc<Catalog>) {
        let clock = Clock::frozen(T);
        (clock.clone(), Arc::new(Catalog::with_clock(clock)))
    }

    fn set_default(catalog: &Catalog, name: &str, now: Millis, default: DefaultTtl) {
        let (collection, _) = catalog.get_or_create("db", name).unwrap();
        let set = |rules: &mut crate::storage::Rules<'_>| rules.set_default_ttl(default, None);
        let set = collection.drain_then(now, clock::monotonic(), set);
        assert!(set.unwrap().is_ok());
    }

    fn add(catalog: &Catalog, name: &str, now: Millis, id: i32) {
        let document = doc! {"_id": id}.to_vec().unwrap();
        let (collection, _) = catalog.get_or_create("db", name).unwrap();
        let added = collection.write(now, |w| w.insert(&document)).unwrap();
        added.unwrap();
    }

    fn ids(catalog: &Catalog, name: &str, now: Millis) -> Vec<i32> {
        let collection = catalog.get("db", name).unwrap().unwrap();
        collection.read(ReadPoint::at(now), |view| {
            let all = view.all();
            all.iter()
                .map(|(_, stored)| Doc::new(stored.bytes).get("_id").as_i32().unwrap())
                .collect()
        })
    }

    #[test]
    fn what_ends_between_the_sweep_and_the_step_back_stays_gone() {
        let (clock, catalog) = server();
        let reaper = Reaper::new(Arc::clone(&catalog), clock.clone());
        let ten = DefaultTtl::Seconds(10);
        set_default(&catalog, "late", T, ten);
        set_default(&catalog, "shorter", T, DefaultTtl::Seconds(100));
        add(&catalog, "shorter", Millis(T.0 - 50_000), 1);
        let between = Arc::new(Between {
            before: {
                let catalog = Arc::clone(&catalog);
                move || {
                    // A command that began long ago writes only now,
                    add(&catalog, "late", Millis(T.0 - 20_000), 1);
                    add(&catalog, "late", Millis(T.0 - 5_000), 2);
                    // a rule changes,
                    set_default(&catalog, "shorter", T, ten);
                    // and a collection is created that was never swept.
                    set_default(&catalog, "new", T, ten);
                    add(&catalog, "new", Millis(T.0 - 20_000), 1);
                    for (name, living) in [("late", vec![2]), ("shorter", vec![]), ("new", vec![])]
                    {
                        assert_eq!(ids(&catalog, name, T), living, "{name}");
                    }
                }
            },
            moved: || {},
        });
        watch(&clock, &between);
        let back = Millis(T.0 - HOUR);
        clock.set(back);
        for (name, living) in [("late", vec![2]), ("shorter", vec![]), ("new", vec![])] {
            assert_eq!(ids(&catalog, name, back), living, "{name}");
        }
        drop(reaper);
    }

    #[test]
    fn until_a_collection_has_followed_it_shows_nothing_again_and_takes_what_is_written_now() {
        let (clock, catalog) = server();
        for name in ["read", "written"] {
            set_default(&catalog, name, T, DefaultTtl::Seconds(10));
            add(&catalog, name, Millis(T.0 - 5_000), 1);
        }
        let back = Millis(T.0 - HOUR);
        let before = {
            let catalog = Arc::clone(&catalog);
            move || {
                for name in ["read", "written"] {
                    add(&catalog, name, Millis(T.0 - 20_000), 2);
                }
            }
        };
        let moved = {
            let catalog = Arc::clone(&catalog);
            move || {
                assert_eq!(ids(&catalog, "read", back), [1]);
                add(&catalog, "written", back, 3);
                assert_eq!(ids(&catalog, "written", back), [1, 3]);
                // One command that begins now, and one that began before the step.
                set_default(&catalog, "made", back, DefaultTtl::Seconds(10));
                add(&catalog, "made", back, 1);
                add(&catalog, "made", T, 2);
                assert_eq!(ids(&catalog, "made", T), [1, 2]);
            }
        };
        // The reaper sweeps after the first and before the second watcher, and takes collections back after both.
        let ahead = Arc::new(Between {
            before: || {},
            moved,
        });
        watch(&clock, &ahead);
        let reaper = Reaper::new(Arc::clone(&catalog), clock.clone());
        let behind = Arc::new(Between {
            before,
            moved: || {},
        });
        watch(&clock, &behind);
        clock.set(back);
        let shown = |now| ["read", "written", "made"].map(|name| ids(&catalog, name, now));
        assert_eq!(shown(back), [vec![1], vec![1, 3], vec![1, 2]]);
        // A document written after the step lives for its ten seconds, and one written before it until then.
        clock.set(Millis(back.0 + 9_999));
        assert_eq!(shown(clock.now()), [vec![1], vec![1, 3], vec![1, 2]]);
        clock.set(Millis(back.0 + 10_000));
        assert_eq!(shown(clock.now()), [vec![1], vec![1], vec![]]);
        clock.set(Millis(T.0 + 5_000));
        assert!(shown(clock.now()).iter().all(Vec::is_empty));
        drop(reaper);
    }
}
