//! Changing one stored document.

use super::{Selector, refused};
use crate::error::Result;
use crate::query::Vars;
use crate::storage::{
    Before, Collection, Dropped, New, NewTtl, ReadPoint, RecordId, Refused, Stored, Writer, Written,
};
use crate::value::{Doc, DocBuilder, Millis, Value, ValueRef};

/// What became of a document that was to be changed.
#[derive(Debug, PartialEq, Eq)]
pub enum Modified {
    /// There is none with the `_id` that was asked for.
    None,
    /// It no longer is there, has ended, or no longer matches: look for another one.
    Gone,
    Done {
        new: New,
        written: Written,
    },
}

/// What became of a document that was to be removed.
#[derive(Debug, PartialEq, Eq)]
pub enum Deleted {
    /// There is none with the `_id` that was asked for.
    None,
    /// It no longer is there, has ended, or no longer matches: look for another one.
    Gone,
    /// With the `_ts` that it had.
    Done(Millis),
}

/// A stored document that a statement is about to write to.
pub struct Candidate<'a> {
    pub collection: &'a Collection,
    pub target: Target<'a>,
    /// What is done with it depends on its `_ts`, too.
    pub reads_ts: bool,
    /// What is known of the `ttl` that it will have.
    pub new_ttl: NewTtl,
    /// Computing what it becomes takes no time, so it may be done while nobody else can read: one that is asked for by its
    /// `_id` is found and written in one lock hold.
    pub quick: bool,
    /// The document as it was is asked for afterwards.
    pub keeps: bool,
    /// The document as it was found; in the end, the one that was changed or removed (if `keeps`).
    pub current: &'a mut Vec<u8>,
    pub still_matches: Match<'a>,
}

/// Which document a candidate is.
#[derive(Clone, Copy)]
pub enum Target<'a> {
    /// The one with this `_id`; nobody has looked for it yet.
    Id(ValueRef<'a>),
    /// One that was found, and when it had been written last. Its bytes stand in `current`.
    Found(RecordId, Millis),
}

/// The condition under which a document that changed under one's hands is still the one meant.
pub struct Match<'a> {
    pub wanted: &'a Selector,
    pub vars: &'a Vars,
    /// The filter names `_ts`.
    pub names_ts: bool,
}

/// Larger documents are not walked through while nobody else can read.
const MAX_UNDER_LOCK: usize = 16 * 1024;

/// What the first look at a document by its `_id` came to.
enum Look {
    None,
    Done(New, Written),
    /// It is copied: go on outside the lock.
    Copied(RecordId, Millis),
}

// === impl Candidate ===

impl Candidate<'_> {
    /// Computes what becomes of the document and writes it. One that is asked for by its `_id` is found, computed and
    /// written in one lock hold if that is quickly done. Else the computation runs outside the lock; if the document was
    /// changed by someone else meanwhile, it is looked at again, and left alone if it no longer matches.
    ///
    /// `compute` is given the writer where it could take a [`New::Patch`].
    pub fn modify(
        mut self,
        at: ReadPoint,
        mut compute: impl FnMut(Doc<'_>, Millis, Option<&Writer<'_>>) -> Result<New>,
    ) -> Result<Result<Modified, Dropped>> {
        let collection = self.collection;
        let (id, mut ts) = match self.target {
            Target::Found(id, ts) => (id, ts),
            Target::Id(id) => {
                let looked = match self.quick {
                    true => {
                        collection.write(at.now(), |writer| self.at_once(writer, id, &mut compute))
                    }
                    false => Ok(Ok(self.copy(id, at))),
                };
                match looked {
                    Err(dropped) => return Ok(Err(dropped)),
                    Ok(looked) => match looked? {
                        Look::None => return Ok(Ok(Modified::None)),
                        Look::Done(new, written) => {
                            return Ok(Ok(Modified::Done { new, written }));
                        }
                        Look::Copied(id, ts) => (id, ts),
                    },
                }
            }
        };
        loop {
            let new = compute(Doc::new(self.current), ts, None)?;
            let written = collection.write(at.now(), |writer| {
                match self.was_touched(writer, id, ts) || !writer.is_unchanged(id, self.current) {
                    true => Ok(None),
                    false => {
                        let written = writer.update(id, &new, self.new_ttl);
                        told(writer, id, &new, written)
                    }
                }
            });
            match written {
                Err(dropped) => return Ok(Err(dropped)),
                Ok(written) => match written? {
                    Some(written) => return Ok(Ok(Modified::Done { new, written })),
                    None => match self.look_again(id, at)? {
                        Some(now_ts) => ts = now_ts,
                        None => return Ok(Ok(Modified::Gone)),
                    },
                },
            }
        }
    }

    /// Finds the document by its `_id`, computes what becomes of it and writes that, if it is small; copies it if not.
    fn at_once(
        &mut self,
        writer: &mut Writer<'_>,
        id: ValueRef<'_>,
        compute: &mut impl FnMut(Doc<'_>, Millis, Option<&Writer<'_>>) -> Result<New>,
    ) -> Result<Look> {
        let view = writer.view();
        view.id_usage().note();
        let Some((id, stored)) = view.by_id(id) else {
            return Ok(Look::None);
        };
        let is_small = stored.bytes.len() <= MAX_UNDER_LOCK;
        if self.keeps || !is_small {
            self.current.clear();
            self.current.extend_from_slice(stored.bytes);
        }
        if !is_small {
            return Ok(Look::Copied(id, stored.ts));
        }
        let before = Before::of(&stored);
        let new = compute(Doc::new(stored.bytes), stored.ts, Some(writer))?;
        let written = writer.update_found(id, before, &new, self.new_ttl);
        Ok(match told(writer, id, &new, written)? {
            Some(written) => Look::Done(new, written),
            None => Look::None,
        })
    }

    /// Finds the document by its `_id` and copies it.
    fn copy(&mut self, id: ValueRef<'_>, at: ReadPoint) -> Look {
        self.collection.read(at, |view| {
            view.id_usage().note();
            let Some((id, stored)) = view.by_id(id) else {
                return Look::None;
            };
            self.current.clear();
            self.current.extend_from_slice(stored.bytes);
            Look::Copied(id, stored.ts)
        })
    }

    /// Removes the document, if it still is there and matches. Returns the `_ts` that it had.
    pub fn delete(mut self, at: ReadPoint) -> Result<Result<Deleted, Dropped>> {
        let collection = self.collection;
        let (id, mut ts) = match self.target {
            Target::Found(id, ts) => (id, ts),
            Target::Id(id) if !self.quick => match self.copy(id, at) {
                Look::Copied(id, ts) => (id, ts),
                _ => return Ok(Ok(Deleted::None)),
            },
            Target::Id(id) => {
                let removed = collection.write(at.now(), |writer| {
                    let view = writer.view();
                    view.id_usage().note();
                    let (id, stored) = view.by_id(id)?;
                    self.current.clear();
                    self.current.extend_from_slice(stored.bytes);
                    writer.remove(id)
                });
                return Ok(removed.map(|removed| removed.map_or(Deleted::None, Deleted::Done)));
            }
        };
        loop {
            let removed = collection.write(at.now(), |writer| {
                match self.was_touched(writer, id, ts) || !writer.is_unchanged(id, self.current) {
                    true => None,
                    false => writer.remove(id),
                }
            });
            match removed {
                Err(dropped) => return Ok(Err(dropped)),
                Ok(Some(ts)) => return Ok(Ok(Deleted::Done(ts))),
                Ok(None) => match self.look_again(id, at)? {
                    Some(now_ts) => ts = now_ts,
                    None => return Ok(Ok(Deleted::Gone)),
                },
            }
        }
    }

    /// Somebody wrote to the document since it was found, which its bytes need not show.
    fn was_touched(&self, writer: &Writer<'_>, id: RecordId, ts: Millis) -> bool {
        let moved = |stored: Stored<'_>| stored.ts.seconds() != ts.seconds();
        self.reads_ts && writer.visible(id).is_some_and(moved)
    }

    /// Takes the document as it is now. Returns its `_ts`, if it still is there and matches.
    fn look_again(&mut self, id: RecordId, at: ReadPoint) -> Result<Option<Millis>> {
        let found = self.collection.read(at, |view| {
            view.get(id).map(|stored| {
                self.current.clear();
                self.current.extend_from_slice(stored.bytes);
                stored.ts
            })
        });
        let Some(ts) = found else { return Ok(None) };
        let Match {
            wanted,
            vars,
            names_ts,
        } = self.still_matches;
        let filter = wanted.filter();
        let matches = match names_ts {
            false => filter.matches(Doc::new(self.current), vars)?,
            true => filter.matches(Doc::new(&with_ts(Doc::new(self.current), ts)), vars)?,
        };
        Ok(matches.then_some(ts))
    }
}

/// Tells in MongoDB's words why a write was refused.
#[inline]
fn told(
    writer: &Writer<'_>,
    id: RecordId,
    new: &New,
    written: Result<Option<Written>, Refused>,
) -> Result<Option<Written>> {
    written.map_err(|reason| {
        let view = writer.view();
        let bytes = match new {
            New::Bytes(bytes) => bytes.as_slice(),
            _ => view.get(id).map_or(&[][..], |stored| stored.bytes),
        };
        refused(&reason, &view, bytes)
    })
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
    builder
        .put_body(doc.body())
        .put(crate::ttl::TS_FIELD, Value::int64(ts.seconds()).as_ref());
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
            let wanted = Selector::parse(DocBuf::from(condition).as_doc(), &Scope::new()).unwrap();
            let vars = Vars::at(Millis(9_000));
            let mut current = bytes.clone();
            let candidate = Candidate {
                collection: &collection,
                target: Target::Found(id, Millis(5_000)),
                reads_ts: by_ts,
                new_ttl: NewTtl::Unknown,
                quick: false,
                keeps: false,
                current: &mut current,
                still_matches: Match {
                    wanted: &wanted,
                    vars: &vars,
                    names_ts: by_ts,
                },
            };
            let mut seen = Vec::new();
            let done = candidate.modify(ReadPoint::at(Millis(9_000)), |_, ts, _| {
                if seen.is_empty() {
                    let touched =
                        collection.write(Millis(8_000), |w| w.update(id, &New::Same, NewTtl::Same));
                    assert!(matches!(touched, Ok(Ok(Some(_)))));
                }
                seen.push(ts);
                Ok(New::Same)
            });
            (done.unwrap().unwrap(), seen)
        };
        let done = |before| Modified::Done {
            new: New::Same,
            written: Written {
                before: Millis(before),
                ts: Millis(9_000),
                len: bytes.len(),
            },
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
