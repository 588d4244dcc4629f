//! `index: {unique: true}`: reads an index in steps, and makes it unique if no two documents share a key.
//!
//! The index has `prepareUnique` set, so no new duplicate can be added meanwhile. The lock hold that makes it unique checks
//! again that this has not changed.

use std::ops::Bound;
use std::sync::Arc;

use super::{Advance, Done, ModifiedIndex, ModifyCollection, Steps, no_collection};
use crate::engine::TimeSlice;
use crate::error::{Code, Error, Result};
use crate::query::stage::StepBudget as _;
use crate::storage::index::{Index, IndexNumber, split};
use crate::storage::{Collection, Dropped, RecordId, View};
use crate::value::{Doc, DocBuf, Millis, Value, ValueRef};

pub(super) struct ConvertToUnique {
    collection: Arc<Collection>,
    change: ModifyCollection,
    index: String,
    look: DuplicateSearch,
}

/// The progress of reading the index.
#[derive(Default)]
struct DuplicateSearch {
    /// The index, and the version of its state.
    of: Option<(IndexNumber, u64)>,
    /// The last entry read.
    at: Vec<u8>,
    /// The document under the current key, while only one is known.
    single: Option<RecordId>,
    /// The `_id`s under the current key, once two documents have shared it at one time.
    sharing: Vec<Value>,
    /// The `_id`s of documents that share one of the earlier keys, one list per key.
    shared: Vec<Vec<Value>>,
    reported: usize,
    bytes: usize,
    /// No more `_id`s can be reported.
    full: bool,
}

/// The most bytes of `_id`s that an error reports. Beyond this MongoDB says that there are too many.
const MAX_REPORTED_BYTES: usize = 8 << 20;

/// The most documents that an error reports. MongoDB then stops reading, and does not mention it.
const MAX_DOCUMENTS: usize = 1 << 19;

/// The type and the name of `_id`, in bytes.
const ID_OVERHEAD: usize = 5;

/// The number of entries between two checks of the clock.
const SOME: usize = 128;

// === impl ConvertToUnique ===

impl ConvertToUnique {
    pub fn new(collection: Arc<Collection>, change: ModifyCollection, index: String) -> Self {
        Self {
            collection,
            change,
            index,
            look: DuplicateSearch::default(),
        }
    }
}

impl Steps for ConvertToUnique {
    fn step(&mut self, now: Millis) -> Result<Advance> {
        let slice = TimeSlice::begin();
        while !self
            .collection
            .read_present(now, |view| self.look.some(view, &self.index))?
        {
            if slice.is_over() {
                return Ok(Advance::More);
            }
        }
        if !self.look.shared.is_empty() {
            return Err(self.look.refusal());
        }
        if self.change.dry_run {
            return Ok(Advance::Done(Done::Modified(ModifiedIndex::default())));
        }
        let made = self.collection.write(now, |writer| {
            let view = writer.view();
            let same = view
                .index(&self.index)
                .is_some_and(|index| self.look.of == Some(state(index)));
            if !same {
                return Ok(None);
            }
            Ok(Some(self.change.resolve(&view)?.make_rest(writer)))
        });
        let made: Result<_> = made.map_err(|Dropped| no_collection())?;
        Ok(match made? {
            Some(modified) => Advance::Done(Done::Modified(modified)),
            None => Advance::More,
        })
    }
}

fn state(index: &Index) -> (IndexNumber, u64) {
    (index.number, index.altered)
}

// === impl DuplicateSearch ===

impl DuplicateSearch {
    /// Reads some more entries. Returns `true` when all were read.
    fn some(&mut self, view: &View<'_>, name: &str) -> Result<bool> {
        let Some(index) = view.index(name) else {
            return Err(Error::new(
                Code::IndexNotFound,
                format!("cannot find index {name} for ns {}", view.namespace()),
            ));
        };
        if self.of != Some(state(index)) {
            *self = Self {
                of: Some(state(index)),
                ..Self::default()
            };
        }
        let last = std::mem::take(&mut self.at);
        let from = match last.as_slice() {
            [] => Bound::Unbounded,
            last => Bound::Excluded(last),
        };
        let mut known = split(&last).0;
        let mut seen = 0;
        // Keys never begin with this byte.
        for entry in index.up(from, &[0xff]).take(SOME) {
            seen += 1;
            let (key, id) = split(entry);
            if key != known {
                known = key;
                self.end_key();
            }
            if let Some(stored) = view.get(id) {
                self.add_document(view, id, Doc::new(stored.bytes).get("_id"));
            }
            self.at.clear();
            self.at.extend_from_slice(entry);
            if self.full {
                break;
            }
        }
        let over = self.full || seen < SOME;
        if over {
            self.end_key();
        }
        Ok(over)
    }

    /// Adds a document under the current key. The one before it may have expired since it was read: then the two have never
    /// shared the key.
    fn add_document(&mut self, view: &View<'_>, record: RecordId, id: ValueRef<'_>) {
        if self.sharing.is_empty() {
            let before = self.single.replace(record).and_then(|id| view.get(id));
            let Some(before) = before else { return };
            self.report(Doc::new(before.bytes).get("_id"));
        }
        self.report(id);
    }

    fn report(&mut self, id: ValueRef<'_>) {
        self.bytes += id.data().len() + ID_OVERHEAD;
        // At least one `_id` is reported, however large.
        if self.bytes <= MAX_REPORTED_BYTES || self.reported == 0 {
            self.sharing.push(id.to_value());
            self.reported += 1;
        }
        self.full = self.bytes > MAX_REPORTED_BYTES || self.reported >= MAX_DOCUMENTS;
    }

    /// Finishes a key, after all of its documents were read.
    fn end_key(&mut self) {
        self.single = None;
        if !self.sharing.is_empty() {
            self.shared.push(std::mem::take(&mut self.sharing));
        }
    }

    fn refusal(&self) -> Error {
        let details = DocBuf::build(|doc| {
            let mut all = doc.array("violations");
            for shared in &self.shared {
                let mut violation = all.doc();
                let mut ids = violation.array("ids");
                for id in shared {
                    ids.push(id.as_ref());
                }
                ids.end();
                violation.end();
            }
            all.end();
        });
        let message = if self.bytes > MAX_REPORTED_BYTES {
            "Cannot convert the index to unique. Too many conflicting documents were detected. Please resolve them and rerun \
             collMod."
        } else {
            "Cannot convert the index to unique. Please resolve conflicting documents before running collMod again."
        };
        Error::new(Code::CannotConvertIndexToUnique, message).with_details(details.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::{DuplicateSearch, MAX_DOCUMENTS, SOME};
    use crate::clock::monotonic;
    use crate::storage::index::IndexSpec;
    use crate::storage::{Collection, CollectionOptions, Namespace, ReadPoint};
    use crate::ttl::DefaultTtl;
    use crate::value::{DocBuf, Millis, Value};
    use bson::doc;

    fn set_up(c: &Collection, default: DefaultTtl) {
        let set = c.drain_then(Millis(0), monotonic(), |rules| {
            rules.add_index(IndexSpec::new("a_1", DocBuf::from(doc! {"a": 1})));
            rules.set_default_ttl(default, None);
        });
        assert!(set.unwrap().is_ok());
    }

    /// Two documents share a key. The first step reads only one of them, which then expires before the second step.
    #[test]
    fn expired_documents_are_not_reported_as_duplicates() {
        let c = Collection::new(Namespace::new("db", "c"), CollectionOptions::default());
        let last = SOME as i32 - 1;
        set_up(&c, DefaultTtl::Never);
        c.write(Millis(0), |w| {
            for n in 0..=last + 1 {
                let ttl = if n == last { 10 } else { -1 };
                let document = doc! {"_id": n, "a": n.min(last), "ttl": ttl};
                w.insert(&document.to_vec().unwrap()).unwrap();
            }
        })
        .unwrap();
        for (later, shared) in [(9_999, 1), (10_000, 0)] {
            let mut look = DuplicateSearch::default();
            let mut some = |now| {
                c.read(ReadPoint::at(Millis(now)), |view| look.some(view, "a_1"))
                    .unwrap()
            };
            assert!(!some(0));
            assert!(some(later));
            assert_eq!(look.shared.len(), shared, "{later}");
        }
    }

    /// The error reports the documents of one key only up to the limit, however large their `_id`s are.
    #[test]
    fn reported_duplicates_are_limited() {
        let mut look = DuplicateSearch::default();
        for reported in 1..=MAX_DOCUMENTS {
            look.report(Value::int32(1).as_ref());
            assert_eq!(look.full, reported == MAX_DOCUMENTS, "{reported}");
        }
        let few = "Please resolve conflicting documents before";
        let many = "Too many conflicting documents were detected";
        assert!(look.refusal().message().contains(few));
        for (size, there, reported, words) in [
            (1 << 20, 9, 7, many),
            (1 << 20, 7, 7, few),
            (9 << 20, 2, 1, many),
        ] {
            let c = Collection::new(Namespace::new("db", "c"), CollectionOptions::default());
            set_up(&c, DefaultTtl::Off);
            c.write(Millis(0), |w| {
                for n in 0..there {
                    let document = doc! {"_id": format!("{n}{}", "x".repeat(size)), "a": 1};
                    w.insert(&document.to_vec().unwrap()).unwrap();
                }
            })
            .unwrap();
            let mut look = DuplicateSearch::default();
            while !c
                .read(ReadPoint::at(Millis(0)), |view| look.some(view, "a_1"))
                .unwrap()
            {}
            let lengths: Vec<_> = look.shared.iter().map(Vec::len).collect();
            assert_eq!(lengths, [reported], "{size} {there}");
            let refusal = look.refusal();
            assert!(
                refusal.message().contains(words),
                "{size} {there}: {refusal}"
            );
        }
    }
}
