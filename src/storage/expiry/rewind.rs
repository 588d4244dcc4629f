//! How a collection follows the clock when a test sets it back: nothing that has ended comes back.
//!
//! The clock goes back for all collections at once, but what has ended in them by then has to be removed one collection
//! after the other, and meanwhile others go on writing and changing rules. So each collection goes back by itself, in one
//! hold of its lock: what has ended by the moment that time has left is removed, and what was seen up to then is
//! forgotten. Until then its time is that moment: who reads it sees it so, and who wants to write takes it back first, for
//! what is written in the time that holds now must not be judged by the one before. Whoever moved the clock takes back all
//! that are left, and only then is the step made.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use super::Drained;
use crate::clock::{Clock, Rewind};
use crate::storage::collection::State;
use crate::storage::{Collection, Writer};
use crate::value::Millis;

/// How far anybody has looked at a collection. What had ended by then was seen to be gone, so a writer whose own `now` is older
/// must not bring it back. Every look raises it; only a [`Drained`] lowers it, when the clock is set back.
pub(in crate::storage) struct Horizon {
    /// The latest moment at which anybody has looked.
    latest: AtomicI64,
    /// The last step back of the clock that the collection has made. Read under the shared lock, changed under the
    /// exclusive one, and asked for only while the clock is going back.
    rewound: AtomicU64,
    /// Tells a moment that lies ahead (a command that began before the clock was set back) from one that has come.
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

    /// The moment, or now if it lies ahead.
    pub fn clamp_to_now(&self, moment: Millis) -> Millis {
        match &self.clock {
            Some(clock) => moment.min(clock.now()),
            None => moment,
        }
    }

    /// Notes that someone looks at `now`; returns the latest such moment.
    #[inline]
    fn raise(&self, now: Millis) -> Millis {
        // The same millisecond most of the time: read first, and leave the cache line alone.
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

    /// The step back that is being made, if the collection has not made it. For while the clock is going back.
    #[cold]
    fn to_follow(&self) -> Option<Rewind> {
        let rewind = self.clock.as_ref()?.rewind();
        (self.rewound.load(Ordering::Relaxed) < rewind.number).then_some(rewind)
    }

    /// The collection makes a step back: what was seen before it is forgotten. Nothing is left that could come back.
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
    /// Notes that someone looks at `now`; returns the latest such moment. Call it under the lock.
    #[inline]
    pub(in crate::storage) fn seen(&self, now: Millis) -> Millis {
        // While the clock goes back without this collection, the moment that it comes from still is now for its readers. None of
        // them has to note that: all that had ended by then will be gone.
        if self.horizon.is_going_back()
            && let Some(step) = self.horizon.to_follow()
        {
            return step.from;
        }
        self.horizon.raise(now)
    }

    /// The same for whoever holds the lock exclusively, and can take the collection back first.
    #[inline]
    pub(in crate::storage) fn seen_by_writer(&self, state: &mut State, now: Millis) -> Millis {
        if self.horizon.is_going_back() {
            self.go_back(state, None);
        }
        self.horizon.raise(now)
    }

    /// Makes the step back that the clock is making, or a part of it. `false`: it was `until` before all was done.
    pub(in crate::storage) fn follow_back(&self, until: Instant) -> bool {
        self.go_back(&mut self.exclusive(), Some(until))
    }

    /// The same for whoever holds the lock. Without `until` it is done when this returns.
    #[cold]
    fn go_back(&self, state: &mut State, until: Option<Instant>) -> bool {
        let Some(step) = self.horizon.to_follow() else {
            return true;
        };
        // Not lowered yet: whoever has come here is still in the time before, and others may follow.
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

    /// Does something in the middle of a step back. Watchers are called in the order in which they came: before or after
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
                    // and a collection is made that nobody has swept.
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
                // One that begins now, and one that began before the step.
                set_default(&catalog, "made", back, DefaultTtl::Seconds(10));
                add(&catalog, "made", back, 1);
                add(&catalog, "made", T, 2);
                assert_eq!(ids(&catalog, "made", T), [1, 2]);
            }
        };
        // The sweep comes after the first and before the second, the taking back after both.
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
        // What was written after the step lives its ten seconds, and what was written before it till then.
        clock.set(Millis(back.0 + 9_999));
        assert_eq!(shown(clock.now()), [vec![1], vec![1, 3], vec![1, 2]]);
        clock.set(Millis(back.0 + 10_000));
        assert_eq!(shown(clock.now()), [vec![1], vec![1], vec![]]);
        clock.set(Millis(T.0 + 5_000));
        assert!(shown(clock.now()).iter().all(Vec::is_empty));
        drop(reaper);
    }
}
