//! The writes of one transaction to one collection, before it commits.

use std::collections::BTreeMap;

use ahash::AHashMap;
use smallvec::SmallVec;

use crate::storage::RecordId;
use crate::ttl::OwnTtl;
use crate::value::DocBuf;

/// What a transaction made of a record.
pub(in crate::storage) enum OwnWrite {
    Written {
        bytes: Vec<u8>,
        ttl: OwnTtl,
        /// The changed fields, for the log of changes, if one update tells them.
        delta: Option<DocBuf>,
    },
    Removed,
}

/// The writes of a transaction, by record. Documents that it added have provisional record ids: they come after all others
/// in the natural order, and get their real ones at the commit.
pub(in crate::storage) struct OwnWrites {
    writes: BTreeMap<RecordId, OwnWrite>,
    /// The added documents by the hash of their `_id`.
    added: AHashMap<u64, SmallVec<[RecordId; 1]>>,
    next: RecordId,
    bytes: usize,
    /// The state of the indexes at the first write. If it differs at the commit, the checks of the writes no longer hold.
    pub schema: u64,
}

// === impl OwnWrites ===

impl OwnWrites {
    /// What an entry takes besides its bytes, roughly.
    const OVERHEAD: usize = 128;

    pub fn new(schema: u64) -> Self {
        Self {
            writes: BTreeMap::new(),
            added: AHashMap::new(),
            next: RecordId::PROVISIONAL,
            bytes: 0,
            schema,
        }
    }

    pub fn get(&self, id: RecordId) -> Option<&OwnWrite> {
        self.writes.get(&id)
    }

    /// Returns the writes from that record on, in natural order.
    pub fn from(&self, id: RecordId) -> impl DoubleEndedIterator<Item = (RecordId, &OwnWrite)> {
        self.writes.range(id..).map(|(id, write)| (*id, write))
    }

    /// Returns the added documents whose `_id` has that hash.
    pub fn added(&self, hash: u64) -> &[RecordId] {
        self.added.get(&hash).map_or(&[], SmallVec::as_slice)
    }

    /// Returns the id after which the next document will be added.
    pub fn newest(&self) -> RecordId {
        self.next.previous().unwrap_or(RecordId::FIRST)
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn add(&mut self, hash: u64, bytes: Vec<u8>, ttl: OwnTtl) -> RecordId {
        let id = self.next;
        self.next = id.next();
        self.added.entry(hash).or_default().push(id);
        let delta = None;
        self.put(id, OwnWrite::Written { bytes, ttl, delta });
        id
    }

    pub fn put(&mut self, id: RecordId, write: OwnWrite) {
        self.bytes += write.bytes() + Self::OVERHEAD;
        if let Some(before) = self.writes.insert(id, write) {
            self.bytes -= before.bytes() + Self::OVERHEAD;
        }
    }

    pub fn remove(&mut self, id: RecordId, hash: u64) {
        if !id.is_provisional() {
            self.put(id, OwnWrite::Removed);
            return;
        }
        if let Some(before) = self.writes.remove(&id) {
            self.bytes -= before.bytes() + Self::OVERHEAD;
        }
        if let Some(ids) = self.added.get_mut(&hash) {
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
