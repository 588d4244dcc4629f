//! The writes of one transaction to one collection, before it commits.

use std::collections::{BTreeMap, BTreeSet};

use ahash::AHashMap;
use smallvec::SmallVec;

use crate::storage::index::{IndexNumber, KeyBytes};
use crate::storage::{LogOp, RecordId};
use crate::ttl::OwnTtl;

/// What a transaction made of a record.
pub(in crate::storage) enum OwnWrite {
    Written { bytes: Vec<u8>, ttl: OwnTtl },
    Removed,
}

/// What the log of changes will be told of a write.
pub(in crate::storage) struct ToldWrite {
    /// Its number among the writes of all transactions.
    pub number: u64,
    /// The document. `None` if it is about the collection.
    pub record: Option<RecordId>,
    pub op: LogOp,
}

/// The writes of a transaction, by record. Documents that it added have provisional record ids: they come after all others
/// in the natural order, and get their real ones at the commit.
pub(in crate::storage) struct OwnWrites {
    writes: BTreeMap<RecordId, OwnWrite>,
    /// The written documents by the hash of their `_id`: the collection's own map forgets those that end meanwhile.
    by_id: AHashMap<u64, SmallVec<[RecordId; 1]>>,
    next: RecordId,
    bytes: usize,
    /// What the log of changes will be told of each write. `None` if a write was made before anybody followed the log.
    told: Option<Vec<ToldWrite>>,
    /// Documents that the transaction has matched and left as they are. Nobody is kept from writing to them.
    touched: BTreeSet<RecordId>,
    /// The keys in unique indexes that it has claimed, also for documents that no longer have them.
    keys: Vec<(IndexNumber, KeyBytes)>,
    /// The state of the indexes at the first write. If it differs at the commit, the checks of the writes no longer hold.
    pub schema: u64,
}

// === impl OwnWrites ===

impl OwnWrites {
    /// What an entry takes besides its bytes, roughly.
    const OVERHEAD: usize = 128;
    /// What an `_id` takes that was written to, also if its document is removed again, roughly.
    const HASH_OVERHEAD: usize = 64;

    pub fn new(schema: u64) -> Self {
        Self {
            writes: BTreeMap::new(),
            by_id: AHashMap::new(),
            next: RecordId::PROVISIONAL,
            bytes: 0,
            told: Some(Vec::new()),
            touched: BTreeSet::new(),
            keys: Vec::new(),
            schema,
        }
    }

    /// Keeps what the log will be told of a write. `None` if nobody follows the log.
    pub fn tell(&mut self, told: Option<ToldWrite>) {
        match (told, &mut self.told) {
            (Some(write), Some(told)) => {
                self.bytes += write.op.weight() + Self::OVERHEAD;
                told.push(write);
            }
            (Some(_), None) => {}
            (None, told) => *told = None,
        }
    }

    /// Returns what the log will be told, in the order of the writes. `None` if some writes are not in it.
    pub fn told(&self) -> Option<&[ToldWrite]> {
        self.told.as_deref()
    }

    /// Takes out what the log will be told ([`told`](Self::told)).
    pub fn take_told(&mut self) -> Option<Vec<ToldWrite>> {
        self.told.take()
    }

    /// Notes that the transaction has matched a document and left it as it is. A commit sets its `_ts`.
    pub fn touch(&mut self, id: RecordId) {
        if self.touched.insert(id) {
            self.bytes += size_of::<RecordId>();
        }
    }

    /// Returns the documents that the transaction has matched and not changed.
    pub fn touched(&self) -> impl Iterator<Item = RecordId> {
        let is_same = |id: &RecordId| !self.writes.contains_key(id);
        self.touched.iter().copied().filter(is_same)
    }

    pub fn get(&self, id: RecordId) -> Option<&OwnWrite> {
        self.writes.get(&id)
    }

    /// Returns the writes from that record on, in natural order.
    pub fn from(&self, id: RecordId) -> impl DoubleEndedIterator<Item = (RecordId, &OwnWrite)> {
        self.writes.range(id..).map(|(id, write)| (*id, write))
    }

    /// Returns the written documents whose `_id` has that hash.
    pub fn by_id(&self, hash: u64) -> &[RecordId] {
        self.by_id.get(&hash).map_or(&[], SmallVec::as_slice)
    }

    /// Returns the id after which the next document will be added.
    pub fn newest(&self) -> RecordId {
        self.next.previous().unwrap_or(RecordId::FIRST)
    }

    /// Returns the hashes of the `_id`s of all documents that it has added or written to.
    pub fn hashes(&self) -> impl Iterator<Item = u64> {
        self.by_id.keys().copied()
    }

    /// Notes a key that it has claimed.
    pub fn note_key(&mut self, index: IndexNumber, key: KeyBytes) {
        // It is here and among the claims.
        self.bytes += 2 * key.len() + Self::OVERHEAD;
        self.keys.push((index, key));
    }

    /// Takes out the keys that it has claimed.
    pub fn take_keys(&mut self) -> Vec<(IndexNumber, KeyBytes)> {
        std::mem::take(&mut self.keys)
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns how many writes there are at most.
    pub fn most(&self) -> u64 {
        (self.bytes / Self::OVERHEAD) as u64
    }

    pub fn add(&mut self, hash: u64, bytes: Vec<u8>, ttl: OwnTtl) -> RecordId {
        let id = self.next;
        self.next = id.next();
        self.put(id, hash, OwnWrite::Written { bytes, ttl });
        id
    }

    pub fn put(&mut self, id: RecordId, hash: u64, write: OwnWrite) {
        let ids = self.by_id.entry(hash).or_insert_with(|| {
            self.bytes += Self::HASH_OVERHEAD;
            SmallVec::new()
        });
        if !ids.contains(&id) {
            ids.push(id);
        }
        self.bytes += write.bytes() + Self::OVERHEAD;
        if let Some(before) = self.writes.insert(id, write) {
            self.bytes -= before.bytes() + Self::OVERHEAD;
        }
    }

    pub fn remove(&mut self, id: RecordId, hash: u64) {
        if !id.is_provisional() {
            self.put(id, hash, OwnWrite::Removed);
            return;
        }
        if let Some(before) = self.writes.remove(&id) {
            self.bytes -= before.bytes() + Self::OVERHEAD;
        }
        if let Some(ids) = self.by_id.get_mut(&hash) {
            ids.retain(|other| *other != id);
        }
    }
}

// === impl OwnWrite ===

impl OwnWrite {
    fn bytes(&self) -> usize {
        match self {
            Self::Written { bytes, .. } => bytes.len(),
            Self::Removed => 0,
        }
    }
}
