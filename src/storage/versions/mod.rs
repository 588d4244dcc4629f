//! What a collection holds besides its present documents: earlier versions that open snapshots still need, and the writes of
//! transactions that have not committed.
//!
//! A transaction writes into a buffer of its own here ([`own`]). Nothing of it is among the documents before it commits, so
//! an abort only throws the buffer away. While it lasts, the records and unique keys that it wrote to are claimed
//! ([`claims`]): another transaction that wants one fails at once, and any other writer waits.
//!
//! Earlier versions are kept by record ([`earlier`]). [`past`] puts it all together: what a reader with a snapshot sees of a
//! record. A collection that no transaction writes to and no snapshot needs has none of this.

mod claims;
mod earlier;
mod own;
mod past;

use ahash::AHashMap;

pub(super) use claims::Claims;
pub(super) use earlier::{Earlier, EarlierVersion};
pub(super) use own::{OwnWrite, OwnWrites, ToldWrite};
pub(super) use past::Past;

use crate::wait::Signal;

/// The number of a transaction. Numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(pub(super) u64);

/// The earlier versions and the pending writes of one collection. Guarded by its lock.
#[derive(Default)]
pub(super) struct Versions {
    pub earlier: Earlier,
    pub own: AHashMap<TransactionId, OwnWrites>,
    pub claims: Claims,
    /// Given when a transaction ends and its claims with it.
    pub released: Signal,
}

// === impl TransactionId ===

impl TransactionId {
    /// No transaction.
    pub(super) const NONE: Self = Self(0);
}

// === impl Versions ===

impl Versions {
    pub fn is_empty(&self) -> bool {
        self.earlier.is_empty() && self.own.is_empty()
    }

    /// Takes the writes of a transaction out, and releases its claims.
    pub fn take(&mut self, transaction: TransactionId) -> Option<OwnWrites> {
        let mut own = self.own.remove(&transaction)?;
        self.claims.release(transaction, &mut own);
        self.released.give();
        Some(own)
    }
}

#[cfg(test)]
mod tests;
