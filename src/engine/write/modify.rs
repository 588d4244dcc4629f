//! Changing one stored document.

use super::{Wanted, refused};
use crate::engine::Effort;
use crate::error::Result;
use crate::query::Vars;
use crate::storage::{Collection, Dropped, NewTtl, ReadPoint, RecordId, Replaced, Stored, Writer};
use crate::value::{Doc, DocBuilder, Millis, Value};

/// What became of a document that was to be changed.
#[derive(Debug, PartialEq, Eq)]
pub enum Modified {
    /// It no longer is there, has ended, or no longer matches: look for another one.
    Gone,
    Done {
        /// `None`: it matched, and nothing had to change but its `_ts`.
        after: Option<Vec<u8>>,
        /// The `_ts` that it had before, and the one that it has now.
        before: Millis,
        ts: Millis,
    },
}

/// A stored document that a statement is about to write to.
pub struct Candidate<'a> {
    pub collection: &'a Collection,
    pub id: RecordId,
    /// When it had been written last.
    pub ts: Millis,
    /// What is done with it depends on that, too.
    pub reads_ts: bool,
    /// What is known of the `ttl` that it will have.
    pub new_ttl: NewTtl,
    /// The document as it was found; in the end, the one that was changed or removed.
    pub current: &'a mut Vec<u8>,
    pub still_matches: Match<'a>,
}

/// The condition under which a document that changed under one's hands is still the one meant.
pub struct Match<'a> {
    pub wanted: &'a Wanted,
    pub vars: &'a Vars,
    /// The filter names `_ts`.
    pub names_ts: bool,
}

// === impl Candidate ===

impl Candidate<'_> {
    /// Computes what becomes of the document and puts it in place. The computation runs outside the lock; if the document was
    /// changed by someone else meanwhile, it is looked at again, and left alone if it no longer matches.
    pub fn modify(
        mut self,
        at: ReadPoint,
        mut compute: impl FnMut(Doc<'_>, Millis) -> Result<Option<Vec<u8>>>,
    ) -> Result<Result<Modified, Dropped>> {
        let (collection, id) = (self.collection, self.id);
        loop {
            let computed = compute(Doc::new(self.current), self.ts)?;
            let written = collection.write(at.now(), |writer| {
                let replaced = match &computed {
                    _ if self.was_touched(writer) => Replaced::Stale,
                    Some(bytes) => writer.replace(id, self.current, bytes, self.new_ttl),
                    None => writer.touch(id, self.current),
                };
                match replaced {
                    Replaced::Refused(reason) => {
                        let bytes = computed.as_deref().unwrap_or(self.current);
                        Err(refused(&reason, &writer.view(), bytes))
                    }
                    Replaced::Done { before, ts } => Ok(Some((before, ts))),
                    Replaced::Stale => Ok(None),
                }
            });
            match written {
                Err(dropped) => return Ok(Err(dropped)),
                Ok(Err(error)) => return Err(error),
                Ok(Ok(Some((before, ts)))) => {
                    let became = computed.as_ref().unwrap_or(self.current);
                    Effort::add_change(became.len());
                    return Ok(Ok(Modified::Done {
                        after: computed,
                        before,
                        ts,
                    }));
                }
                Ok(Ok(None)) => {
                    if !self.look_again(at)? {
                        return Ok(Ok(Modified::Gone));
                    }
                }
            }
        }
    }

    /// Removes the document, if it still is there and matches. Returns the `_ts` that it had.
    pub fn delete(mut self, at: ReadPoint) -> Result<Result<Option<Millis>, Dropped>> {
        let (collection, id) = (self.collection, self.id);
        loop {
            let removed = collection.write(at.now(), |writer| match self.was_touched(writer) {
                true => None,
                false => writer.remove_if(id, self.current),
            });
            match removed {
                Err(dropped) => return Ok(Err(dropped)),
                Ok(Some(ts)) => {
                    Effort::add_removal();
                    return Ok(Ok(Some(ts)));
                }
                Ok(None) => {
                    if !self.look_again(at)? {
                        return Ok(Ok(None));
                    }
                }
            }
        }
    }

    /// Somebody wrote to the document since it was found, which its bytes need not show.
    fn was_touched(&self, writer: &Writer<'_>) -> bool {
        let moved = |stored: Stored<'_>| stored.ts.seconds() != self.ts.seconds();
        self.reads_ts && writer.visible(self.id).is_some_and(moved)
    }

    /// Takes the document as it is now. Says whether it still is there and matches.
    fn look_again(&mut self, at: ReadPoint) -> Result<bool> {
        let found = self.collection.read(at, |view| {
            view.get(self.id).map(|stored| {
                self.current.clear();
                self.current.extend_from_slice(stored.bytes);
                stored.ts
            })
        });
        let Some(ts) = found else { return Ok(false) };
        self.ts = ts;
        let Match {
            wanted,
            vars,
            names_ts,
        } = self.still_matches;
        let filter = wanted.filter();
        if !names_ts {
            return filter.matches(Doc::new(self.current), vars);
        }
        filter.matches(Doc::new(&with_ts(Doc::new(self.current), ts)), vars)
    }
}

/// A document with `_ts` (whole seconds) as its last field.
pub fn with_ts(doc: Doc<'_>, ts: Millis) -> Vec<u8> {
    let mut out = Vec::with_capacity(doc.bytes().len() + 16);
    append_ts(doc, ts, &mut out);
    out
}

/// Writes a document with `_ts` behind what `out` holds.
pub fn append_ts(doc: Doc<'_>, ts: Millis, out: &mut Vec<u8>) {
    let mut builder = DocBuilder::begin(out);
    builder.put_body(doc.body()).put(
        crate::storage::index::TS_FIELD,
        Value::int64(ts.seconds()).as_ref(),
    );
    builder.end();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Scope;
    use crate::storage::{Namespace, Options};
    use crate::value::DocBuf;
    use bson::{Document, doc};

    /// Between being found and being written to, the document is written to by somebody else, who leaves its bytes as they are.
    /// One that was chosen for having been left alone is not the one meant any more.
    #[test]
    fn a_document_that_was_touched_meanwhile_is_asked_again() {
        let bytes = doc! {"_id": 1}.to_vec().unwrap();
        let touched = |condition: Document, by_ts: bool| {
            let collection = Collection::new(Namespace::new("db", "c"), Options::default());
            let id = collection.write(Millis(5_000), |w| w.insert(&bytes));
            let id = id.unwrap().unwrap();
            let wanted = Wanted::parse(DocBuf::from(condition).as_doc(), &Scope::new()).unwrap();
            let vars = Vars::at(Millis(9_000));
            let mut current = bytes.clone();
            let candidate = Candidate {
                collection: &collection,
                id,
                ts: Millis(5_000),
                reads_ts: by_ts,
                new_ttl: NewTtl::Unknown,
                current: &mut current,
                still_matches: Match {
                    wanted: &wanted,
                    vars: &vars,
                    names_ts: by_ts,
                },
            };
            let mut seen = Vec::new();
            let done = candidate.modify(ReadPoint::at(Millis(9_000)), |_, ts| {
                if seen.is_empty() {
                    let touched = collection.write(Millis(8_000), |w| w.touch(id, &bytes));
                    assert!(matches!(touched, Ok(Replaced::Done { .. })));
                }
                seen.push(ts);
                Ok(None)
            });
            (done.unwrap().unwrap(), seen)
        };
        let done = |before| Modified::Done {
            after: None,
            before: Millis(before),
            ts: Millis(9_000),
        };
        let (first, again) = (Millis(5_000), Millis(8_000));
        assert_eq!(touched(doc! {"_id": 1}, false), (done(8_000), vec![first]));
        assert_eq!(
            touched(doc! {"_ts": {"$lt": 9}}, true),
            (done(8_000), vec![first, again])
        );
        assert_eq!(
            touched(doc! {"_ts": {"$lt": 8}}, true),
            (Modified::Gone, vec![first])
        );
    }
}
