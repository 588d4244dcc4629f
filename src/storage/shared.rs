//! What all collections of a server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::snapshots::Snapshots;
use super::transaction::Transactions;
use super::{ChangeLog, LogOp, LogSubject, LogicalClock};
use crate::value::Millis;

/// What all collections of a server share. Every collection has a reference to it.
#[derive(Debug, Default)]
pub struct Shared {
    /// How many expired documents were freed: by the reaper, by a change of rules, or by a write that needed their place.
    freed: AtomicU64,
    /// The order of all writes.
    pub time: LogicalClock,
    /// What was written, for those who follow it.
    pub log: ChangeLog,
    pub(super) snapshots: Snapshots,
    pub(super) transactions: Transactions,
}

// === impl Shared ===

impl Shared {
    /// Counts an expired document that was freed.
    pub(super) fn count_freed(&self) {
        self.freed.fetch_add(1, Ordering::Relaxed);
    }

    /// Tells the log of changes about a change of the schema. Called under the lock that the change needs.
    pub(super) fn record(
        &self,
        now: Millis,
        subject: &Arc<LogSubject>,
        op: impl FnOnce() -> LogOp,
    ) {
        if subject.is_told() && self.log.note_write(now) {
            self.log.append(&self.time, now, subject, op());
        }
    }

    /// Returns how many expired documents have been freed since the start.
    pub fn freed(&self) -> u64 {
        self.freed.load(Ordering::Relaxed)
    }
}
