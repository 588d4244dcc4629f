//! The map from `_id`s to records.

use ahash::RandomState;
use dashmap::{DashMap, SharedValue};

use super::RecordId;
use crate::value::{Doc, key};

/// Maps the hash of an `_id`'s key to the records that have it, nearly always one. The caller checks the document in that
/// record. The map does not store keys, since the documents contain them. So an entry takes 16 bytes instead of 40, more
/// entries fit into the cache, and a table grows without reading keys.
///
/// The hash map is sharded: when it grows, it rehashes one shard and not ten million entries. It changes only under the
/// collection's exclusive lock. The hasher has random keys, because clients choose `_id`s.
pub(super) struct IdMap {
    /// From hash to record. Several records may share a hash, which the methods of `DashMap` do not support, so the code
    /// uses its tables.
    map: DashMap<u64, RecordId, RandomState>,
}

const SHARDS: usize = 64;

/// Calls `look` with the key bytes of a document's `_id`.
pub(super) fn with_id_key<T>(doc: Doc<'_>, look: impl FnOnce(&[u8]) -> T) -> T {
    key::with(doc.get("_id"), look)
}

// === impl IdMap ===

impl IdMap {
    /// The position from which `shrink_one` finds nothing left to do.
    pub const DONE: usize = SHARDS;

    pub fn new() -> Self {
        Self {
            map: DashMap::with_capacity_and_hasher_and_shard_amount(0, RandomState::new(), SHARDS),
        }
    }

    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.map.hasher().hash_one(key)
    }

    /// Returns the hash under which a document is in the map. Entries of the oplog have no `_id`; they are spread by their
    /// `ts`, so that removing one does not search among all of them.
    pub fn hash_of(&self, doc: Doc<'_>) -> u64 {
        match doc.get("_id").is_missing() {
            false => with_id_key(doc, |key| self.hash(key)),
            true => key::with(doc.get("ts"), |key| self.hash(key)),
        }
    }

    /// Calls `look` for each record with that hash, until it returns `Some`, and returns that.
    #[inline]
    pub fn find<T>(&self, hash: u64, mut look: impl FnMut(RecordId) -> Option<T>) -> Option<T> {
        let mut found = None;
        let shard = &self.map.shards()[self.map.determine_shard(hash as usize)];
        shard.read().find(hash, |(of, id)| {
            if *of == hash {
                found = look(*id.get());
            }
            found.is_some()
        });
        found
    }

    pub fn insert(&mut self, hash: u64, id: RecordId) {
        let entry = (hash, SharedValue::new(id));
        // No thread reads meanwhile, so the shard's lock is not needed.
        let at = self.map.determine_shard(hash as usize);
        let table = self.map.shards_mut()[at].get_mut();
        table.insert(hash, entry, |(hash, _)| *hash);
    }

    /// Removes the entry of this record under that hash.
    pub fn remove(&mut self, hash: u64, id: RecordId) {
        let at = self.map.determine_shard(hash as usize);
        let table = self.map.shards_mut()[at].get_mut();
        table.remove_entry(hash, |(_, holder)| *holder.get() == id);
    }

    /// Shrinks the first shard from `from` on that is mostly empty. Returns where to continue, or `None` if there is no
    /// such shard.
    pub fn shrink_one(&mut self, from: usize) -> Option<usize> {
        for (n, shard) in self.map.shards_mut().iter_mut().enumerate().skip(from) {
            let table = shard.get_mut();
            if table.capacity() > 64 && table.len() < table.capacity() / 4 {
                let room = table.len() * 5 / 4;
                table.shrink_to(room, |(hash, _)| *hash);
                return Some(n + 1);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_that_was_emptied_gives_its_memory_back_and_still_finds_the_rest() {
        let mut map = IdMap::new();
        let hasher = map.map.hasher().clone();
        let hash = |n: u64| hasher.hash_one(n.to_be_bytes().as_slice());
        for n in 0..100_000 {
            map.insert(hash(n), RecordId(n));
        }
        let full = map.map.capacity();
        for n in (0..100_000).filter(|n| n % 100 != 7) {
            map.remove(hash(n), RecordId(n));
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
                map.find(hash(n), Some),
                (n % 100 == 7).then_some(RecordId(n)),
                "{n}"
            );
        }
    }

    #[test]
    fn records_may_share_a_hash() {
        let mut map = IdMap::new();
        for n in 1..=3 {
            map.insert(7, RecordId(n));
        }
        let is = |wanted: u64| move |id: RecordId| (id.0 == wanted).then_some(id);
        for n in 1..=3 {
            assert_eq!(map.find(7, is(n)), Some(RecordId(n)));
        }
        map.remove(7, RecordId(2));
        assert_eq!(map.find(7, is(2)), None);
        assert_eq!(map.find(7, is(1)), Some(RecordId(1)));
        assert_eq!(map.find(7, is(3)), Some(RecordId(3)));
    }
}
