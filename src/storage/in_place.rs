//! Writes to one document by its `_id` that are found and made in one lock hold: without a copy of what was there before, and
//! without a look whether it still is.

use super::by_id::begins_with;
use super::ttl::OwnTtl;
use super::{NewTtl, RecordId, Writer};
use crate::value::{Doc, Millis, Patch, ValueRef};

/// A document that was changed where it stands.
#[derive(Debug)]
pub struct Patched {
    /// What was changed in it; nothing but its `_ts`, if this is empty.
    pub patch: Patch,
    /// The `_ts` that it had before, and the one that it has now.
    pub before: Millis,
    pub ts: Millis,
}

/// Larger documents are not walked through while nobody else can read.
const MAX_PATCHED: usize = 16 * 1024;

// === impl Writer ===

impl Writer<'_> {
    /// Changes the document with that `_id` where it stands, to what `compute` makes of it. It is read and written in one lock
    /// hold, neither copied nor compared, so this is for changes that are computed in no time. `None`: it is not there, or
    /// cannot be changed so, and nothing has happened.
    pub fn patch(
        &mut self,
        id: ValueRef<'_>,
        writes: impl Fn(&str) -> bool,
        compute: impl FnOnce(Doc<'_>) -> Option<Patch>,
    ) -> Option<Patched> {
        let indexes = &self.state.indexes;
        if self.state.coming.is_some() || indexes.iter().any(|index| index.spec.depends_on(&writes))
        {
            return None;
        }
        let view = self.view();
        let (id, stored) = view.by_id(id)?;
        if stored.bytes.len() > MAX_PATCHED {
            return None;
        }
        let patch = compute(Doc::new(stored.bytes))?;
        view.id_usage().note();
        let (own, before) = (stored.own, stored.ts);
        let ts = self.ts_after(before);
        self.patch_at(id, &patch, own, ts);
        Some(Patched { patch, before, ts })
    }

    pub(super) fn patch_at(&mut self, id: RecordId, patch: &Patch, own: OwnTtl, ts: Millis) {
        if let Some(segment) = self.state.segments.get_mut(id.segment()) {
            let dates = segment.patch(id.slot(), patch, ts);
            self.state.bounds.include(own, ts, dates);
        }
    }

    /// Puts a document, which begins with that `_id`, in the place of the one that does, whatever that holds besides. Returns its
    /// `_ts`. `None`: there is none, or it has to be looked at (an index has its keys, or it is the same), and nothing has
    /// happened.
    pub fn put(&mut self, id: ValueRef<'_>, bytes: &[u8], new_ttl: NewTtl) -> Option<Millis> {
        if !self.state.indexes.is_empty() || self.check_size(bytes).is_err() {
            return None;
        }
        let view = self.view();
        let (record, stored) = view.by_id(id)?;
        if !begins_with(stored.bytes, id) || stored.bytes == bytes {
            return None;
        }
        view.id_usage().note();
        let own = new_ttl.read(bytes, stored.own);
        let (ts, len) = (self.ts_after(stored.ts), stored.bytes.len());
        self.write_over(record, len, bytes, self.stamp(Doc::new(bytes), ts, own));
        Some(ts)
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;
    use crate::storage::ReadPoint;
    use crate::storage::index::IndexSpec;
    use crate::storage::ttl::DefaultTtl;
    use crate::storage::{Collection, Namespace, Options};
    use crate::value::{DocBuf, Value};

    #[test]
    fn a_document_that_takes_anothers_place_is_written_like_any_other() {
        let c = Collection::new(Namespace::new("d", "c"), Options::default());
        let write = |now: i64, document: Document| {
            let bytes = DocBuf::from(document);
            let done = c.write(Millis(now), |w| w.insert(bytes.bytes()));
            assert!(done.unwrap().is_ok());
        };
        let put = |now: i64, document: Document, new_ttl: NewTtl| {
            let bytes = DocBuf::from(document);
            let id = bytes.as_doc().get("_id");
            let put = c.write(Millis(now), |w| w.put(id, bytes.bytes(), new_ttl));
            put.unwrap().map(|ts| ts.0)
        };
        let n = |now: i64| {
            c.read(ReadPoint::at(Millis(now)), |view| {
                let (_, stored) = view.by_id(Value::int32(1).as_ref())?;
                Doc::new(stored.bytes).get("n").as_i32()
            })
        };
        c.write(Millis(0), |w| {
            w.set_default_ttl(DefaultTtl::Seconds(10), None)
        })
        .unwrap();
        write(0, doc! {"_id": 1, "n": 1, "ttl": 20});
        write(0, doc! {"_id": 2.0});
        let unknown = NewTtl::Unknown;
        // The same `_id` in another type: somebody has to look which of the two stays.
        assert_eq!(put(0, doc! {"_id": 2}, unknown), None);
        assert_eq!(
            put(5_000, doc! {"_id": 1, "n": 2}, NewTtl::Absent),
            Some(5_000)
        );
        assert_eq!(n(14_999), Some(2));
        // The ttl of its own went with the old one, and the default counts from the last write.
        assert_eq!(n(15_000), None);
        assert_eq!(put(15_000, doc! {"_id": 1, "n": 3}, unknown), None);
        write(15_000, doc! {"_id": 1, "n": 4});
        let longer = doc! {"_id": 1, "n": 5, "ttl": 30, "text": "x".repeat(5_000)};
        assert_eq!(put(16_000, longer.clone(), unknown), Some(16_000));
        assert_eq!(n(45_999), Some(5));
        // The same, none, and what keys depend on: somebody has to look at it.
        assert_eq!(put(17_000, longer, unknown), None);
        assert_eq!(put(17_000, doc! {"_id": 3}, unknown), None);
        c.write(Millis(17_000), |w| {
            w.add_index(IndexSpec::new("n_1", DocBuf::from(doc! {"n": 1})));
        })
        .unwrap();
        assert_eq!(put(17_000, doc! {"_id": 1, "n": 6}, unknown), None);
        assert_eq!(n(45_999), Some(5));
        let counted = c.read(ReadPoint::at(Millis(17_000)), |view| {
            (view.totals(), view.allocated())
        });
        assert_eq!(counted.0.count, 1);
        assert!(counted.0.bytes > 5_000 && counted.1 > 5_000, "{counted:?}");
    }
}
