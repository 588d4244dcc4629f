//! Changing one stored document.

use super::refused;
use crate::engine::Effort;
use crate::error::Result;
use crate::query::Vars;
use crate::query::filter::Filter;
use crate::storage::{Collection, Dropped, RecordId, Replaced};
use crate::value::{Doc, DocBuilder, Millis, Value};

/// What became of a document that was to be changed.
#[derive(Debug, PartialEq, Eq)]
pub enum Modified {
    /// It no longer is there, has ended, or no longer matches: look for another one.
    Gone,
    Done {
        /// `None`: it matched, and nothing had to change but its `_ts`.
        after: Option<Vec<u8>>,
        /// The `_ts` that it had before.
        ts: Millis,
    },
}

/// A stored document that a statement is about to write to.
pub struct Candidate<'a> {
    pub collection: &'a Collection,
    pub id: RecordId,
    /// When it had been written last.
    pub ts: Millis,
    /// The document as it was found; in the end, the one that was changed or removed.
    pub current: &'a mut Vec<u8>,
    pub still_matches: Match<'a>,
}

/// The condition under which a document that changed under one's hands is still the one meant.
pub struct Match<'a> {
    pub filter: &'a Filter,
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
        now: Millis,
        mut compute: impl FnMut(Doc<'_>, Millis) -> Result<Option<Vec<u8>>>,
    ) -> Result<Result<Modified, Dropped>> {
        let (collection, id) = (self.collection, self.id);
        loop {
            let computed = compute(Doc::new(self.current), self.ts)?;
            let written = collection.write(now, |writer| {
                let replaced = match &computed {
                    Some(bytes) => writer.replace(id, self.current, bytes),
                    None => writer.touch(id, self.current),
                };
                match replaced {
                    Replaced::Refused(reason) => {
                        let bytes = computed.as_deref().unwrap_or(self.current);
                        Err(refused(&reason, &writer.view(), bytes))
                    }
                    Replaced::Done(ts) => Ok(Some(ts)),
                    Replaced::Stale => Ok(None),
                }
            });
            match written {
                Err(dropped) => return Ok(Err(dropped)),
                Ok(Err(error)) => return Err(error),
                Ok(Ok(Some(ts))) => {
                    let became = computed.as_ref().unwrap_or(self.current);
                    Effort::add_change(became.len());
                    return Ok(Ok(Modified::Done {
                        after: computed,
                        ts,
                    }));
                }
                Ok(Ok(None)) => {
                    if !self.look_again(now)? {
                        return Ok(Ok(Modified::Gone));
                    }
                }
            }
        }
    }

    /// Removes the document, if it still is there and matches. Returns the `_ts` that it had.
    pub fn delete(mut self, now: Millis) -> Result<Result<Option<Millis>, Dropped>> {
        let (collection, id) = (self.collection, self.id);
        loop {
            match collection.write(now, |writer| writer.remove_if(id, self.current)) {
                Err(dropped) => return Ok(Err(dropped)),
                Ok(Some(ts)) => {
                    Effort::add_removal();
                    return Ok(Ok(Some(ts)));
                }
                Ok(None) => {
                    if !self.look_again(now)? {
                        return Ok(Ok(None));
                    }
                }
            }
        }
    }

    /// Takes the document as it is now. Says whether it still is there and matches.
    fn look_again(&mut self, now: Millis) -> Result<bool> {
        let found = self.collection.read(now, |view| {
            view.get(self.id).map(|stored| {
                self.current.clear();
                self.current.extend_from_slice(stored.bytes);
                stored.ts
            })
        });
        let Some(ts) = found else { return Ok(false) };
        self.ts = ts;
        let Match {
            filter,
            vars,
            names_ts,
        } = self.still_matches;
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
