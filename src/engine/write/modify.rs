//! Changing or removing one stored document.

use super::{Selector, refused};
use crate::error::{Error, Result};
use crate::query::Vars;
use crate::storage::{
    Before, Collection, Dropped, New, NewTtl, ReadPoint, RecordId, Refused, Stored, UpdateDelta,
    Writer, Written,
};
use crate::value::{Doc, DocBuilder, Millis, Value, ValueRef};
use crate::wait::Wait;

/// The result of changing a document.
#[derive(Debug, PartialEq, Eq)]
pub enum Modified {
    /// No document has the wanted `_id`.
    None,
    /// The document was removed, has expired, or no longer matches. The caller looks for another one.
    Gone,
    /// The document was written.
    Done(Written),
}

/// The result of removing a document.
#[derive(Debug, PartialEq, Eq)]
pub enum Deleted {
    /// No document has the wanted `_id`.
    None,
    /// The document was removed, has expired, or no longer matches. The caller looks for another one.
    Gone,
    /// The document was removed. It had this `_ts`.
    Done(Millis),
}

/// Why a document was not written.
#[derive(Debug)]
pub enum Stopped {
    Failed(Error),
    /// The collection was dropped.
    Dropped,
    /// A transaction has written to the document and has not ended. Try again when this wait is over.
    Claimed(Wait),
}

/// A stored document that a statement is about to change or remove.
pub struct Candidate<'a> {
    pub collection: &'a Collection,
    pub target: CandidateId<'a>,
    /// The write also depends on the `_ts` of the document.
    pub reads_ts: bool,
    /// What is known of the `ttl` that the document will have.
    pub new_ttl: NewTtl,
    /// Computing the new document is so quick that it may run under the exclusive lock. Then a document that is selected by
    /// its `_id` is found and written in one lock hold.
    pub quick: bool,
    /// The caller will ask for the old document afterwards.
    pub keeps: bool,
    /// The document as it was found. In the end, the one that was changed or removed (if `keeps`).
    pub current: &'a mut Vec<u8>,
    pub still_matches: MatchCondition<'a>,
}

/// The identity of a candidate.
#[derive(Clone, Copy)]
pub enum CandidateId<'a> {
    /// The document with this `_id`. It has not been looked up yet.
    Id(ValueRef<'a>),
    /// A document that was found, with the time of its last write. Its bytes are in `current`.
    Found(RecordId, Millis),
}

/// The condition that a document must still meet after another client has changed it.
pub struct MatchCondition<'a> {
    pub wanted: &'a Selector,
    pub vars: &'a Vars,
    /// The filter names `_ts`.
    pub names_ts: bool,
}

/// The largest document, in bytes, that is processed under the exclusive lock.
const MAX_UNDER_LOCK: usize = 16 * 1024;

/// The result of the first lookup of a document by its `_id`.
enum Look {
    None,
    Done(Written),
    /// The document was copied. The work continues outside the lock.
    Copied(RecordId, Millis),
}

// === impl CandidateId ===

impl CandidateId<'_> {
    /// Returns the record and its `_ts`, if it was found.
    pub(super) fn found(&self) -> Option<(RecordId, Millis)> {
        match self {
            Self::Id(_) => None,
            Self::Found(id, ts) => Some((*id, *ts)),
        }
    }
}

// === impl Candidate ===

impl Candidate<'_> {
    /// Computes the new document and writes it. A document that is selected by its `_id` is found, computed and written in
    /// one lock hold if that is quick. Otherwise the computation runs outside the lock. If another client changes the
    /// document meanwhile, this reads it again, and gives up if it no longer matches.
    ///
    /// `compute` gets the writer if it may return a [`New::Patch`]. Its last result is left in `new`, because it is too large
    /// to be handed from function to function. `delta` tells the log what has changed.
    pub fn modify(
        mut self,
        at: ReadPoint,
        new: &mut New,
        delta: &dyn UpdateDelta,
        mut compute: impl FnMut(Doc<'_>, Millis, Option<&Writer<'_>>) -> Result<New>,
    ) -> Result<Modified, Stopped> {
        let collection = self.collection;
        let (id, mut ts) = match self.target {
            CandidateId::Found(id, ts) => (id, ts),
            CandidateId::Id(id) => {
                let looked = match self.quick {
                    true => collection.write_at(at, |writer| {
                        self.at_once(writer, id, new, delta, &mut compute)
                    })??,
                    false => self.copy(id, at),
                };
                match looked {
                    Look::None => return Ok(Modified::None),
                    Look::Done(written) => return Ok(Modified::Done(written)),
                    Look::Copied(id, ts) => (id, ts),
                }
            }
        };
        loop {
            *new = compute(Doc::new(self.current), ts, None)?;
            let written = collection.write_at(at, |writer| {
                match self.was_touched(writer, id, ts) || !writer.is_unchanged(id, self.current) {
                    true => Ok(None),
                    false => {
                        let written = writer.update(id, new, self.new_ttl, delta);
                        told(writer, id, new, written)
                    }
                }
            })??;
            match written {
                Some(written) => return Ok(Modified::Done(written)),
                None => match self.look_again(id, at)? {
                    Some(now_ts) => ts = now_ts,
                    None => return Ok(Modified::Gone),
                },
            }
        }
    }

    /// Finds the document by its `_id`. Computes and writes the new one if the document is small, and copies it if not.
    fn at_once(
        &mut self,
        writer: &mut Writer<'_>,
        id: ValueRef<'_>,
        new: &mut New,
        delta: &dyn UpdateDelta,
        compute: &mut impl FnMut(Doc<'_>, Millis, Option<&Writer<'_>>) -> Result<New>,
    ) -> Result<Look, Stopped> {
        let view = writer.view();
        view.id_usage().note();
        let Some((id, stored)) = view.by_id(id) else {
            return Ok(Look::None);
        };
        let is_small = stored.bytes.len() <= MAX_UNDER_LOCK;
        if self.keeps || !is_small {
            *self.current = stored.bytes.to_vec();
        }
        if !is_small {
            return Ok(Look::Copied(id, stored.ts));
        }
        let before = Before::of(&stored);
        *new = compute(Doc::new(stored.bytes), stored.ts, Some(writer))?;
        let written = writer.update_found(id, before, new, self.new_ttl, delta);
        Ok(match told(writer, id, new, written)? {
            Some(written) => Look::Done(written),
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

    /// Removes the document, if it still exists and matches. Returns the `_ts` that it had.
    pub fn delete(mut self, at: ReadPoint) -> Result<Deleted, Stopped> {
        let collection = self.collection;
        let (id, mut ts) = match self.target {
            CandidateId::Found(id, ts) => (id, ts),
            CandidateId::Id(id) if !self.quick => match self.copy(id, at) {
                Look::Copied(id, ts) => (id, ts),
                _ => return Ok(Deleted::None),
            },
            CandidateId::Id(id) => {
                let removed = collection.write_at(at, |writer| {
                    let view = writer.view();
                    view.id_usage().note();
                    let Some((id, stored)) = view.by_id(id) else {
                        return Ok(None);
                    };
                    self.current.clear();
                    self.current.extend_from_slice(stored.bytes);
                    remove(writer, id)
                })??;
                return Ok(removed.map_or(Deleted::None, Deleted::Done));
            }
        };
        loop {
            let removed = collection.write_at(at, |writer| {
                match self.was_touched(writer, id, ts) || !writer.is_unchanged(id, self.current) {
                    true => Ok(None),
                    false => remove(writer, id),
                }
            })??;
            match removed {
                Some(ts) => return Ok(Deleted::Done(ts)),
                None => match self.look_again(id, at)? {
                    Some(now_ts) => ts = now_ts,
                    None => return Ok(Deleted::Gone),
                },
            }
        }
    }

    /// Returns whether another client wrote to the document since it was found. Its bytes need not show that.
    fn was_touched(&self, writer: &Writer<'_>, id: RecordId, ts: Millis) -> bool {
        let moved = |stored: Stored<'_>| stored.ts.seconds() != ts.seconds();
        self.reads_ts && writer.visible(id).is_some_and(moved)
    }

    /// Reads the document again. Returns its `_ts`, if it still exists and matches.
    fn look_again(&mut self, id: RecordId, at: ReadPoint) -> Result<Option<Millis>> {
        let found = self.collection.read(at, |view| {
            view.get(id).map(|stored| {
                self.current.clear();
                self.current.extend_from_slice(stored.bytes);
                stored.ts
            })
        });
        let Some(ts) = found else { return Ok(None) };
        let MatchCondition {
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

fn remove(writer: &mut Writer<'_>, id: RecordId) -> Result<Option<Millis>, Stopped> {
    let removed = writer.remove(id);
    removed.map_err(|reason| Stopped::by(&reason, writer, &[]))
}

/// Turns a refused write into MongoDB's error, or a wait.
#[inline]
fn told(
    writer: &Writer<'_>,
    id: RecordId,
    new: &New,
    written: Result<Option<Written>, Refused>,
) -> Result<Option<Written>, Stopped> {
    written.map_err(|reason| {
        let view = writer.view();
        let bytes = match new {
            New::Bytes(bytes) => bytes.as_slice(),
            _ => view.get(id).map_or(&[][..], |stored| stored.bytes),
        };
        Stopped::by(&reason, writer, bytes)
    })
}

// === impl Stopped ===

impl Stopped {
    /// Returns what a refused write means for the caller.
    pub(super) fn by(reason: &Refused, writer: &Writer<'_>, document: &[u8]) -> Self {
        match (reason, writer.released()) {
            (Refused::Claimed, Some(wait)) => Self::Claimed(wait),
            _ => Self::Failed(refused(reason, &writer.view(), document)),
        }
    }
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Dropped> for Stopped {
    fn from(_: Dropped) -> Self {
        Self::Dropped
    }
}

/// Returns a document with `_ts` (whole seconds) as its last field.
pub fn with_ts(doc: Doc<'_>, ts: Millis) -> Vec<u8> {
    let mut out = Vec::with_capacity(doc.bytes().len() + 16);
    append_ts(doc, ts, &mut out);
    out
}

/// Appends a document with `_ts` to `out`.
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
    use crate::storage::{CollectionOptions, Namespace, NoDelta};
    use crate::value::DocBuf;
    use bson::{Document, doc};

    /// Another client writes to the document after it was found, but leaves its bytes as they are. A document that was
    /// chosen because of its old `_ts` no longer matches.
    #[test]
    fn a_document_that_was_touched_meanwhile_is_asked_again() {
        let bytes = doc! {"_id": 1}.to_vec().unwrap();
        let touched = |condition: Document, by_ts: bool| {
            let collection =
                Collection::new(Namespace::new("db", "c"), CollectionOptions::default());
            let id = collection.write(Millis(5_000), |w| w.insert(&bytes));
            let id = id.unwrap().unwrap();
            let wanted = Selector::parse(DocBuf::from(condition).as_doc(), &Scope::new()).unwrap();
            let vars = Vars::at(Millis(9_000));
            let mut current = bytes.clone();
            let candidate = Candidate {
                collection: &collection,
                target: CandidateId::Found(id, Millis(5_000)),
                reads_ts: by_ts,
                new_ttl: NewTtl::Unknown,
                quick: false,
                keeps: false,
                current: &mut current,
                still_matches: MatchCondition {
                    wanted: &wanted,
                    vars: &vars,
                    names_ts: by_ts,
                },
            };
            let mut seen = Vec::new();
            let at = ReadPoint::at(Millis(9_000));
            let done = candidate.modify(at, &mut New::Same, &NoDelta, |_, ts, _| {
                if seen.is_empty() {
                    let touched = collection.write(Millis(8_000), |w| {
                        w.update(id, &New::Same, NewTtl::Same, &NoDelta)
                    });
                    assert!(matches!(touched, Ok(Ok(Some(_)))));
                }
                seen.push(ts);
                Ok(New::Same)
            });
            (done.unwrap(), seen)
        };
        let done = |before| {
            Modified::Done(Written {
                before: Millis(before),
                ts: Millis(9_000),
                len: bytes.len(),
            })
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
