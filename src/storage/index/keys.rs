//! The keys of a document in an index, as bytes.

use smallvec::SmallVec;

use super::IndexSpec;
use crate::error::{Code, Error, Result};
use crate::interrupt;
use crate::ttl::TS_FIELD;
use crate::value::{self, Doc, DocBuf, Millis, MultikeyPaths, Value};

/// The encoded values of all fields of an index, one after the other.
pub type KeyBytes = SmallVec<[u8; 24]>;

/// The keys of one document in one index, sorted and without duplicates.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct IndexKeys {
    pub keys: SmallVec<[KeyBytes; 1]>,
    /// The arrays on the paths.
    pub multikey: MultikeyPaths,
}

/// The most bytes that the keys of one document may take. A single path never reaches this, but in a compound index the
/// values beside an array are repeated for each element of the array.
const MAX_SIZE: usize = 64 << 20;

// === impl IndexKeys ===

impl IndexKeys {
    /// Counts the work on one of many keys, so that other tasks get their turn. The work is not ended half-way.
    #[inline]
    pub fn count(&self) {
        const MANY: usize = 64;
        if self.keys.len() >= MANY {
            let _ = interrupt::tick(4);
        }
    }

    /// Computes the keys of a document. Fails if the document cannot be indexed (two arrays in one compound key, or too
    /// many bytes). The result for a document is always the same, because removal from the index computes the keys again.
    pub fn of(spec: &IndexSpec, doc: Doc<'_>, ts: Millis) -> Result<Self> {
        let mut found = Self::default();
        if !spec.covers(doc) {
            return Ok(found);
        }
        let shown;
        let doc = if spec.names_ts() {
            let mut with_ts = DocBuf::from_bytes(doc.bytes().to_vec());
            with_ts.put(TS_FIELD, Value::int64(ts.seconds()).as_ref());
            shown = with_ts;
            shown.as_doc()
        } else {
            doc
        };
        let mut bytes = Vec::with_capacity(32);
        let mut size = 0;
        found.multikey = value::keys(&spec.paths, doc, |key| {
            if (key.found || !spec.sparse) && size <= MAX_SIZE {
                bytes.clear();
                spec.encode(key.values, &mut bytes);
                size += bytes.len();
                found.keys.push(KeyBytes::from_slice(&bytes));
                found.count();
            }
        })?;
        if size > MAX_SIZE {
            return Err(Error::new(
                Code::CannotBuildIndexKeys,
                "Maximum number of generated keys exceeded.",
            ));
        }
        if found.keys.len() > 1 {
            found.keys.sort_unstable();
            found.keys.dedup();
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::key;
    use bson::{Bson, doc};

    fn keys_of(index: bson::Document, sparse: bool, document: bson::Document) -> IndexKeys {
        let mut spec = IndexSpec::new("i", DocBuf::from(&index));
        spec.sparse = sparse;
        IndexKeys::of(&spec, DocBuf::from(document).as_doc(), Millis(5_000)).unwrap()
    }

    fn encoded(value: Bson, descending: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        key::encode(
            DocBuf::from(doc! {"v": value}).as_doc().get("v"),
            descending,
            &mut bytes,
        );
        bytes
    }

    #[test]
    fn keys_are_sorted_each_once_and_carry_the_direction() {
        let keys = keys_of(doc! {"x": 1, "a": -1}, false, doc! {"x": 9, "a": [1, 2, 1]});
        assert!(keys.multikey.of(0).is_empty() && keys.multikey.of(1).has(0));
        let expected: Vec<Vec<u8>> = [2, 1]
            .map(|n| [encoded(9.into(), false), encoded(n.into(), true)].concat())
            .into();
        assert_eq!(
            keys.keys.iter().map(|key| key.to_vec()).collect::<Vec<_>>(),
            expected
        );
    }

    #[test]
    fn a_long_array_beside_a_long_text_is_refused() {
        let mut spec = IndexSpec::new("i", DocBuf::from(&doc! {"s": 1, "a": 1}));
        spec.sparse = false;
        let of = |text: usize, count: i32| {
            let document = doc! {"s": "x".repeat(text), "a": (0..count).collect::<Vec<_>>()};
            IndexKeys::of(&spec, DocBuf::from(document).as_doc(), Millis(0))
        };
        assert_eq!(of(10_000, 1000).unwrap().keys.len(), 1000);
        assert_eq!(
            of(100_000, 100_000).unwrap_err().code(),
            Code::CannotBuildIndexKeys
        );
    }

    #[test]
    fn the_time_of_the_last_write_can_be_indexed() {
        let keys = keys_of(doc! {"_ts": 1}, false, doc! {"a": 1});
        assert_eq!(keys.keys[0].to_vec(), encoded(Bson::Int64(5), false));
    }

    #[test]
    fn a_sparse_index_leaves_out_documents_without_any_of_its_fields() {
        let index = doc! {"a": 1, "b": 1};
        assert_eq!(keys_of(index.clone(), true, doc! {"c": 1}).keys.len(), 0);
        assert_eq!(keys_of(index.clone(), true, doc! {"b": 1}).keys.len(), 1);
        assert_eq!(keys_of(index.clone(), true, doc! {"a": null}).keys.len(), 1);
        assert_eq!(keys_of(index, false, doc! {"c": 1}).keys.len(), 1);
    }
}
