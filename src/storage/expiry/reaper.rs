//! The background task that frees the memory of expired documents. It never decides what is visible.
//!
//! Requests come first. A slice takes a tenth of a millisecond, and while requests arrive the reaper waits two milliseconds
//! after each slice. So it takes a twentieth of a core from them, and still makes progress when they never stop. (Slices
//! are not longer, because when the system preempts the thread in the middle of one, all other tasks wait for the lock.) On
//! an idle server the reaper runs at full speed. While nothing can expire, it sleeps until a request has been served, which
//! may have changed that. Otherwise it wakes at most four times a second.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::clock::{self, Clock, Millis, Watcher};
use crate::storage::{Catalog, Collection, Slice};

const SLICE: Duration = Duration::from_micros(100);
const PAUSE_WHEN_BUSY: Duration = Duration::from_millis(2);
/// A server without a request for this long is idle. (Between two requests of a busy server there is time for a slice or
/// two.)
const QUIET: Duration = Duration::from_millis(5);
/// A pass that has taken this long continues without pauses.
const PATIENCE: Duration = Duration::from_secs(30);
/// Slices of work on one collection before the next collection gets its turn.
const TURN: u32 = 50;
const NAP: Duration = Duration::from_millis(250);
/// The nap before an end that is to be told at its instant.
const SHORTEST_NAP: Duration = Duration::from_millis(1);

/// Runs the passes of the reaper, and reports on them.
pub struct Reaper {
    catalog: Arc<Catalog>,
    clock: Clock,
    enabled: AtomicBool,
    /// Counts the requests served. A change tells the reaper that requests need the processor.
    served: AtomicU64,
    /// Set while nothing can expire, so that the next request wakes the task.
    asleep: AtomicBool,
    signals: Arc<ReaperSignals>,
    passes: AtomicU64,
}

/// The pace of a pass.
struct ReapPace {
    begun: Instant,
    /// The requests served at the last check, and the time since which there were no more.
    served: u64,
    quiet_since: Instant,
}

/// The signals that the task waits for between passes.
#[derive(Default)]
struct ReaperSignals {
    /// A request was served, so a document may be able to expire now.
    work_found: Notify,
    /// A client or a test moved the clock or switched the reaper on or off: the nap ends.
    woken: Notify,
}

/// The numbers of `serverStatus.metrics.ttl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReaperStats {
    pub passes: u64,
    /// Expired documents that were freed, by the reaper or by commands.
    pub deleted: u64,
    /// Expired documents that are not freed yet.
    pub pending: u64,
    /// How long the oldest of them has been waiting to be freed.
    pub lag_millis: u64,
}

// === impl ReapPace ===

impl ReapPace {
    fn new(served: u64) -> Self {
        let begun = clock::monotonic();
        Self {
            begun,
            served,
            quiet_since: begun,
        }
    }

    /// Returns how long to pause for requests, if the server is busy.
    fn pause(&mut self, served: u64) -> Option<Duration> {
        let at = clock::monotonic();
        if std::mem::replace(&mut self.served, served) != served {
            self.quiet_since = at;
        }
        (at - self.quiet_since < QUIET).then(|| pause(at - self.begun))
    }
}

/// Returns how long to pause after a slice on a busy server. If documents expire faster than they are freed, the pauses get
/// shorter, so memory stays bounded by the documents that expire in about half a minute.
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

    /// Runs as long as the server exists.
    pub async fn run(reaper: Weak<Self>) {
        while let Some(reaper) = reaper.upgrade() {
            let asleep = reaper.falls_asleep();
            let lowered = reaper.catalog.shared().expiry_events.lowered();
            if !asleep {
                reaper.catalog.tell_ended(reaper.clock.now());
                reaper.pass().await;
            }
            let now = reaper.clock.now();
            let next_event = reaper.catalog.until_told(now).unwrap_or(NAP);
            // Between passes the task keeps only the signals, so that a server without other references can be dropped.
            let signals = Arc::clone(&reaper.signals);
            drop(reaper);
            if asleep {
                tokio::select! {
                    () = signals.work_found.notified() => {}
                    () = signals.woken.notified() => continue,
                }
            }
            tokio::select! {
                () = tokio::time::sleep(NAP.min(next_event.max(SHORTEST_NAP))) => {}
                () = lowered.notified() => {}
                () = signals.woken.notified() => {}
            }
        }
    }

    /// Returns whether there is nothing to do until a request has been served. A command that lets documents expire calls
    /// [`Reaper::note_request`] when it is done: either that call finds this flag set, or the check here finds the effect
    /// of the command.
    fn falls_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        self.served.load(Ordering::SeqCst);
        let is_needed = self.is_enabled() || self.catalog.shared().expiry_events.is_instant();
        if !is_needed || !self.catalog.can_expire() {
            return true;
        }
        self.asleep.store(false, Ordering::Relaxed);
        false
    }

    /// Frees all expired documents. Collections take turns, so that a small one need not wait for a large one.
    async fn pass(&self) {
        self.pass_in_slices(SLICE).await;
    }

    /// Runs a pass in slices of that length. A slice of length zero does the least work possible.
    async fn pass_in_slices(&self, length: Duration) {
        let mut pace = ReapPace::new(self.served.load(Ordering::Relaxed));
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

    /// Runs one slice of work. A panic in it damages at most that collection: the reaper goes on with the others.
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

    /// Notes that a request has been served. Call it after the request has taken effect.
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
        self.catalog.tell_ended(now);
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
    use crate::storage::{CollectionOptions, Namespace, Rules};
    use crate::ttl::DefaultTtl;

    /// The request is noted after it has taken effect. If it were noted earlier, the reaper would check too early and sleep
    /// on.
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
        // A client deletes the document, and its memory is given back. Nothing is left that can expire, long before its
        // end.
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

    /// A large collection does not make the others wait.
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
            // The least work at a time: a turn frees the same number of documents on any machine, fewer than there are.
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
            let made = catalog.create(name, CollectionOptions::default(), Millis(0), ends);
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
