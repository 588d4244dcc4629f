//! Finds a document by its `_id`: a hash leads to a record, and the document in it confirms the match.

use super::idmap::with_id_key;
use super::{RecordId, Stored, View};
use crate::value::{Doc, ValueRef, key};

// === impl View ===

impl<'a> View<'a> {
    /// Returns the document with that `_id`.
    #[inline]
    pub fn by_id(&self, id: ValueRef<'_>) -> Option<(RecordId, Stored<'a>)> {
        let hash = key::with(id, |key| self.ids().hash(key));
        self.by_hash(hash, |doc| has_id(doc, id))
    }

    /// Returns the document whose `_id` has that key.
    #[inline]
    pub fn by_key(&self, key: &[u8]) -> Option<(RecordId, Stored<'a>)> {
        self.by_hash(self.ids().hash(key), |doc| has_key(doc, key))
    }

    #[inline]
    fn by_hash(&self, hash: u64, is_it: impl Fn(&[u8]) -> bool) -> Option<(RecordId, Stored<'a>)> {
        if let Some(past) = self.past() {
            let outside = || past.by_id(hash).find_map(|id| self.at(id, &is_it));
            return self.among(hash, &is_it).or_else(outside);
        }
        // Release the map's lock before reading the document. The document is probably not in the cache, and a read behind
        // a lock waits for the reads before it.
        let likely = self.ids().find(hash, Some)?;
        self.at(likely, &is_it).or_else(|| self.among(hash, &is_it))
    }

    #[inline]
    fn at(&self, id: RecordId, is_it: impl Fn(&[u8]) -> bool) -> Option<(RecordId, Stored<'a>)> {
        let stored = self.get(id)?;
        is_it(stored.bytes).then_some((id, stored))
    }

    /// Finds the match among several records that share a hash.
    #[cold]
    fn among(&self, hash: u64, is_it: impl Fn(&[u8]) -> bool) -> Option<(RecordId, Stored<'a>)> {
        self.ids().find(hash, |id| self.at(id, &is_it))
    }
}

/// Returns whether the document has that `_id`.
#[inline]
fn has_id(doc: &[u8], id: ValueRef<'_>) -> bool {
    begins_with(doc, id) || key::with(id, |key| has_key(doc, key))
}

/// Returns whether the document begins with that `_id`, in the same bytes. This is nearly always the case.
#[inline]
fn begins_with(doc: &[u8], id: ValueRef<'_>) -> bool {
    let Some((head, value)) = doc.split_at_checked(9) else {
        return false;
    };
    head[4] == id.ty().tag() && head[5..] == *b"_id\0" && value.starts_with(id.data())
}

/// Returns whether the `_id` of the document has that key.
#[inline]
pub(super) fn has_key(doc: &[u8], key: &[u8]) -> bool {
    with_id_key(Doc::new(doc), |own| own == key)
}

#[cfg(test)]
mod tests {
    use bson::{Bson, doc};

    use super::*;
    use crate::storage::ReadPoint;
    use crate::storage::{Collection, CollectionOptions, Namespace};
    use crate::value::{DocBuf, Millis};

    fn id(value: impl Into<Bson>) -> DocBuf {
        DocBuf::from(doc! {"_id": value.into()})
    }

    #[test]
    fn ids_that_are_equal_lead_to_the_same_document_however_they_are_written() {
        let c = Collection::new(Namespace::new("d", "c"), CollectionOptions::default());
        let long = "x".repeat(5_000);
        let stored = [
            doc! {"_id": 1, "n": 1},
            doc! {"_id": 2.5},
            doc! {"n": 1, "_id": 3_i64},
            doc! {"_id": 0.0},
            doc! {"_id": "1"},
            doc! {"_id": long.as_str()},
            doc! {"_id": Bson::Null},
            doc! {"_id": {"a": 1}},
            doc! {"_id": bson::oid::ObjectId::from_bytes([7; 12]), "_ids": 1},
        ];
        let records = stored.map(|document| {
            let bytes = DocBuf::from(document);
            let added = c.write(Millis(0), |w| w.insert(bytes.bytes()));
            added.unwrap().unwrap()
        });
        let n = |at: usize| Some(records[at]);
        for (wanted, expected) in [
            (id(1), n(0)),
            (id(1.0), n(0)),
            (id(1_i64), n(0)),
            (id(2.5), n(1)),
            (id(3), n(2)),
            (id(-0.0), n(3)),
            (id("1"), n(4)),
            (id(long.as_str()), n(5)),
            (id(Bson::Null), n(6)),
            (id(doc! {"a": 1.0}), n(7)),
            (id(bson::oid::ObjectId::from_bytes([7; 12])), n(8)),
            (id(4), None),
            (id("x"), None),
            (id(doc! {"a": 2}), None),
        ] {
            let id = wanted.as_doc().get("_id");
            c.read(ReadPoint::at(Millis(0)), |view| {
                let record = |(record, _): (RecordId, Stored<'_>)| record;
                assert_eq!(view.by_id(id).map(record), expected, "{wanted:?}");
                let by_key = key::with(id, |key| view.by_key(key).map(record));
                assert_eq!(by_key, expected, "{wanted:?}");
            });
        }
    }

    #[test]
    fn of_those_that_share_a_hash_the_right_one_is_found() {
        let c = Collection::new(Namespace::new("d", "c"), CollectionOptions::default());
        let all: Vec<DocBuf> = (0..4).map(id).collect();
        let first = id(0);
        let hash = key::with(first.as_doc().get("_id"), |key| {
            c.shared().contents().ids().hash(key)
        });
        let mut records = Vec::new();
        for document in &all {
            let added = c.write(Millis(0), |w| w.insert(document.bytes()));
            let record = added.unwrap().unwrap();
            // Pretend that its key has that hash, too.
            if record != records.first().copied().unwrap_or(record) {
                c.exclusive().contents_mut().share_hash(hash, record);
            }
            records.push(record);
        }
        c.read(ReadPoint::at(Millis(0)), |view| {
            for (document, record) in all.iter().zip(&records) {
                let id = document.as_doc().get("_id");
                let found = view.by_hash(hash, |doc| has_id(doc, id));
                assert_eq!(found.map(|(record, _)| record), Some(*record));
            }
            assert!(view.by_hash(hash, |_| false).is_none());
        });
    }
}
