//! The two fields that a write stores: `_ts` for clients that ask for it, and the hidden stamp.

use crate::ttl::TS_FIELD;
use crate::upstream::{CollectionRules, HIDDEN_FIELD};
use crate::value::{Doc, DocBuf, DocBuilder, Millis};

/// What a write to one collection stores at one moment.
#[derive(Debug, Clone, Copy)]
pub struct WriteStamp {
    at: Millis,
    with_ts: bool,
}

// === impl WriteStamp ===

impl WriteStamp {
    /// Returns the stamp for writes to a collection, or `None` if its documents carry none.
    pub fn new(rules: &CollectionRules, now: Millis) -> Option<Self> {
        rules.stamped.then_some(Self {
            at: now,
            with_ts: rules.stores_ts,
        })
    }

    /// Returns whether `_ts` is stored, too.
    pub fn with_ts(self) -> bool {
        self.with_ts
    }

    /// Appends the fields to a document, or to the argument of `$set`.
    pub fn put(self, out: &mut DocBuilder<'_>) {
        if self.with_ts {
            out.put_i64(TS_FIELD, self.at.seconds());
        }
        out.put_date(HIDDEN_FIELD, self.at.0);
    }

    /// Returns a document to insert or to replace another, with the fields at its end. A `_ts` that the client sent is
    /// left out, so that a document that was read with it can be written back.
    pub fn document(self, doc: Doc<'_>) -> DocBuf {
        DocBuf::build_sized(doc.bytes().len() + 40, |out| {
            put_without(doc, &[TS_FIELD], out);
            self.put(out);
        })
    }

    /// Returns the stage that sets the fields.
    pub fn stage(self) -> DocBuf {
        DocBuf::build(|stage| {
            let mut set = stage.doc("$set");
            self.put(&mut set);
            set.end();
        })
    }
}

/// Appends the fields of a document, except those of these names.
pub fn put_without(doc: Doc<'_>, names: &[&str], out: &mut DocBuilder<'_>) {
    let gone = |name: &[u8]| names.iter().any(|gone| gone.as_bytes() == name);
    put_changed(doc, out, gone, |_, _| ());
}

/// Appends the fields of a document. In the place of those with a certain name stands what `write` writes. Runs of fields that
/// stay are copied as one.
pub fn put_changed(
    doc: Doc<'_>,
    out: &mut DocBuilder<'_>,
    is_changed: impl Fn(&[u8]) -> bool,
    mut write: impl FnMut(&[u8], &mut DocBuilder<'_>),
) {
    let body = doc.body();
    let mut fields = doc.iter();
    let (mut copied, mut at) = (0, 0);
    while let Some(elem) = fields.next() {
        let next = body.len() - fields.rest().len();
        if is_changed(elem.name_bytes()) {
            out.put_body(body.get(copied..at).unwrap_or_default());
            write(elem.name_bytes(), out);
            copied = next;
        }
        at = next;
    }
    out.put_body(body.get(copied..at).unwrap_or_default());
}
