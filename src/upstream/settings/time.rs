//! The time that all Sundowns in front of a cluster share: the clock of the primary that holds the settings.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::{Clock, Millis};

/// The number of measurements that are compared. The one with the shortest round trip tells the most.
const KEPT: usize = 8;
/// A clock that differs from the system's by more than this was moved by hand.
const MOVED: i64 = 20;

/// The local clock, corrected by what each heartbeat says about the cluster's clock.
///
/// A test that injects a clock of its own (frozen or moved) gives the same one to all Sundowns. It is then not corrected.
pub(super) struct PrimaryClock {
    clock: Clock,
    /// Milliseconds to add to the local clock.
    offset: AtomicI64,
    /// Microseconds by which the offset may be wrong: half a round trip.
    error: AtomicU64,
    /// Microseconds that the last heartbeat took.
    round_trip: AtomicU64,
    /// The latest time that was given to anyone. After a failover the new primary's clock may be behind, but time must not
    /// go back: documents that ended would return.
    high_water: AtomicI64,
    measured: Mutex<VecDeque<Measured>>,
}

/// One comparison of the two clocks.
#[derive(Debug, Clone, Copy)]
struct Measured {
    offset: i64,
    round_trip: Duration,
}

// === impl PrimaryClock ===

impl PrimaryClock {
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            offset: AtomicI64::new(0),
            error: AtomicU64::new(0),
            round_trip: AtomicU64::new(0),
            high_water: AtomicI64::new(i64::MIN),
            measured: Mutex::default(),
        }
    }

    #[inline]
    pub fn now(&self) -> Millis {
        let now = self
            .clock
            .now()
            .0
            .saturating_add(self.offset.load(Ordering::Acquire));
        let mark = self.high_water.load(Ordering::Acquire);
        if now <= mark {
            return Millis(mark);
        }
        Millis(self.high_water.fetch_max(now, Ordering::AcqRel).max(now))
    }

    /// Returns how long the last heartbeat took.
    pub fn round_trip(&self) -> Duration {
        Duration::from_micros(self.round_trip.load(Ordering::Acquire))
    }

    /// The local time, to be taken when a measurement begins.
    pub fn local(&self) -> Millis {
        self.clock.now()
    }

    /// Returns whether time stands still, so that waiting for it makes no sense.
    pub fn is_frozen(&self) -> bool {
        self.clock.status().frozen
    }

    fn is_injected(&self) -> bool {
        let status = self.clock.status();
        status.frozen || status.offset_millis.abs() > MOVED
    }

    /// Takes the cluster's time from the reply to a heartbeat that was sent at `sent`, in local time, and took this long.
    pub fn measure(&self, cluster: Millis, sent: Millis, round_trip: Duration) {
        let micros = u64::try_from(round_trip.as_micros()).unwrap_or(u64::MAX);
        self.round_trip.store(micros, Ordering::Release);
        if self.is_injected() {
            self.measured.lock().clear();
            self.offset.store(0, Ordering::Release);
            self.error.store(0, Ordering::Release);
            return;
        }
        let half = i64::try_from(round_trip.as_millis() / 2).unwrap_or(0);
        let offset = cluster.0.saturating_sub(sent.0.saturating_add(half));
        let mut measured = self.measured.lock();
        let half_micros = |one: &Measured| one.round_trip.as_micros() as i64 / 2 + 1_000;
        // The clocks cannot drift apart much between a few heartbeats: an offset that contradicts the known ones comes from
        // another primary or from a clock that was set.
        if measured.iter().any(|known| {
            (known.offset - offset).abs() * 1_000 > 2 * (half_micros(known) + half * 1_000)
        }) {
            measured.clear();
        }
        if measured.len() == KEPT {
            measured.pop_front();
        }
        measured.push_back(Measured { offset, round_trip });
        if let Some(best) = measured.iter().min_by_key(|one| one.round_trip) {
            self.offset.store(best.offset, Ordering::Release);
            let error = u64::try_from(half_micros(best)).unwrap_or(0);
            self.error.store(error, Ordering::Release);
        }
    }

    /// Returns the milliseconds that are added to the local clock.
    pub fn offset(&self) -> i64 {
        self.offset.load(Ordering::Acquire)
    }

    /// Returns by how much the time may be wrong.
    pub fn error(&self) -> Duration {
        Duration::from_micros(self.error.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(2);

    #[test]
    fn an_injected_clock_is_not_corrected() {
        let time = PrimaryClock::new(Clock::frozen(Millis(1_000)));
        time.measure(Millis(9_000), Millis(1_000), SHORT);
        assert_eq!((time.now(), time.offset()), (Millis(1_000), 0));
    }

    #[test]
    fn the_shortest_round_trip_tells_the_offset() {
        let time = PrimaryClock::new(Clock::system());
        let sent = time.local();
        time.measure(Millis(sent.0 + 501), sent, SHORT);
        assert_eq!(time.offset(), 500);
        assert_eq!(time.error(), SHORT);
        time.measure(Millis(sent.0 + 600), sent, Duration::from_millis(150));
        assert_eq!(time.offset(), 500, "the long one knows less");
        assert!(time.now().0 >= sent.0 + 500);
    }

    #[test]
    fn another_primary_has_another_clock_but_time_does_not_go_back() {
        let time = PrimaryClock::new(Clock::system());
        let sent = time.local();
        time.measure(Millis(sent.0 + 60_001), sent, SHORT);
        let before = time.now();
        time.measure(Millis(sent.0 + 1), sent, Duration::from_millis(3));
        assert_eq!(time.offset(), 0);
        assert!(time.now() >= before);
    }
}
