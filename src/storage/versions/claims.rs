//! The records and keys that transactions have written to and that nobody else may write to meanwhile.

use ahash::AHashMap;

use super::TransactionId;
use crate::storage::RecordId;
use crate::storage::index::{IndexNumber, KeyBytes};

/// The claims of all transactions in a collection.
#[derive(Default)]
pub(in crate::storage) struct Claims {
    records: AHashMap<RecordId, TransactionId>,
    /// The `_id`s of added documents, by the hash of their key. Two `_id`s with one hash would be a needless conflict.
    ids: AHashMap<u64, TransactionId>,
    /// The keys in unique indexes, with the record that has each.
    keys: AHashMap<(IndexNumber, KeyBytes), (TransactionId, RecordId)>,
}

// === impl Claims ===

impl Claims {
    pub fn record(&self, id: RecordId) -> Option<TransactionId> {
        self.records.get(&id).copied()
    }

    pub fn id(&self, hash: u64) -> Option<TransactionId> {
        self.ids.get(&hash).copied()
    }

    pub fn key(&self, index: IndexNumber, key: &KeyBytes) -> Option<(TransactionId, RecordId)> {
        // The map owns its keys, so a lookup needs one.
        self.keys.get(&(index, key.clone())).copied()
    }

    pub fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    pub fn claim_record(&mut self, id: RecordId, by: TransactionId) {
        self.records.insert(id, by);
    }

    pub fn claim_id(&mut self, hash: u64, by: TransactionId) {
        self.ids.insert(hash, by);
    }

    pub fn claim_key(
        &mut self,
        index: IndexNumber,
        key: &KeyBytes,
        by: TransactionId,
        holder: RecordId,
    ) {
        self.keys.insert((index, key.clone()), (by, holder));
    }

    pub fn release(&mut self, transaction: TransactionId) {
        self.records.retain(|_, by| *by != transaction);
        self.ids.retain(|_, by| *by != transaction);
        self.keys.retain(|_, (by, _)| *by != transaction);
    }
}
