//! What all collections of a server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::expiry::ExpiryEvents;
use super::snapshots::Snapshots;
use super::transaction::Transactions;
use super::versions::ToldWrite;
use super::{ChangeLog, LogOp, LogSubject, LogTransaction, LogicalClock, RecordId};
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
    pub(super) snapshots: Snapshots,
    pub(super) transactions: Transactions,
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
            self.log.append(&self.time, now, subject, op());
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

    /// Tells the log about the changes of a transaction that commits, in the order of their numbers. Called under the locks
    /// of all its collections.
    pub(super) fn record_all(
        &self,
        now: Millis,
        mut changes: Vec<NumberedChange>,
        transaction: impl FnOnce() -> LogTransaction,
    ) {
        if !self.log.note_write(now) || changes.is_empty() {
            return;
        }
        changes.sort_by_key(|change| change.number);
        let changes = changes
            .into_iter()
            .map(|change| (change.subject, change.op));
        self.log.append_all(&self.time, now, transaction(), changes);
    }

    /// Returns how many expired documents have been freed since the start.
    pub fn freed(&self) -> u64 {
        self.freed.load(Ordering::Relaxed)
    }
}
