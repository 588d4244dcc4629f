//! The only file that asks the operating system for the time.
//!
//! Everything that expires, is stamped or shows a time reads it from one [`Clock`], which a test can freeze, set and
//! advance. The clock reads the system time through a high-water mark. When the system time steps back, server time stands
//! still until the system time has caught up, so only a test can make server time go back. Before such a step, the
//! [`Watcher`]s remove everything that has expired, so that going back revives nothing. Timeouts and idle times use
//! [`monotonic`], which no test can move.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

pub use crate::value::Millis;

/// The server's clock. Clones share it.
#[derive(Clone)]
pub struct Clock(Arc<ClockState>);

struct ClockState {
    /// A [`ClockMode`]. Written under `moving`.
    mode: AtomicI64,
    /// The latest system time that a reader was given, without any offset. It only grows: a reader that a step back
    /// overtakes in the middle of its work must not bring the old time back.
    high_water: AtomicI64,
    /// Set from just before time is lowered until all watchers know about it. Written under `moving`.
    going_back: AtomicBool,
    /// The two fields of a [`Rewind`]: the current one while `going_back` is set, otherwise the last one. Written under
    /// `moving`, before that flag.
    rewinds: AtomicU64,
    rewound_from: AtomicI64,
    /// Allows one move at a time, and guards the list of watchers.
    moving: Mutex<Vec<Weak<dyn Watcher>>>,
}

/// A component that must act when time is moved by hand.
pub trait Watcher: Send + Sync {
    /// Time is about to go back and stands still at `now` meanwhile: remove everything that has ended by then, for good.
    fn before_rewind(&self, now: Millis);
    /// Time was moved. `back` says in which direction.
    fn moved(&self, back: bool);
}

/// A step back in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewind {
    /// The first one is 1.
    pub number: u64,
    /// The time before the step.
    pub from: Millis,
}

/// What `timeTravel` reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockStatus {
    pub now: Millis,
    pub frozen: bool,
    pub offset_millis: i64,
}

/// How time passes. It is encoded in one word, so that a reader never sees half of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClockMode {
    /// Time stands still at this moment.
    Frozen(i64),
    /// Time runs with the system time plus this offset.
    Running(i64),
}

/// The largest distance from 1970 to which a clock can be set: seventy million years.
const FAR: i64 = i64::MAX / 4;

/// Returns the time for timeouts, idle times and measurements. No test can move it.
#[allow(clippy::disallowed_methods)] // the one place that may
pub fn monotonic() -> Instant {
    Instant::now()
}

#[allow(clippy::disallowed_methods)] // the one place that may
fn system_millis() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

// === impl Clock ===

impl Clock {
    /// Creates a clock that follows the operating system's clock until it is moved.
    pub fn system() -> Self {
        Self(Arc::new(ClockState {
            mode: AtomicI64::new(ClockMode::Running(0).encode()),
            high_water: AtomicI64::new(i64::MIN),
            going_back: AtomicBool::new(false),
            rewinds: AtomicU64::new(0),
            rewound_from: AtomicI64::new(i64::MIN),
            moving: Mutex::new(Vec::new()),
        }))
    }

    /// Creates a clock that stands still at `at` until it is moved.
    pub fn frozen(at: Millis) -> Self {
        let clock = Self::system();
        clock.set_mode(ClockMode::Frozen(at.0.clamp(-FAR, FAR)));
        clock
    }

    pub fn now(&self) -> Millis {
        Millis(match self.mode() {
            ClockMode::Frozen(at) => at,
            ClockMode::Running(offset) => self.steady().saturating_add(offset),
        })
    }

    /// Returns the system time, which never goes back here.
    fn steady(&self) -> i64 {
        let high_water = &self.0.high_water;
        let now = system_millis();
        // The mark is nearly always this very millisecond: read it first, and write only to raise it.
        let mark = high_water.load(Ordering::Acquire);
        if now <= mark {
            return mark;
        }
        high_water.fetch_max(now, Ordering::AcqRel).max(now)
    }

    fn mode(&self) -> ClockMode {
        ClockMode::decode(self.0.mode.load(Ordering::Acquire))
    }

    fn set_mode(&self, mode: ClockMode) {
        self.0.mode.store(mode.encode(), Ordering::Release);
    }

    /// Returns whether time is going back and some watchers do not know it yet. Conclusions from before are then no longer
    /// valid.
    #[inline]
    pub fn is_going_back(&self) -> bool {
        self.0.going_back.load(Ordering::Acquire)
    }

    /// Returns the current step back. For callers that have seen [`Clock::is_going_back`].
    #[cold]
    pub fn rewind(&self) -> Rewind {
        Rewind {
            number: self.0.rewinds.load(Ordering::Acquire),
            from: Millis(self.0.rewound_from.load(Ordering::Acquire)),
        }
    }

    pub fn status(&self) -> ClockStatus {
        let now = self.now();
        ClockStatus {
            now,
            frozen: matches!(self.mode(), ClockMode::Frozen(_)),
            offset_millis: now.0.saturating_sub(system_millis()),
        }
    }

    /// Moves time by this many milliseconds (back, if negative). Frozen time stays frozen.
    pub fn advance(&self, millis: i64) {
        self.shift(|now| now.saturating_add(millis), |frozen| frozen);
    }

    /// Sets time to `to`. It continues from there, unless it is frozen.
    pub fn set(&self, to: Millis) {
        self.shift(|_| to.0, |frozen| frozen);
    }

    /// Freezes time at its current value.
    pub fn freeze(&self) {
        self.shift(|now| now, |_| true);
    }

    /// Lets time run on from where it was frozen.
    pub fn unfreeze(&self) {
        self.shift(|now| now, |_| false);
    }

    /// Returns to the operating system's time, running.
    pub fn reset(&self) {
        self.shift(|_| self.steady(), |_| false);
    }

    /// Notifies `watcher` of every move from now on, as long as it lives.
    pub fn watch(&self, watcher: Weak<dyn Watcher>) {
        let mut watchers = self.0.moving.lock();
        watchers.retain(|known| known.strong_count() > 0);
        watchers.push(watcher);
    }

    fn shift(&self, target: impl FnOnce(i64) -> i64, frozen_after: impl FnOnce(bool) -> bool) {
        let inner = &*self.0;
        let watchers = inner.moving.lock();
        let was_frozen = matches!(self.mode(), ClockMode::Frozen(_));
        let now = self.now();
        // Time stands still while the watchers work, so that nothing can expire between their work and the move.
        self.set_mode(ClockMode::Frozen(now.0));
        let to = target(now.0).clamp(-FAR, FAR);
        let back = to < now.0;
        let live: Vec<_> = watchers.iter().filter_map(Weak::upgrade).collect();
        if back {
            for watcher in &live {
                watcher.before_rewind(now);
            }
            inner.rewound_from.store(now.0, Ordering::Release);
            inner.rewinds.fetch_add(1, Ordering::AcqRel);
            inner.going_back.store(true, Ordering::SeqCst);
        }
        // Time continues only when all watchers know about the move. Until then it must not come near the moment that it
        // has left.
        self.set_mode(ClockMode::Frozen(to));
        for watcher in &live {
            watcher.moved(back);
        }
        inner.going_back.store(false, Ordering::Release);
        if !frozen_after(was_frozen) {
            self.set_mode(ClockMode::Running(to - self.steady()));
        }
    }
}

// === impl ClockMode ===

impl ClockMode {
    fn encode(self) -> i64 {
        match self {
            Self::Frozen(at) => at << 1 | 1,
            Self::Running(offset) => offset << 1,
        }
    }

    fn decode(word: i64) -> Self {
        match word & 1 {
            1 => Self::Frozen(word >> 1),
            _ => Self::Running(word >> 1),
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.status().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frozen_time_moves_only_when_it_is_set() {
        let clock = Clock::frozen(Millis(1_000));
        assert_eq!(clock.now(), Millis(1_000));
        clock.advance(500);
        assert_eq!(clock.now(), Millis(1_500));
        clock.set(Millis(10));
        assert_eq!(clock.status().now, Millis(10));
        assert!(clock.status().frozen);
    }

    #[test]
    fn running_time_never_goes_back_by_itself_but_can_be_moved() {
        let clock = Clock::system();
        let first = clock.now();
        clock.advance(3_600_000);
        assert!(clock.now().0 >= first.0 + 3_600_000);
        assert!(!clock.status().frozen);
        clock.reset();
        assert!(clock.now().0 < first.0 + 3_600_000);
    }

    /// A reader that had read the time before the move, and gets it only now, must not keep time from going back.
    #[test]
    fn time_goes_back_while_others_read_it() {
        let clock = Clock::system();
        let asking: Vec<_> = (0..2)
            .map(|_| {
                let clock = clock.clone();
                std::thread::spawn(move || {
                    for _ in 0..200_000 {
                        clock.now();
                    }
                })
            })
            .collect();
        let hour = 3_600_000;
        while asking.iter().any(|thread| !thread.is_finished()) {
            let before = clock.now().0;
            clock.advance(hour);
            clock.advance(-hour);
            let after = clock.now().0;
            assert!(
                (before..before + hour / 2).contains(&after),
                "{before} {after}"
            );
        }
        for thread in asking {
            thread.join().unwrap();
        }
    }

    #[test]
    fn the_clock_mode_fits_into_one_word() {
        for moment in [0, 1, -1, 1_893_456_000_000, FAR, -FAR, 2 * FAR, -2 * FAR] {
            for mode in [ClockMode::Frozen(moment), ClockMode::Running(moment)] {
                assert_eq!(ClockMode::decode(mode.encode()), mode);
            }
        }
        let clock = Clock::frozen(Millis(0));
        for (to, stands) in [(i64::MAX, FAR), (i64::MIN, -FAR)] {
            clock.set(Millis(to));
            assert_eq!(clock.now(), Millis(stands));
            clock.unfreeze();
            assert!(clock.now().0.abs_diff(stands) < 3_600_000);
            clock.freeze();
        }
    }

    #[test]
    fn watchers_are_notified_before_time_goes_back() {
        struct Heard(Clock, Mutex<Vec<(Millis, Millis)>>);
        impl Watcher for Heard {
            fn before_rewind(&self, now: Millis) {
                self.1.lock().push((now, self.0.now()));
            }
            fn moved(&self, _: bool) {}
        }
        let clock = Clock::frozen(Millis(100));
        let heard = Arc::new(Heard(clock.clone(), Mutex::default()));
        let weak: Weak<Heard> = Arc::downgrade(&heard);
        clock.watch(weak);
        clock.advance(50);
        clock.set(Millis(20));
        assert_eq!(*heard.1.lock(), [(Millis(150), Millis(150))]);
    }
}
