//! Logical time: the order of all writes of the server, whatever its clock does.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::value::{ClusterTime, Millis};

/// Gives out cluster times. Each is later than all before it, and later than all that clients have brought.
#[derive(Debug, Default)]
pub struct LogicalClock(AtomicU64);

// === impl LogicalClock ===

impl LogicalClock {
    /// Returns the time of the next write, at `now`: the first one of that second, or the one after the latest.
    pub fn tick(&self, now: Millis) -> ClusterTime {
        let first = ClusterTime::first_of(now).0;
        let next = |latest: u64| Some(first.max(latest.saturating_add(1)));
        let latest = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, next)
            .unwrap_or_else(|latest| latest);
        ClusterTime(first.max(latest.saturating_add(1)))
    }

    /// Returns the time of the latest write, or the latest time that a client has brought.
    pub fn latest(&self) -> ClusterTime {
        ClusterTime(self.0.load(Ordering::SeqCst))
    }

    /// Goes forward to a time that a client has brought.
    pub fn advance_to(&self, time: ClusterTime) {
        self.0.fetch_max(time.0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_only_grow() {
        let clock = LogicalClock::default();
        let (early, late) = (Millis(5_999), Millis(6_000));
        let times = [
            clock.tick(early),
            clock.tick(early),
            clock.tick(late),
            // The clock was set back.
            clock.tick(early),
        ];
        assert_eq!(
            times.map(|time| time.parts()),
            [(5, 1), (5, 2), (6, 1), (6, 2)]
        );
        assert_eq!(clock.latest(), times[3]);
        clock.advance_to(ClusterTime::from_parts(9, 3));
        clock.advance_to(times[0]);
        assert_eq!(clock.tick(late).parts(), (9, 4));
    }
}
