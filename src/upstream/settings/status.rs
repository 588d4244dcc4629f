//! What serverStatus shows about the settings.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::RuleSettings;

/// The state of the settings and of the sweeper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsStatus {
    /// The settings may be used now.
    pub has_lease: bool,
    /// Milliseconds that are added to the local clock.
    pub clock_offset: i64,
    /// By how much the time may be wrong.
    pub clock_error: Duration,
    /// How long the last heartbeat took.
    pub round_trip: Duration,
    /// The other Sundowns in front of the cluster.
    pub others: usize,
    /// The number of collections with settings.
    pub collections: usize,
    pub is_sweeper: bool,
    pub passes: u64,
    /// Documents that this Sundown has deleted after their end.
    pub swept: u64,
    /// Documents from before the default that this Sundown has stamped.
    pub stamped: u64,
    /// Updates that were sent without predicate, and those of them that failed and were sent again.
    pub unfiltered: u64,
    pub unfiltered_failed: u64,
}

// === impl RuleSettings ===

impl RuleSettings {
    pub fn status(&self) -> SettingsStatus {
        let inner = &*self.0;
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        // Read before the rest: a lock that is taken in the expression below would be held until its end.
        let others = inner.others.lock().count();
        let collections = inner.copy.read().settings.len();
        SettingsStatus {
            has_lease: inner.lease.holds(inner.lease.now()),
            clock_offset: inner.time.offset(),
            clock_error: inner.time.error(),
            round_trip: inner.time.round_trip(),
            others,
            collections,
            is_sweeper: inner.is_sweeper(),
            passes: count(&inner.sweeper.passes),
            swept: count(&inner.sweeper.deleted),
            stamped: count(&inner.sweeper.stamped),
            unfiltered: count(&inner.writes.unfiltered),
            unfiltered_failed: count(&inner.writes.failed),
        }
    }

    /// Switches the sweeper on or off (`setParameter ttlMonitorEnabled`).
    pub fn enable_sweeping(&self, enabled: bool) {
        self.0.sweeper.enabled.store(enabled, Ordering::Relaxed);
    }
}
