//! The point in time at which a command reads.

use super::{Snapshot, TransactionId};
use crate::value::{ClusterTime, Millis};

/// The point at which a command reads: every document that it gets has passed the TTL rule at this `now`. A command with a
/// snapshot sees the documents of an earlier logical time, and a transaction also sees its own writes.
///
/// No read goes past its read point, so the code between a command and [`super::Collection::read`] need not know snapshots.
/// It is a few numbers: what they stand for is in the collections (`storage/versions/`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadPoint {
    now: Millis,
    /// The snapshot's logical time, or the end of time for the present.
    as_of: ClusterTime,
    transaction: TransactionId,
}

const PRESENT: ClusterTime = ClusterTime(u64::MAX);

// === impl ReadPoint ===

impl ReadPoint {
    /// Creates the read point at `now`, outside any transaction. A command creates one when it begins (`Call::read_point`)
    /// and uses it for all its reads. Creating another one from a moment would lose the snapshot. Only code that works on
    /// the collection itself, and not on what a client may see, does so ([`super::Collection::read_present`]).
    pub const fn at(now: Millis) -> Self {
        Self {
            now,
            as_of: PRESENT,
            transaction: TransactionId::NONE,
        }
    }

    /// Returns the read point of a write that is never part of a transaction: a schema change, the temporary collection of
    /// `$out`, a document of the server's own.
    pub const fn outside_transactions(now: Millis) -> Self {
        Self::at(now)
    }

    /// Returns the read point of a snapshot at `now`. The snapshot must stay open while it is used.
    pub fn of(snapshot: &Snapshot, now: Millis) -> Self {
        Self {
            now,
            as_of: snapshot.time(),
            transaction: TransactionId::NONE,
        }
    }

    /// Returns the same read point for a transaction, which sees its own writes.
    #[must_use]
    pub(super) const fn within(mut self, transaction: TransactionId) -> Self {
        self.transaction = transaction;
        self
    }

    /// Returns the same read point at another moment: for a getMore, which continues the reads of an earlier command, and
    /// for a command that has waited.
    #[must_use]
    pub const fn moved_to(mut self, now: Millis) -> Self {
        self.now = now;
        self
    }

    pub const fn now(self) -> Millis {
        self.now
    }

    /// Returns the logical time of the snapshot, or `None` for the present.
    #[inline]
    pub(super) fn as_of(self) -> Option<ClusterTime> {
        (self.as_of != PRESENT).then_some(self.as_of)
    }

    #[inline]
    pub(super) fn transaction(self) -> Option<TransactionId> {
        (self.transaction != TransactionId::NONE).then_some(self.transaction)
    }

    pub fn is_in_transaction(self) -> bool {
        self.transaction().is_some()
    }
}
