//! The batch of a reply, without the rows that have ended and without some fields of the others.
//!
//! Nearly all bytes of a batch stay, so they are copied in long runs: each row is read once, and copied up to the first field
//! that goes.

use smallvec::SmallVec;

use super::Visibility;
use super::rows::Reply;
use crate::ttl::OwnTtl;
use crate::upstream::HIDDEN_FIELD;
use crate::value::{Doc, Millis, Type, ValueRef, put_index};

/// What happens to rows.
pub struct RowCut<'a, F> {
    /// The rule that rows pass.
    pub test: Option<&'a Visibility>,
    /// Tells the root fields that go, by their names.
    pub is_cut: F,
    pub now: Millis,
}

/// Copies bytes and leaves some of them out.
struct Copier<'a> {
    source: &'a [u8],
    /// All bytes before this one are copied or left out.
    done: usize,
    out: Vec<u8>,
}

// === impl RowCut ===

impl<F: Fn(&[u8]) -> bool> RowCut<'_, F> {
    /// Rewrites the batch of a cursor reply. Any other reply, such as an error, stays as it is (`None`).
    pub fn apply(&self, reply: Doc<'_>) -> Option<Reply> {
        let (cursor_at, cursor) = nested(reply, |name| name == b"cursor")?;
        let is_batch = |name: &[u8]| matches!(name, b"firstBatch" | b"nextBatch");
        let (batch_at, batch) = nested(cursor, is_batch)?;
        let batch_at = cursor_at + batch_at;
        let mut copier = Copier {
            source: reply.bytes(),
            done: 0,
            out: Vec::with_capacity(reply.bytes().len()),
        };
        self.rows(batch, batch_at, &mut copier);
        let end = copier.source.len();
        copier.leave_out(end, end);
        for (at, doc) in [(0, reply), (cursor_at, cursor), (batch_at, batch)] {
            let length = doc.bytes().len() + copier.out.len();
            copier.set_length(at, length.saturating_sub(end));
        }
        Some(Reply {
            bytes: copier.out.into(),
            cursor_id: cursor.get("id").as_i64().unwrap_or_default(),
        })
    }

    fn rows(&self, batch: Doc<'_>, batch_at: usize, copier: &mut Copier<'_>) {
        let batch_end = batch_at + batch.bytes().len() - 1;
        let mut rows = batch.iter();
        let mut at = batch_at + 4;
        let (mut shown, mut renumbers) = (0, false);
        while let Some(elem) = rows.next() {
            let end = batch_end - rows.rest().len();
            let row = match elem.value.ty() {
                Type::Document => Doc::new(elem.value.data()),
                _ => Doc::EMPTY,
            };
            let row_at = end - elem.value.data().len();
            let kept = self.row(row, row_at, copier, |copier| {
                if renumbers {
                    copier.leave_out(at + 1, row_at);
                    put_index(&mut copier.out, shown);
                }
            });
            if kept {
                shown += 1;
            } else {
                renumbers = true;
                copier.leave_out(at, end);
            }
            at = end;
        }
    }

    /// Cuts the fields of a row and returns whether it is shown at all. `begin` is called before, if it is.
    fn row(
        &self,
        row: Doc<'_>,
        row_at: usize,
        copier: &mut Copier<'_>,
        begin: impl FnOnce(&mut Copier<'_>),
    ) -> bool {
        let row_end = row_at + row.bytes().len() - 1;
        let (mut stamp, mut ttl) = (ValueRef::MISSING, ValueRef::MISSING);
        let mut cuts: SmallVec<[(usize, usize); 4]> = SmallVec::new();
        let mut fields = row.iter();
        let mut at = row_at + 4;
        while let Some(elem) = fields.next() {
            let end = row_end - fields.rest().len();
            let name = elem.name_bytes();
            if name == HIDDEN_FIELD.as_bytes() && stamp.is_missing() {
                stamp = elem.value;
            } else if name == OwnTtl::FIELD.as_bytes() && ttl.is_missing() {
                ttl = elem.value;
            }
            if (self.is_cut)(name) {
                match cuts.last_mut().filter(|(_, last)| *last == at) {
                    Some((_, last)) => *last = end,
                    None => cuts.push((at, end)),
                }
            }
            at = end;
        }
        let ended = |test: &Visibility| test.ends(stamp, ttl, row, self.now);
        if self.test.is_some_and(ended) {
            return false;
        }
        begin(copier);
        let place = copier.place_of(row_at);
        let mut gone = 0;
        for (from, to) in cuts {
            copier.leave_out(from, to);
            gone += to - from;
        }
        if gone > 0 {
            copier.set_length(place, row.bytes().len() - gone);
        }
        true
    }
}

/// Returns a document or an array in another document, and where it begins there.
fn nested(parent: Doc<'_>, is_wanted: impl Fn(&[u8]) -> bool) -> Option<(usize, Doc<'_>)> {
    let mut fields = parent.iter();
    let elem = fields.find(|elem| is_wanted(elem.name_bytes()))?;
    if !matches!(elem.value.ty(), Type::Document | Type::Array) {
        return None;
    }
    let nested = Doc::new(elem.value.data());
    let end = parent.bytes().len() - 1 - fields.rest().len();
    Some((end - nested.bytes().len(), nested))
}

// === impl Copier ===

impl Copier<'_> {
    /// Copies everything up to `from`, and goes on at `to`.
    fn leave_out(&mut self, from: usize, to: usize) {
        let run = self.source.get(self.done..from).unwrap_or_default();
        self.out.extend_from_slice(run);
        self.done = to;
    }

    /// Returns where a byte that comes next, or later, will be in the copy if everything between stays.
    fn place_of(&self, at: usize) -> usize {
        self.out.len() + at.saturating_sub(self.done)
    }

    /// Corrects the length at the beginning of a document.
    fn set_length(&mut self, place: usize, length: usize) {
        let length = i32::try_from(length).unwrap_or(i32::MAX).to_le_bytes();
        if let Some(bytes) = self.out.get_mut(place..place + 4) {
            bytes.copy_from_slice(&length);
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, bson, doc};
    use proptest::prelude::*;

    use super::*;
    use crate::ttl::DefaultTtl;
    use crate::upstream::CollectionRules;
    use crate::value::DocBuf;

    const NOW: Millis = Millis(1_000_000);

    fn cut(reply: &Document) -> Option<Document> {
        let rules = CollectionRules {
            stamped: true,
            default: DefaultTtl::Seconds(10),
            ..CollectionRules::NONE
        };
        let test = Visibility::new(&rules).unwrap();
        let rows = RowCut {
            test: Some(&test),
            is_cut: |name: &[u8]| name == b"_sundown" || name == b"_ts",
            now: NOW,
        };
        let reply = rows.apply(DocBuf::from(reply).as_doc())?;
        Some(Document::from_reader(&reply.bytes[..]).unwrap())
    }

    fn reply(rows: Vec<Bson>) -> Document {
        doc! {"a": 1, "cursor": {"id": 5_i64, "nextBatch": rows, "ns": "d.c"}, "ok": 1.0}
    }

    #[test]
    fn replies_without_a_batch_stay() {
        for other in [
            doc! {"ok": 1.0},
            doc! {"cursor": 1},
            doc! {"cursor": {"id": 0_i64}},
        ] {
            assert_eq!(cut(&other), None);
        }
    }

    proptest! {
        /// The rows that stay are the same as if each were rebuilt from its fields.
        #[test]
        fn what_stays_is_what_was_there(rows in prop::collection::vec(
            (prop::collection::vec(0..6_usize, 0..6), 985_000..1_001_000_i64, 0..25), 0..14)) {
            let names = ["_sundown", "_ts", "ttl", "x", "text", "inner"];
            let rows: Vec<Document> = rows
                .into_iter()
                .map(|(fields, stamp, ttl)| {
                    let value = |name: &str| match name {
                        "_sundown" => bson::DateTime::from_millis(stamp).into(),
                        "ttl" => Bson::from(ttl),
                        "text" => "y".repeat(ttl as usize).into(),
                        "inner" => bson!({"_sundown": 1, "l": [1, {"_ts": 2}]}),
                        _ => Bson::from(stamp),
                    };
                    fields.iter().map(|at| (names[*at].to_owned(), value(names[*at]))).collect()
                })
                .collect();
            let expected: Vec<Bson> = rows
                .iter()
                .filter(|row| {
                    let stamp = row.get_datetime("_sundown").map_or(0, |at| at.timestamp_millis());
                    let ttl = row.get_i32("ttl").ok().filter(|ttl| *ttl > 0).unwrap_or(10);
                    stamp + i64::from(ttl) * 1000 > NOW.0
                })
                .map(|row| {
                    let mut row = row.clone();
                    row.remove("_sundown");
                    row.remove("_ts");
                    row.into()
                })
                .collect();
            let rows = rows.into_iter().map(Bson::from).collect();
            let shown = cut(&reply(rows)).unwrap();
            // The names of the elements count, too.
            prop_assert_eq!(shown.to_vec().unwrap(), reply(expected).to_vec().unwrap());
        }
    }
}
