//! The background task that gives memory back. It never decides who is visible.
//!
//! Served requests come first: a slice is a tenth of a millisecond, and while requests come in it waits two whole
//! milliseconds after each, so it takes a twentieth of a core from them and still gets its share when they never stop.
//! (Not more: whenever the system takes the processor away in the middle of a slice, everybody else waits for the
//! lock.) An idle server is swept at full speed. While nothing can expire it sleeps until a request has been served
//! (which may have changed that); otherwise it wakes at most four times a second.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::clock::{self, Clock, Millis, Watcher};
use crate::storage::{Catalog, Collection, Slice};

const SLICE: Duration = Duration::from_micros(100);
const PAUSE_WHEN_BUSY: Duration = Duration::from_millis(2);
/// A server without a request for that long is idle. (Between two requests of a busy one there is room for a slice or two.)
const QUIET: Duration = Duration::from_millis(5);
/// A pass that takes that long is no longer made with pauses.
const PATIENCE: Duration = Duration::from_secs(30);
/// Slices of work on one collection before the next has its turn.
const TURN: u32 = 50;
const NAP: Duration = Duration::from_millis(250);

pub struct Reaper {
    catalog: Arc<Catalog>,
    clock: Clock,
    enabled: AtomicBool,
    /// Raised by the server for every request: how the reaper knows that somebody else wants the processor.
    served: AtomicU64,
    /// Set while nothing can expire and the next request is to stir the task.
    asleep: AtomicBool,
    signals: Arc<ReaperSignals>,
    passes: AtomicU64,
}

/// How fast a pass goes on.
struct Pace {
    begun: Instant,
    /// Requests served when it last looked, and since when there were no more.
    served: u64,
    quiet_since: Instant,
}

/// What the task listens to while it does nothing.
#[derive(Default)]
struct ReaperSignals {
    /// A request was served: perhaps something can expire now.
    work_found: Notify,
    /// Someone moved the clock or switched the reaper: no nap.
    woken: Notify,
}

/// `serverStatus.metrics.ttl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReaperStats {
    pub passes: u64,
    /// Ended and freed, by whomever.
    pub deleted: u64,
    /// Ended, not yet freed.
    pub pending: u64,
    /// How long the longest ended document has been waiting to be freed.
    pub lag_millis: u64,
}

// === impl Pace ===

impl Pace {
    fn new(served: u64) -> Self {
        let begun = clock::monotonic();
        Self {
            begun,
            served,
            quiet_since: begun,
        }
    }

    /// How long to leave the server alone, if it is busy.
    fn pause(&mut self, served: u64) -> Option<Duration> {
        let at = clock::monotonic();
        if std::mem::replace(&mut self.served, served) != served {
            self.quiet_since = at;
        }
        (at - self.quiet_since < QUIET).then(|| pause(at - self.begun))
    }
}

/// How long a busy server is left alone after a slice. Where more ends than is freed, the pauses get shorter, so that
/// memory stays bounded by what ends in half a minute or so.
fn pause(working_for: Duration) -> Duration {
    let patience = PATIENCE.saturating_sub(working_for);
    PAUSE_WHEN_BUSY.mul_f64(patience.as_secs_f64() / PATIENCE.as_secs_f64())
}

// === impl Reaper ===

impl Reaper {
    pub fn new(catalog: Arc<Catalog>, clock: Clock) -> Arc<Self> {
        let reaper = Arc::new(Self {
            catalog,
            clock: clock.clone(),
            enabled: AtomicBool::new(true),
            served: AtomicU64::new(0),
            asleep: AtomicBool::new(false),
            signals: Arc::default(),
            passes: AtomicU64::new(0),
        });
        let weak: Weak<Self> = Arc::downgrade(&reaper);
        clock.watch(weak);
        reaper
    }

    /// Runs as long as the server lives.
    pub async fn run(reaper: Weak<Self>) {
        while let Some(reaper) = reaper.upgrade() {
            let asleep = reaper.falls_asleep();
            if !asleep {
                reaper.pass().await;
            }
            // Only the signals are kept meanwhile, so that a server that nobody holds any more can go.
            let signals = Arc::clone(&reaper.signals);
            drop(reaper);
            if asleep {
                tokio::select! {
                    () = signals.work_found.notified() => {}
                    () = signals.woken.notified() => continue,
                }
            }
            tokio::select! {
                () = tokio::time::sleep(NAP) => {}
                () = signals.woken.notified() => {}
            }
        }
    }

    /// Whether there is nothing to do until a request has been served. Whoever makes something expire rings when he is
    /// done: either he finds this flag set, or what he has done is found here.
    fn falls_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        self.served.load(Ordering::SeqCst);
        if !self.is_enabled() || !self.catalog.can_expire() {
            return true;
        }
        self.asleep.store(false, Ordering::Relaxed);
        false
    }

    /// Frees everything that is due, a turn for each collection, so that a small one need not wait for a large one.
    async fn pass(&self) {
        self.pass_in_slices(SLICE).await;
    }

    /// A slice of no length is the least work that can be done at once.
    async fn pass_in_slices(&self, length: Duration) {
        let mut pace = Pace::new(self.served.load(Ordering::Relaxed));
        let mut worked = false;
        let mut unfinished = true;
        while unfinished && self.is_enabled() {
            unfinished = false;
            for collection in self.catalog.due(self.clock.now()) {
                for turn in 0..TURN {
                    if !self.is_enabled() {
                        return;
                    }
                    let slice = self.reap(&collection, length);
                    worked |= slice.removed > 0;
                    if !slice.more {
                        break;
                    }
                    unfinished |= turn + 1 == TURN;
                    tokio::task::yield_now().await;
                    if let Some(pause) = pace.pause(self.served.load(Ordering::Relaxed)) {
                        tokio::time::sleep(pause).await;
                    }
                }
            }
        }
        if worked {
            self.passes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One slice of work. A panic in it is the end of that collection at most, and not of the reaper: others have their turns.
    fn reap(&self, collection: &Collection, length: Duration) -> Slice {
        let until = clock::monotonic() + length;
        catch_unwind(AssertUnwindSafe(|| collection.reap(self.clock.now(), until))).unwrap_or_else(
            |_| {
                tracing::error!(collection = %collection.namespace(), "the reaper panicked; this is a bug");
                Slice::default()
            },
        )
    }

    pub fn enable(&self, on: bool) {
        self.enabled.store(on, Ordering::Relaxed);
        self.signals.woken.notify_one();
    }

    pub fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
    }

    /// A request has been served, and whatever it did is done.
    #[inline]
    pub fn note_request(&self) {
        self.served.fetch_add(1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::Relaxed) {
            self.signals.work_found.notify_one();
        }
    }

    pub fn stats(&self) -> ReaperStats {
        let now = self.clock.now();
        let mut stats = ReaperStats {
            passes: self.passes.load(Ordering::Relaxed),
            deleted: self.catalog.freed(),
            ..ReaperStats::default()
        };
        for collection in self.catalog.due(now) {
            let (ended, since) =
                collection.read_present(now, |view| (view.ended(), view.waiting_since()));
            stats.pending += ended.count;
            if let Some(since) = since {
                stats.lag_millis = stats.lag_millis.max(now.0.abs_diff(since.millis()));
            }
        }
        stats
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.signals.woken.notify_one();
    }
}

impl Watcher for Reaper {
    fn before_rewind(&self, now: Millis) {
        self.catalog.sweep(now);
    }

    fn moved(&self, back: bool) {
        if back {
            self.catalog.go_back();
        }
        self.signals.woken.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{Namespace, Options, Rules};
    use crate::ttl::DefaultTtl;

    /// Whoever has made something expire rings afterwards: before that it would be asked too early, and sleep on.
    #[test]
    fn it_sleeps_while_nothing_can_expire_and_is_stirred_by_what_was_done() {
        let catalog = Arc::new(Catalog::new());
        let reaper = Reaper::new(Arc::clone(&catalog), Clock::frozen(Millis(0)));
        let (collection, _) = catalog.get_or_create("db", "c").unwrap();
        let document = bson::doc! {"_id": 1, "ttl": 5}.to_vec().unwrap();
        collection
            .write(Millis(0), |w| w.insert(&document))
            .unwrap()
            .unwrap();
        assert!(reaper.falls_asleep());
        let set = |rules: &mut Rules<'_>| rules.set_default_ttl(DefaultTtl::Never, None);
        let set = collection.drain_then(Millis(0), clock::monotonic(), set);
        assert!(set.unwrap().is_ok());
        assert!(reaper.asleep.load(Ordering::Relaxed));
        reaper.note_request();
        assert!(!reaper.asleep.load(Ordering::Relaxed));
        assert!(!reaper.falls_asleep());
        // Somebody deletes it, and its memory is given back: nothing is left to end, years before it would have.
        collection
            .write(Millis(0), |w| {
                let (id, _) = w.view().all()[0];
                w.remove(id).unwrap();
            })
            .unwrap();
        while collection.reap(Millis(0), clock::monotonic()).more {}
        assert!(reaper.falls_asleep());
        reaper.note_request();
        reaper.enable(false);
        assert!(reaper.falls_asleep());
    }

    /// A large collection that is being swept does not keep the others waiting.
    #[test]
    fn collections_have_their_turns() {
        const DOCUMENTS: u64 = 5_000;
        let catalog = Arc::new(Catalog::new());
        let clock = Clock::frozen(Millis(0));
        let reaper = Reaper::new(Arc::clone(&catalog), clock.clone());
        for name in ["a", "b", "c"] {
            let (collection, _) = catalog.get_or_create("db", name).unwrap();
            for n in 0..DOCUMENTS.cast_signed() {
                let document = bson::doc! {"_id": n, "ttl": 1}.to_vec().unwrap();
                let added = collection.write(Millis(0), |w| w.insert(&document));
                added.unwrap().unwrap();
            }
            let set = |rules: &mut Rules<'_>| rules.set_default_ttl(DefaultTtl::Never, None);
            let set = collection.drain_then(Millis(0), clock::monotonic(), set);
            assert!(set.unwrap().is_ok());
        }
        clock.advance(1_000);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.unwrap().block_on(async {
            // The least work at a time: a turn is so many documents on any machine, fewer than there are.
            let pass = reaper.pass_in_slices(Duration::ZERO);
            let mut pass = std::pin::pin!(pass);
            let mut side_by_side = 0;
            loop {
                tokio::select! {
                    biased;
                    () = &mut pass => break,
                    () = tokio::task::yield_now() => {}
                }
                let left = catalog.collections().into_iter().map(|collection| {
                    collection
                        .read_present(Millis(0), |view| view.ended().count + view.totals().count)
                });
                let begun = left.filter(|left| (1..DOCUMENTS).contains(left)).count();
                side_by_side = side_by_side.max(begun);
            }
            assert_eq!(side_by_side, 3);
        });
        assert_eq!(catalog.freed(), 3 * DOCUMENTS);
        assert_eq!(
            reaper.stats(),
            ReaperStats {
                passes: 1,
                deleted: 3 * DOCUMENTS,
                ..ReaperStats::default()
            }
        );
    }

    #[tokio::test]
    async fn a_panic_costs_one_collection_and_not_the_reaper() {
        let catalog = Arc::new(Catalog::new());
        let clock = Clock::frozen(Millis(0));
        let reaper = Reaper::new(Arc::clone(&catalog), clock.clone());
        for name in ["a", "b"] {
            let ends = |rules: &mut Rules<'_>| rules.set_default_ttl(DefaultTtl::Seconds(1), None);
            let name = Namespace::new("db", name);
            let made = catalog.create(name, Options::default(), Millis(0), ends);
            let document = bson::doc! {"_id": 1}.to_vec().unwrap();
            let added = made.unwrap().write(Millis(0), |w| w.insert(&document));
            added.unwrap().unwrap();
        }
        catalog.get("db", "a").unwrap().unwrap().panic_half_way();
        clock.advance(1_000);
        reaper.pass().await;
        assert!(catalog.get("db", "a").is_err());
        assert_eq!((catalog.freed(), reaper.stats().pending), (1, 0));
    }

    #[test]
    fn the_longer_it_takes_the_shorter_the_pauses() {
        for (working_for, millis) in [(0, 2.0), (15, 1.0), (30, 0.0), (300, 0.0)] {
            let pause = pause(Duration::from_secs(working_for)).as_secs_f64() * 1e3;
            assert!((pause - millis).abs() < 1e-6, "{working_for} s: {pause} ms");
        }
    }
}
