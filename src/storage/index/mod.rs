//! Secondary indexes: ordered sets of entries, each a key and the id of the record that has it.
//!
//! [`spec`] says what is indexed, [`keys`] computes the keys of a document, and [`Index`] stores them in a tree. A key is
//! the order-preserving encoding of the indexed values, so this module only compares bytes. The entries of an expired
//! document stay until the document is removed. A reader of an index checks whether the record is still visible. Indexes do
//! not know documents' ends or the query language; a partial index asks a [`PartialCondition`].

mod keys;
mod packed;
mod spec;
mod tree;
mod usage;

use std::ops::Bound;
use std::sync::Arc;

use smallvec::SmallVec;

use super::record::RecordId;
use crate::value::{ClusterTime, Millis, MultikeyPaths};
pub use keys::{IndexKeys, KeyBytes};
pub use spec::{ID_INDEX, IndexSpec, Partial, PartialCondition};
use tree::Tree;
pub use usage::IndexUsage;

/// A key, followed by the record id in 8 big-endian bytes.
pub type Entry = SmallVec<[u8; 24]>;

const ID_BYTES: usize = size_of::<u64>();

/// The number of an index within its collection. Numbers are never reused, so the builder of an index notices when it is
/// dropped, even if another index has taken its name. Older indexes have smaller numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IndexNumber(pub u64);

/// How far a new index is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filled {
    /// It contains all documents before that record.
    Before(RecordId),
    Whole,
    /// The index was dropped.
    Gone,
}

/// An index of a collection. Changed under the collection's exclusive lock, except for `usage`.
pub struct Index {
    pub number: IndexNumber,
    /// Shared with plans, which keep it after they release the lock.
    pub spec: Arc<IndexSpec>,
    /// The arrays that a document ever had on the paths. Writes add to them and never remove any.
    pub multikey: MultikeyPaths,
    /// False while the index is being built: writers maintain it, but readers must not use it yet.
    pub ready: bool,
    /// The logical time since which it is ready.
    pub since: ClusterTime,
    pub usage: IndexUsage,
    /// How often its spec was changed. A reader that works in steps compares it.
    pub altered: u64,
    entries: Tree,
    /// The largest number of entries since its nodes were last rewritten.
    most: usize,
    /// The rewritten part: a copy of the entries up to its last one, in new nodes.
    anew: Tree,
    /// Nodes that are no longer used and are freed in steps.
    old: Option<Tree>,
}

/// An index with fewer entries is never rewritten.
const WORTH_REWRITING: usize = 4096;

// === impl Index ===

impl Index {
    pub fn new(number: IndexNumber, spec: IndexSpec, now: Millis) -> Self {
        Self {
            number,
            spec: Arc::new(spec),
            multikey: MultikeyPaths::default(),
            ready: false,
            since: ClusterTime(0),
            usage: IndexUsage::since(now),
            altered: 0,
            entries: Tree::default(),
            most: 0,
            anew: Tree::default(),
            old: None,
        }
    }

    pub(super) fn insert(&mut self, keys: &IndexKeys, id: RecordId) {
        self.note_arrays(keys);
        for key in &keys.keys {
            keys.count();
            let entry = entry(key, id);
            if self.is_anew(&entry) {
                self.anew.insert(&entry);
            }
            self.entries.insert(&entry);
        }
        self.most = self.most.max(self.entries.len());
    }

    /// Notes which paths have arrays in a document.
    pub(super) fn note_arrays(&mut self, keys: &IndexKeys) {
        if !keys.multikey.is_empty() {
            self.multikey.merge(&keys.multikey);
        }
    }

    pub(super) fn remove(&mut self, keys: &IndexKeys, id: RecordId) {
        for key in &keys.keys {
            keys.count();
            let entry = entry(key, id);
            if self.is_anew(&entry) {
                self.anew.remove(&entry);
            }
            self.entries.remove(&entry);
        }
    }

    /// Returns whether the entry lies in the part that is already rewritten.
    #[inline]
    fn is_anew(&self, entry: &[u8]) -> bool {
        self.anew.last().is_some_and(|last| entry <= last)
    }

    /// Returns whether most of its memory is unused, or old nodes are still to be freed.
    pub(super) fn wants_rewriting(&self) -> bool {
        let shrunken = self.most >= WORTH_REWRITING && self.entries.len() < self.most / 4 * 3;
        shrunken || self.old.is_some()
    }

    /// Copies `some` entries into new nodes, or frees that many old nodes. After most entries of a tree are removed, the
    /// remaining ones keep a thin node each; a copy has full nodes.
    pub(super) fn rewrite(&mut self, some: usize) {
        if let Some(old) = &mut self.old {
            if !(0..some).all(|_| old.drop_leaf()) {
                self.old = None;
            }
            return;
        }
        let from = match self.anew.last() {
            Some(last) => Bound::Excluded(last),
            None => Bound::Unbounded,
        };
        let next: Vec<Entry> = self
            .entries
            .up(from)
            .take(some)
            .map(Entry::from_slice)
            .collect();
        for entry in &next {
            self.anew.insert(entry);
        }
        if next.len() < some {
            debug_assert_eq!(self.anew.len(), self.entries.len());
            let anew = std::mem::take(&mut self.anew);
            self.old = Some(std::mem::replace(&mut self.entries, anew));
            self.most = self.entries.len();
        }
    }

    /// Returns the records that have exactly that key.
    pub fn holders<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = RecordId> + 'a {
        // Keys are self-delimiting: an entry that begins with the key is the key and a record id.
        self.entries
            .up(Bound::Included(key))
            .take_while(move |entry| entry.starts_with(key))
            .map(|entry| split(entry).1)
    }

    /// Returns the entries of the half-open byte range in ascending order.
    pub fn up<'a>(
        &'a self,
        lower: Bound<&[u8]>,
        upper: &'a [u8],
    ) -> impl Iterator<Item = &'a [u8]> {
        let entries = self.entries.up(lower);
        entries.take_while(move |&entry| entry < upper)
    }

    /// Returns the entries of the half-open byte range in descending order. A caller that continues passes a lower `below`.
    pub fn down<'a>(&'a self, lower: &'a [u8], below: &[u8]) -> impl Iterator<Item = &'a [u8]> {
        let entries = self.entries.down(below);
        entries.take_while(move |&entry| entry >= lower)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns about how many bytes the entries take.
    pub fn bytes(&self) -> usize {
        self.entries.used() + self.entries.len() * size_of::<u32>()
    }

    /// Returns how many of these bytes belong to one record.
    pub(super) fn bytes_of(&self, keys: &IndexKeys, id: RecordId) -> usize {
        let entries = keys.keys.iter().map(|key| entry(key, id));
        entries
            .filter(|entry| self.entries.up(Bound::Included(entry)).next() == Some(entry))
            .map(|entry| entry.len() + size_of::<u32>())
            .sum()
    }
}

/// Returns the entry of a record under a key.
pub fn entry(key: &[u8], id: RecordId) -> Entry {
    let mut entry = Entry::with_capacity(key.len() + ID_BYTES);
    entry.extend_from_slice(key);
    entry.extend_from_slice(&id.0.to_be_bytes());
    entry
}

/// Splits an entry into the key bytes and the record id.
pub fn split(entry: &[u8]) -> (&[u8], RecordId) {
    let at = entry.len().saturating_sub(ID_BYTES);
    let (key, id) = entry.split_at(at);
    (
        key,
        RecordId(u64::from_be_bytes(id.try_into().unwrap_or_default())),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::DocBuf;
    use bson::doc;
    use std::collections::BTreeSet;

    fn keys(n: u32) -> IndexKeys {
        IndexKeys {
            keys: [KeyBytes::from_slice(&n.to_be_bytes())]
                .into_iter()
                .collect(),
            multikey: MultikeyPaths::default(),
        }
    }

    #[test]
    fn an_index_written_anew_holds_what_was_written_meanwhile() {
        let mut index = Index::new(
            IndexNumber(0),
            IndexSpec::new("n_1", DocBuf::from(doc! {"n": 1})),
            Millis(0),
        );
        let mut model = BTreeSet::new();
        for n in 0..20_000 {
            index.insert(&keys(n), RecordId(n.into()));
            if n % 10 != 3 {
                index.remove(&keys(n), RecordId(n.into()));
            } else {
                model.insert(n);
            }
        }
        // It never had many entries at once.
        assert!(!index.wants_rewriting());
        for n in (0..20_000).filter(|n| n % 10 != 3) {
            index.insert(&keys(n), RecordId(n.into()));
        }
        for n in (0..20_000).filter(|n| n % 10 != 3) {
            index.remove(&keys(n), RecordId(n.into()));
        }
        let mut rounds = 0;
        while index.wants_rewriting() {
            index.rewrite(100);
            // One write before the position of the copy and one after it. The last entry copied may be the one that is
            // removed.
            let (add, remove) = (rounds * 7919 % 20_000, rounds * 10 + 3);
            index.insert(&keys(add), RecordId(add.into()));
            model.insert(add);
            index.remove(&keys(remove), RecordId(remove.into()));
            model.remove(&remove);
            rounds += 1;
            assert_eq!(index.len(), model.len());
        }
        assert!(rounds > 20, "{rounds}");
        let held: Vec<u64> = index
            .up(Bound::Unbounded, &[0xff])
            .map(|entry| split(entry).1.0)
            .collect();
        assert_eq!(held, model.iter().map(|&n| n.into()).collect::<Vec<u64>>());
    }
}
