//! Secondary indexes: ordered sets of key bytes, each followed by the record id that holds the key.
//!
//! [`spec`] says what is indexed, [`keys`] which keys a document has, and [`Index`] keeps them. A key is the
//! order-preserving encoding of the indexed values, so everything here is comparing bytes. Entries of ended documents stay until
//! the reaper takes them; whoever reads an index asks the record whether it is still visible.

mod keys;
mod spec;

use std::collections::BTreeSet;
use std::ops::Bound;

use smallvec::SmallVec;

use super::record::RecordId;
pub use keys::{IndexKeys, KeyBytes};
pub use spec::{Condition, ID_INDEX, IndexSpec, Partial, TS_FIELD};

/// Key bytes, then the record id in 8 big-endian bytes.
pub type Entry = SmallVec<[u8; 24]>;

const ID_BYTES: usize = size_of::<u64>();

pub struct Index {
    pub spec: IndexSpec,
    /// Bit n: some document had an array on the path of field n. Set by writes, never cleared.
    pub multikey: u64,
    /// False while the index is being built: writers keep it up, readers must not use it yet.
    pub ready: bool,
    entries: BTreeSet<Entry>,
}

// === impl Index ===

impl Index {
    pub fn new(spec: IndexSpec) -> Self {
        Self {
            spec,
            multikey: 0,
            ready: false,
            entries: BTreeSet::new(),
        }
    }

    pub(super) fn insert(&mut self, keys: &IndexKeys, id: RecordId) {
        self.multikey |= keys.multikey;
        for key in &keys.keys {
            self.entries.insert(entry(key, id));
        }
    }

    pub(super) fn remove(&mut self, keys: &IndexKeys, id: RecordId) {
        for key in &keys.keys {
            self.entries.remove(entry(key, id).as_slice());
        }
    }

    /// Records that hold exactly that key.
    pub fn holders<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = RecordId> + 'a {
        // Keys are self-delimiting: an entry that begins with the key is the key and a record id.
        self.entries
            .range::<[u8], _>((Bound::Included(key), Bound::Unbounded))
            .take_while(move |entry| entry.starts_with(key))
            .map(|entry| split(entry).1)
    }

    /// Entries of the half-open byte range, upwards.
    pub fn up<'a>(
        &'a self,
        lower: Bound<&'a [u8]>,
        upper: &'a [u8],
    ) -> impl Iterator<Item = &'a Entry> {
        let empty = match lower {
            Bound::Included(from) | Bound::Excluded(from) => from >= upper,
            Bound::Unbounded => false,
        };
        let upper = Bound::Excluded(upper);
        // An empty range is no error here, though BTreeSet calls it one.
        (!empty)
            .then(|| self.entries.range::<[u8], _>((lower, upper)))
            .into_iter()
            .flatten()
    }

    /// Entries of the half-open byte range, downwards; `below` moves the upper end for going on.
    pub fn down<'a>(&'a self, lower: &'a [u8], below: &'a [u8]) -> impl Iterator<Item = &'a Entry> {
        let empty = lower >= below;
        let range = (Bound::Included(lower), Bound::Excluded(below));
        (!empty)
            .then(|| self.entries.range::<[u8], _>(range).rev())
            .into_iter()
            .flatten()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// About how many bytes the entries take.
    pub fn bytes(&self) -> usize {
        // A B-tree's nodes are about three quarters full.
        self.entries.len() * size_of::<Entry>() * 4 / 3
    }
}

/// The entry of a record under a key.
pub fn entry(key: &[u8], id: RecordId) -> Entry {
    let mut entry = Entry::with_capacity(key.len() + ID_BYTES);
    entry.extend_from_slice(key);
    entry.extend_from_slice(&id.0.to_be_bytes());
    entry
}

/// The key bytes and the record of an entry.
pub fn split(entry: &[u8]) -> (&[u8], RecordId) {
    let at = entry.len().saturating_sub(ID_BYTES);
    let (key, id) = entry.split_at(at);
    (
        key,
        RecordId(u64::from_be_bytes(id.try_into().unwrap_or_default())),
    )
}
