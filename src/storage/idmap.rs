//! From `_id` to record.

use ahash::RandomState;
use dashmap::DashMap;
use smallvec::SmallVec;

use super::RecordId;
use crate::value::{Doc, key};

/// The key bytes of an `_id`. ObjectIds, numbers and UUIDs need no allocation.
pub(super) type IdKey = SmallVec<[u8; 24]>;

/// A sharded hash map: when it grows, one shard is rehashed and not ten million entries. It is changed only under the
/// collection's exclusive lock. The hasher has random keys, since clients choose `_id`s.
pub(super) struct IdMap {
    map: DashMap<IdKey, RecordId, RandomState>,
}

const SHARDS: usize = 64;

/// The key bytes of a document's `_id`.
pub(super) fn id_key(doc: Doc<'_>) -> IdKey {
    let mut bytes = Vec::with_capacity(32);
    key::encode(doc.get("_id"), false, &mut bytes);
    IdKey::from_slice(&bytes)
}

// === impl IdMap ===

impl IdMap {
    /// Where `shrink_one` has nothing left to look at.
    pub const DONE: usize = SHARDS;

    pub fn new() -> Self {
        Self {
            map: DashMap::with_capacity_and_hasher_and_shard_amount(0, RandomState::new(), SHARDS),
        }
    }

    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<RecordId> {
        self.map.get(key).map(|entry| *entry)
    }

    pub fn insert(&self, key: IdKey, id: RecordId) {
        self.map.insert(key, id);
    }

    /// Forgets that this record has the key, if it has not been taken over by a newer one.
    pub fn remove(&self, key: &[u8], id: RecordId) {
        self.map.remove_if(key, |_, holder| *holder == id);
    }

    /// Gives memory back, one shard at a time: the first shard from `from` on that is mostly empty. Returns where to go on.
    pub fn shrink_one(&self, from: usize) -> Option<usize> {
        for (n, shard) in self.map.shards().iter().enumerate().skip(from) {
            let mut table = shard.write();
            if table.capacity() > 64 && table.len() < table.capacity() / 4 {
                let hasher = |(key, _): &(IdKey, _)| self.map.hasher().hash_one(key);
                let old = std::mem::take(&mut *table);
                table.reserve(old.len() * 5 / 4, hasher);
                // A long key has a block of its own, one among many free ones: copies fill the places that come first.
                let mut long = Vec::new();
                for (key, id) in old {
                    let entry = match key.spilled() {
                        true => {
                            let copy = key.clone();
                            long.push(key);
                            (copy, id)
                        }
                        false => (key, id),
                    };
                    table.insert(hasher(&entry), entry, hasher);
                }
                return Some(n + 1);
            }
        }
        None
    }

    /// Empties the map and hands its contents over.
    pub fn take(&self) -> impl Send + 'static {
        let shards = self.map.shards().iter();
        shards
            .map(|shard| std::mem::take(&mut *shard.write()))
            .collect::<Vec<_>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_that_was_emptied_gives_its_memory_back_and_still_finds_the_rest() {
        let map = IdMap::new();
        let key = |n: u64| IdKey::from_slice(&n.to_be_bytes());
        for n in 0..100_000 {
            map.insert(key(n), RecordId(n));
        }
        let full = map.map.capacity();
        for n in (0..100_000).filter(|n| n % 100 != 7) {
            map.remove(&key(n), RecordId(n));
        }
        let mut from = 0;
        while let Some(next) = map.shrink_one(from) {
            from = next;
        }
        assert!(
            map.map.capacity() < full / 20,
            "{} of {full}",
            map.map.capacity()
        );
        for n in 0..100_000 {
            assert_eq!(
                map.get(&key(n)),
                (n % 100 == 7).then_some(RecordId(n)),
                "{n}"
            );
        }
    }
}
