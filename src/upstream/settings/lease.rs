//! How long the known settings may be used.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::clock::monotonic;

/// The right to use what was read from the cluster, for a limited time.
///
/// It counts from the *sending* of the request that brought the settings: whoever changes a setting waits for this long
/// after the change was announced, and the announcement came later than any request that did not see it.
pub(super) struct Lease {
    /// Moments are counted in nanoseconds from here, so that one fits an atomic.
    start: Instant,
    length: Duration,
    /// The first moment without the lease. It only grows. Zero: it was never held.
    until: AtomicU64,
    /// It is not held any more and never will be.
    given_up: AtomicBool,
}

// === impl Lease ===

impl Lease {
    pub fn new(length: Duration) -> Self {
        Self {
            // One nanosecond ago, so that zero is in the past.
            start: monotonic() - Duration::from_nanos(1),
            length,
            until: AtomicU64::new(0),
            given_up: AtomicBool::new(false),
        }
    }

    pub fn length(&self) -> Duration {
        self.length
    }

    /// Returns the current moment, in the unit of [`Lease::after`].
    #[inline]
    pub fn now(&self) -> u64 {
        self.moment(monotonic())
    }

    fn moment(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.start);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns the end of a lease whose request was sent at this time.
    pub fn after(&self, sent: Instant) -> u64 {
        self.moment(sent + self.length)
    }

    /// Prolongs the lease: a request that was sent at this time has shown that the known settings were current.
    pub fn renew(&self, sent: Instant) {
        self.until.fetch_max(self.after(sent), Ordering::AcqRel);
    }

    /// Returns whether it is held at this moment.
    #[inline]
    pub fn holds(&self, now: u64) -> bool {
        now < self.until.load(Ordering::Acquire) && !self.is_given_up()
    }

    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
    }

    #[inline]
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_from_the_sending_and_only_grows() {
        let lease = Lease::new(Duration::from_secs(5));
        let sent = monotonic();
        assert!(!lease.holds(lease.now()));
        lease.renew(sent);
        assert!(lease.holds(lease.now()));
        let end = lease.after(sent);
        assert!(lease.holds(end - 1) && !lease.holds(end));
        // The answer to an earlier request arrives late.
        lease.renew(sent - Duration::from_secs(1));
        assert!(lease.holds(end - 1) && !lease.holds(end));
    }
}
