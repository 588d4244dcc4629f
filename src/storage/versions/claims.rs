//! The records and keys that transactions have written to and that nobody else may write to meanwhile.

use std::hash::Hash;

use ahash::AHashMap;

use super::{OwnWrites, TransactionId};
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

    /// Returns whether nobody had claimed the key before.
    pub fn claim_key(
        &mut self,
        index: IndexNumber,
        key: &KeyBytes,
        by: TransactionId,
        holder: RecordId,
    ) -> bool {
        let before = self.keys.insert((index, key.clone()), (by, holder));
        before.is_none()
    }

    /// Releases what a transaction has claimed. It does not look at the claims of others, which may be many more.
    pub fn release(&mut self, transaction: TransactionId, own: &mut OwnWrites) {
        for (id, _) in own.from(RecordId::FIRST) {
            release(&mut self.records, &id, transaction, |by| by);
        }
        for hash in own.hashes() {
            release(&mut self.ids, &hash, transaction, |by| by);
        }
        for key in own.take_keys() {
            release(&mut self.keys, &key, transaction, |(by, _)| by);
        }
    }
}

/// Removes a claim, if it is one of that transaction.
fn release<K: Hash + Eq, V: Copy>(
    claims: &mut AHashMap<K, V>,
    key: &K,
    transaction: TransactionId,
    by: impl FnOnce(V) -> TransactionId,
) {
    if claims
        .get(key)
        .is_some_and(|claim| by(*claim) == transaction)
    {
        claims.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::super::OwnWrite;
    use super::*;
    use crate::ttl::OwnTtl;

    #[test]
    fn a_transaction_releases_its_own_claims_and_no_others() {
        let (first, second) = (TransactionId(1), TransactionId(2));
        let key = |n: u8| KeyBytes::from_slice(&[n]);
        let index = IndexNumber(0);
        let mut claims = Claims::default();
        let mut begin = |by: TransactionId, n: u8| {
            let mut own = OwnWrites::new(0);
            let added = own.add(u64::from(n), Vec::new(), OwnTtl::NONE);
            claims.claim_id(u64::from(n), by);
            let there = RecordId(u64::from(n));
            own.put(there, 100 + u64::from(n), OwnWrite::Removed);
            claims.claim_record(there, by);
            for key in [key(n), key(n + 10)] {
                if claims.claim_key(index, &key, by, added) {
                    own.note_key(index, key.clone());
                }
                assert!(!claims.claim_key(index, &key, by, added));
            }
            // A document that was added and removed again keeps its claim.
            own.remove(added, u64::from(n));
            own
        };
        let (mut one, mut other) = (begin(first, 1), begin(second, 2));
        claims.release(first, &mut one);
        assert_eq!((claims.id(1), claims.id(2)), (None, Some(second)));
        let records = [1, 2].map(|n| claims.record(RecordId(n)));
        assert_eq!(records, [None, Some(second)]);
        let by = |n| claims.key(index, &key(n)).map(|(by, _)| by);
        assert_eq!(
            [1, 11, 2, 12].map(by),
            [None, None, Some(second), Some(second)]
        );
        claims.release(second, &mut other);
        assert!(claims.records.is_empty() && claims.ids.is_empty() && claims.keys.is_empty());
    }
}
