//! Secondary indexes: ordered sets of key bytes, each followed by the record id that holds the key.
//!
//! [`spec`] says what is indexed, [`keys`] which keys a document has, and [`Index`] keeps them. A key is the
//! order-preserving encoding of the indexed values, so everything here is comparing bytes. Entries of ended documents stay until
//! the reaper takes them; whoever reads an index asks the record whether it is still visible.

mod keys;
mod packed;
mod spec;
mod tree;
mod usage;

use std::ops::Bound;
use std::sync::Arc;

use smallvec::SmallVec;

use super::record::RecordId;
use crate::value::Millis;
pub use keys::{IndexKeys, KeyBytes};
pub use spec::{Condition, ID_INDEX, IndexSpec, Partial};
use tree::Tree;
pub use usage::Usage;

/// Key bytes, then the record id in 8 big-endian bytes.
pub type Entry = SmallVec<[u8; 24]>;

const ID_BYTES: usize = size_of::<u64>();

/// Which of a collection's indexes one is. Never given twice: whoever makes an index notices when it is dropped, also if
/// another has taken its name since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexNumber(pub u64);

/// How far a new index is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filled {
    /// With all documents before that record.
    Before(RecordId),
    Whole,
    /// It is no more.
    Gone,
}

pub struct Index {
    pub number: IndexNumber,
    /// Shared with plans, which outlive the lock under which they look at it.
    pub spec: Arc<IndexSpec>,
    /// Bit n: some document had an array on the path of field n. Set by writes, never cleared.
    pub multikey: u64,
    /// False while the index is being built: writers keep it up, readers must not use it yet.
    pub ready: bool,
    pub usage: Usage,
    /// How often its spec was changed: whoever looks at it in steps notices.
    pub altered: u64,
    entries: Tree,
    /// The most entries that it had since its nodes were last written anew.
    most: usize,
    /// The entries up to the last one here, in new nodes: the others are still to come.
    anew: Tree,
    /// Nodes that are no longer used.
    old: Option<Tree>,
}

/// An index with fewer entries is left as it is.
const WORTH_REWRITING: usize = 4096;

// === impl Index ===

impl Index {
    pub fn new(number: IndexNumber, spec: IndexSpec, now: Millis) -> Self {
        Self {
            number,
            spec: Arc::new(spec),
            multikey: 0,
            ready: false,
            usage: Usage::since(now),
            altered: 0,
            entries: Tree::default(),
            most: 0,
            anew: Tree::default(),
            old: None,
        }
    }

    pub(super) fn insert(&mut self, keys: &IndexKeys, id: RecordId) {
        self.multikey |= keys.multikey;
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

    /// Whether that entry's place has been written anew already.
    #[inline]
    fn is_anew(&self, entry: &[u8]) -> bool {
        self.anew.last().is_some_and(|last| entry <= last)
    }

    /// Whether most of its memory is of no use any more, or on its way to be given back.
    pub(super) fn wants_rewriting(&self) -> bool {
        let shrunken = self.most >= WORTH_REWRITING && self.entries.len() < self.most / 4 * 3;
        shrunken || self.old.is_some()
    }

    /// Writes the nodes anew, or gives old ones back: `some` entries, or that many nodes. When most entries of a tree are gone, those that
    /// remain keep a thin node each; a copy has full ones.
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

    /// Records that hold exactly that key.
    pub fn holders<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = RecordId> + 'a {
        // Keys are self-delimiting: an entry that begins with the key is the key and a record id.
        self.entries
            .up(Bound::Included(key))
            .take_while(move |entry| entry.starts_with(key))
            .map(|entry| split(entry).1)
    }

    /// Entries of the half-open byte range, upwards.
    pub fn up<'a>(
        &'a self,
        lower: Bound<&[u8]>,
        upper: &'a [u8],
    ) -> impl Iterator<Item = &'a [u8]> {
        let entries = self.entries.up(lower);
        entries.take_while(move |&entry| entry < upper)
    }

    /// Entries of the half-open byte range, downwards; `below` moves the upper end for going on.
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

    /// About how many bytes the entries take.
    pub fn bytes(&self) -> usize {
        self.entries.used() + self.entries.len() * size_of::<u32>()
    }

    /// The part of one record in them.
    pub(super) fn bytes_of(&self, keys: &IndexKeys, id: RecordId) -> usize {
        let entries = keys.keys.iter().map(|key| entry(key, id));
        entries
            .filter(|entry| self.entries.up(Bound::Included(entry)).next() == Some(entry))
            .map(|entry| entry.len() + size_of::<u32>())
            .sum()
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
            multikey: 0,
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
        // It never held many at once.
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
            // A write before the place that is being copied, and one behind it; the last entry copied may be the one that goes.
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
