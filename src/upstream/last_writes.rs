//! When documents were last written, as far as this Sundown has seen it.
//!
//! The stamps of one document only grow. So if Sundown has seen a document with a stamp, in a row or in a write of its own, then
//! whatever document is under that `_id` later, if any, has that stamp or a later one. `rewrite/unfiltered.rs` says what follows.
//! That holds as long as the cluster loses no write ([`Term`]) and the name stands for the same collection ([`KnownWrites`]).
//!
//! It is a cache: what is missing costs a command more, and nothing else. It is bounded, in two generations: when the young one
//! is full, the old one is forgotten, and the young one becomes the old one. So what is written or read often stays.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::Term;
use crate::value::{Millis, Type, ValueRef};

/// The last writes to documents of all collections.
#[derive(Default)]
pub struct LastWrites {
    shards: [Mutex<Generations>; SHARDS],
    hasher: ahash::RandomState,
    names: Mutex<HashMap<String, NamedCollection, ahash::RandomState>>,
    /// Updates that were sent without predicate, and those of them that failed and were sent again.
    pub unfiltered: AtomicU64,
    pub failed: AtomicU64,
}

/// What the rules of one collection know of its last writes.
#[derive(Clone)]
pub struct KnownWrites {
    writes: Arc<LastWrites>,
    /// Stands for the collection that had the name when the rules were made. `None` if nothing may be remembered of it: the
    /// cluster can lose writes unnoticed, or the name is about to get another collection.
    collection: Option<u64>,
}

/// The collection that a name stands for, and its number.
#[derive(Clone, Copy)]
struct NamedCollection {
    number: u64,
    uuid: [u8; 16],
    touched: i64,
}

#[derive(Default)]
struct Generations {
    young: Generation,
    old: Generation,
}

type Generation = HashMap<Key, SeenWrite, ahash::RandomState>;

#[derive(Clone, Copy)]
struct SeenWrite {
    stamp: Millis,
    term: Term,
}

/// A document. The bytes of its `_id` stand here themselves, so that two documents never share a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    collection: u64,
    ty: u8,
    length: u8,
    id: [u8; LONGEST_ID],
}

/// The longest `_id` that is remembered: a UUID as text has 36 bytes.
const LONGEST_ID: usize = 38;

const SHARDS: usize = 16;

/// In all, 131,072 documents are remembered, in about 15 MB.
const PER_GENERATION: usize = 4_096;

/// Names of collections that are remembered. When there are more, all are forgotten, and so are their documents.
const NAMES: usize = 10_000;

// === impl LastWrites ===

impl LastWrites {
    /// Returns what is known of a collection with this name and UUID, whose settings last changed with the version `touched`.
    ///
    /// Every rename, drop and replacement changes the settings, so the number changes with it. The UUID alone would not do: a
    /// command that is under way may reach another collection than the one whose rules it has, and would remember that one's
    /// documents as those of a collection which may get its name back.
    pub fn of(self: &Arc<Self>, namespace: &str, uuid: [u8; 16], touched: i64) -> KnownWrites {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut names = self.names.lock();
        if names.len() >= NAMES && !names.contains_key(namespace) {
            names.clear();
        }
        let new = || NamedCollection {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            uuid,
            touched,
        };
        let is_same = |named: &NamedCollection| named.uuid == uuid && named.touched == touched;
        let known = names.get(namespace).copied().filter(is_same);
        let named = known.unwrap_or_else(|| {
            let named = new();
            names.insert(namespace.to_owned(), named);
            named
        });
        KnownWrites {
            writes: Arc::clone(self),
            collection: Some(named.number),
        }
    }

    /// Returns what is known of a collection of which nothing may be remembered.
    pub fn nothing(self: &Arc<Self>) -> KnownWrites {
        KnownWrites {
            writes: Arc::clone(self),
            collection: None,
        }
    }

    /// Forgets all documents, as all collections count as new ones: a name may have stood for another collection meanwhile.
    pub fn forget_all(&self) {
        self.names.lock().clear();
    }

    fn shard(&self, key: &Key) -> &Mutex<Generations> {
        let hash = self.hasher.hash_one(key) as usize;
        // The remainder is always in range.
        &self.shards[hash % SHARDS]
    }
}

// === impl KnownWrites ===

impl KnownWrites {
    /// Returns whether anything is remembered at all.
    pub fn is_kept(&self) -> bool {
        self.collection.is_some()
    }

    /// Remembers that a document had this stamp. The term is that from before the command was sent that showed it.
    pub fn saw(&self, id: ValueRef<'_>, stamp: Millis, term: Term) {
        let Some(key) = self.key(id) else {
            return;
        };
        let mut seen = SeenWrite { stamp, term };
        let mut generations = self.writes.shard(&key).lock();
        if let Some(before) = generations.get(&key).filter(|before| before.term == term) {
            seen.stamp = before.stamp.max(stamp);
        }
        generations.put(key, seen);
    }

    /// Forgets a document: it has a `ttl` of its own now.
    pub fn forget(&self, id: ValueRef<'_>) {
        if let Some(key) = self.key(id) {
            self.writes.shard(&key).lock().remove(&key);
        }
    }

    /// Returns whether a document has been written after this moment, if it is there.
    pub fn is_written_after(&self, id: ValueRef<'_>, moment: Millis, term: Term) -> bool {
        let Some(key) = self.key(id) else {
            return false;
        };
        let seen = self.writes.shard(&key).lock().get(&key);
        seen.is_some_and(|seen| seen.term == term && seen.stamp > moment)
    }

    /// Notes that updates were sent without predicate.
    pub fn count_unfiltered(&self, updates: usize, failed: bool) {
        let updates = u64::try_from(updates).unwrap_or_default();
        self.writes.unfiltered.fetch_add(updates, Ordering::Relaxed);
        if failed {
            self.writes.failed.fetch_add(updates, Ordering::Relaxed);
        }
    }

    fn key(&self, id: ValueRef<'_>) -> Option<Key> {
        let collection = self.collection?;
        // Equal numbers are one `_id`, whatever their type.
        let number = id.as_num().and_then(|number| number.to_i64_exact());
        let number = number.map(i64::to_le_bytes);
        let (ty, bytes) = match (id.ty(), &number) {
            (_, Some(number)) => (Type::Int64, &number[..]),
            (
                ty @ (Type::ObjectId
                | Type::String
                | Type::Binary
                | Type::Date
                | Type::Bool
                | Type::Double),
                None,
            ) => (ty, id.data()),
            _ => return None,
        };
        // A string begins with its length and ends with a zero. Without both, a UUID as text fits.
        let bytes = match ty {
            Type::String => bytes.get(4..bytes.len().saturating_sub(1))?,
            _ => bytes,
        };
        let mut key = Key {
            collection,
            ty: ty as u8,
            length: u8::try_from(bytes.len()).ok()?,
            id: [0; LONGEST_ID],
        };
        key.id.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(key)
    }
}

/// It is no part of what the rules say.
impl PartialEq for KnownWrites {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for KnownWrites {}

impl std::fmt::Debug for KnownWrites {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("KnownWrites")
            .field(&self.collection)
            .finish()
    }
}

// === impl Generations ===

impl Generations {
    fn get(&self, key: &Key) -> Option<SeenWrite> {
        self.young.get(key).or_else(|| self.old.get(key)).copied()
    }

    fn remove(&mut self, key: &Key) {
        self.young.remove(key);
        self.old.remove(key);
    }

    fn put(&mut self, key: Key, seen: SeenWrite) {
        self.young.insert(key, seen);
        if self.young.len() >= PER_GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, doc};

    use super::*;
    use crate::value::DocBuf;

    const TERM: Term = Term(1);

    fn id(id: impl Into<Bson>) -> DocBuf {
        DocBuf::from(&doc! {"": id.into()})
    }

    fn saw(known: &KnownWrites, seen: impl Into<Bson>, stamp: i64) {
        known.saw(id(seen).as_doc().get(""), Millis(stamp), TERM);
    }

    fn is_after(known: &KnownWrites, asked: impl Into<Bson>, moment: i64) -> bool {
        known.is_written_after(id(asked).as_doc().get(""), Millis(moment), TERM)
    }

    #[test]
    fn the_latest_stamp_counts() {
        let known = Arc::<LastWrites>::default().of("d.c", [1; 16], 0);
        assert!(!is_after(&known, 1, i64::MIN));
        saw(&known, 1, 10);
        saw(&known, 1, 5);
        assert!(is_after(&known, 1, 9) && !is_after(&known, 1, 10));
    }

    #[test]
    fn equal_ids_are_one_and_others_are_not() {
        let known = Arc::<LastWrites>::default().of("d.c", [1; 16], 0);
        let text = "0b8ff6c3-5e43-4d1b-9b41-8d0a6a3b8f11";
        for seen in [Bson::from(7), Bson::from(text), Bson::from(2.5)] {
            saw(&known, seen.clone(), 10);
            assert!(is_after(&known, seen, 9));
        }
        assert!(is_after(&known, 7_i64, 9) && is_after(&known, 7.0, 9));
        assert!(!is_after(&known, "7", 9) && !is_after(&known, 8, 9));
        assert!(!is_after(&known, bson::DateTime::from_millis(7), 9));
        assert!(!is_after(&known, format!("{text}0"), 9));
        // These are not remembered.
        for never in [
            Bson::Null,
            Bson::from(text.repeat(2)),
            Bson::from(doc! {"a": 1}),
            Bson::from(vec![7]),
            Bson::MinKey,
        ] {
            saw(&known, never.clone(), 10);
            assert!(!is_after(&known, never, 9));
        }
    }

    #[test]
    fn a_new_term_and_another_collection_of_the_name_know_nothing() {
        let writes: Arc<LastWrites> = Arc::default();
        let known = writes.of("d.c", [1; 16], 0);
        saw(&known, 1, 10);
        let one = id(1);
        assert!(!known.is_written_after(one.as_doc().get(""), Millis(9), Term(2)));
        assert!(is_after(&writes.of("d.c", [1; 16], 0), 1, 9));
        for (namespace, uuid, touched) in [("d.d", 1, 0), ("d.c", 2, 0), ("d.c", 1, 1)] {
            assert!(!is_after(&writes.of(namespace, [uuid; 16], touched), 1, 9));
        }
        // Nor does one that gets the name back.
        assert!(!is_after(&writes.of("d.c", [1; 16], 0), 1, 9));
        let nothing = writes.nothing();
        saw(&nothing, 1, 10);
        assert!(!is_after(&nothing, 1, 9));
        saw(&writes.of("d.c", [1; 16], 0), 1, 10);
        writes.forget_all();
        assert!(!is_after(&writes.of("d.c", [1; 16], 0), 1, 9));
    }

    #[test]
    fn it_is_bounded_and_what_is_used_stays() {
        let writes: Arc<LastWrites> = Arc::default();
        let known = writes.of("d.c", [1; 16], 0);
        let most = 2 * SHARDS * PER_GENERATION;
        for other in 0..most as i64 * 2 {
            saw(&known, other, 10);
            saw(&known, -1, 10);
        }
        assert!(is_after(&known, -1, 9));
        assert!(!is_after(&known, 0, 9));
        let count = writes.shards.iter().map(|shard| {
            let shard = shard.lock();
            shard.young.len() + shard.old.len()
        });
        assert!(count.sum::<usize>() <= most);
    }
}
