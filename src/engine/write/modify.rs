//! Changing one stored document.

use crate::error::Result;
use crate::query::Vars;
use crate::query::filter::Filter;
use crate::storage::{Collection, Dropped, RecordId, Replaced};
use crate::value::{Doc, DocBuilder, Millis, Value};

use super::refused;

/// What became of a document that was to be changed.
#[derive(Debug, PartialEq, Eq)]
pub enum Modified {
    /// It no longer is there, has ended, or no longer matches: look for another one.
    Gone,
    /// It matched, and nothing had to change but its `_ts`.
    Unchanged,
    Changed(Vec<u8>),
}

/// Computes what becomes of a document and puts it in place. `current` holds the document as it was found, and in the end the
/// document that was changed. The computation runs outside the lock; if the document was changed by someone else meanwhile, it is
/// looked at again, and left alone if it no longer matches.
pub fn modify(
    collection: &Collection,
    id: RecordId,
    current: &mut Vec<u8>,
    still_matches: &Match<'_>,
    now: Millis,
    mut compute: impl FnMut(Doc<'_>) -> Result<Option<Vec<u8>>>,
) -> Result<Result<Modified, Dropped>> {
    loop {
        let computed = compute(Doc::new(current))?;
        let written = collection.write(now, |writer| {
            let Some(bytes) = &computed else {
                return if writer.touch(id, current) {
                    Ok(Replaced::Done)
                } else {
                    Ok(Replaced::Stale)
                };
            };
            match writer.replace(id, current, bytes) {
                Replaced::Refused(reason) => Err(refused(&reason, &writer.view(), bytes)),
                other => Ok(other),
            }
        });
        match written {
            Err(dropped) => return Ok(Err(dropped)),
            Ok(Err(error)) => return Err(error),
            Ok(Ok(Replaced::Done)) => {
                return Ok(Ok(computed.map_or(Modified::Unchanged, Modified::Changed)));
            }
            Ok(Ok(_)) => {
                if !still_matches.look_again(collection, id, current, now)? {
                    return Ok(Ok(Modified::Gone));
                }
            }
        }
    }
}

/// Removes one document, if it still is there and matches. `current` as in [`modify`].
pub fn delete(
    collection: &Collection,
    id: RecordId,
    current: &mut Vec<u8>,
    still_matches: &Match<'_>,
    now: Millis,
) -> Result<Result<bool, Dropped>> {
    loop {
        match collection.write(now, |writer| writer.remove_if(id, current)) {
            Err(dropped) => return Ok(Err(dropped)),
            Ok(true) => return Ok(Ok(true)),
            Ok(false) => {
                if !still_matches.look_again(collection, id, current, now)? {
                    return Ok(Ok(false));
                }
            }
        }
    }
}

/// The condition under which a document that changed under one's hands is still the one meant.
pub struct Match<'a> {
    pub filter: &'a Filter,
    pub vars: &'a Vars,
    /// The filter names `_ts`.
    pub names_ts: bool,
}

// === impl Match ===

impl Match<'_> {
    fn look_again(
        &self,
        collection: &Collection,
        id: RecordId,
        current: &mut Vec<u8>,
        now: Millis,
    ) -> Result<bool> {
        let found = collection.read(now, |view| {
            view.get(id).map(|stored| {
                current.clear();
                current.extend_from_slice(stored.bytes);
                stored.ts
            })
        });
        let Some(ts) = found else { return Ok(false) };
        if !self.names_ts {
            return self.filter.matches(Doc::new(current), self.vars);
        }
        let mut shown = Vec::with_capacity(current.len() + 16);
        append_ts(Doc::new(current), ts, &mut shown);
        self.filter.matches(Doc::new(&shown), self.vars)
    }
}

/// Writes a document with `_ts` (whole seconds) as its last field.
pub fn append_ts(doc: Doc<'_>, ts: Millis, out: &mut Vec<u8>) {
    let mut builder = DocBuilder::begin(out);
    builder.put_body(doc.body()).put(
        crate::storage::index::TS_FIELD,
        Value::int64(ts.seconds()).as_ref(),
    );
    builder.end();
}
