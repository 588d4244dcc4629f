//! What all collections of a server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::change_log::LogTurn;
use super::expiry::ExpiryEvents;
use super::namespace_locks::NamespaceLocks;
use super::snapshots::Snapshots;
use super::transaction::Transactions;
use super::versions::ToldWrite;
use super::{ChangeLog, LogOp, LogSubject, LogicalClock, RecordId};
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
    /// When the ends of documents are told.
    pub expiry_events: ExpiryEvents,
    /// Whether a query that would read a whole collection fails. Written by the parameter `notablescan`.
    pub refuses_scans: AtomicBool,
    pub(super) snapshots: Snapshots,
    pub(super) transactions: Transactions,
    pub(super) namespace_locks: NamespaceLocks,
}

/// A change of a transaction, with its number among the writes of all transactions.
pub(super) struct NumberedChange {
    pub number: u64,
    pub subject: Arc<LogSubject>,
    pub op: LogOp,
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
            let op = op();
            self.turn(now).append(subject, op);
        }
    }

    /// Returns what the log will be told about a write of a transaction when it commits. `None` if nobody follows the log.
    pub(super) fn numbered(
        &self,
        record: Option<RecordId>,
        op: impl FnOnce() -> LogOp,
    ) -> Option<ToldWrite> {
        self.log.is_recording().then(|| ToldWrite {
            number: self.transactions.next_write(),
            record,
            op: op(),
        })
    }

    /// Gives out the turn and the logical time of a write that the log is told about.
    pub(super) fn turn(&self, now: Millis) -> LogTurn<'_> {
        self.log.turn(&self.time, now)
    }

    /// Returns how many expired documents have been freed since the start.
    pub fn freed(&self) -> u64 {
        self.freed.load(Ordering::Relaxed)
    }
}
