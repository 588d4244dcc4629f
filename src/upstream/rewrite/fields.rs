//! Commands written anew: the fields that change, and all others as they came.

use bytes::Bytes;

use super::stamp::put_changed;
use crate::error::{Error, Result};
use crate::value::{Doc, DocBuf, DocBuilder, ValueRef};
use crate::wire::{Request, Sequence};

/// Returns the command with some fields replaced, added at the end, or left out (a missing value).
///
/// `$readPreference` is left out: rules hold for what the primary answers.
pub fn with_fields(command: Doc<'_>, fields: &[(&str, ValueRef<'_>)]) -> DocBuf {
    let added: usize = fields
        .iter()
        .map(|(_, value)| value.data().len() + 32)
        .sum();
    DocBuf::build_sized(command.bytes().len() + added, |out| {
        let is_changed = |name: &[u8]| name == b"$readPreference" || known(name, fields).is_some();
        put_changed(command, out, is_changed, |name, out| {
            put_known(name, fields, out);
        });
        for (name, value) in fields.iter().filter(|(name, _)| !command.has(name)) {
            out.put(name, *value);
        }
    })
}

/// Returns a statement with some of its fields replaced.
pub fn with_replaced(statement: Doc<'_>, fields: &[(&str, ValueRef<'_>)]) -> DocBuf {
    let added: usize = fields.iter().map(|(_, value)| value.data().len()).sum();
    DocBuf::build_sized(statement.bytes().len() + added, |out| {
        let is_changed = |name: &[u8]| known(name, fields).is_some();
        put_changed(statement, out, is_changed, |name, out| {
            put_known(name, fields, out);
        });
    })
}

fn known<'a>(
    name: &[u8],
    fields: &'a [(&'a str, ValueRef<'a>)],
) -> Option<&'a (&'a str, ValueRef<'a>)> {
    fields.iter().find(|(known, _)| known.as_bytes() == name)
}

fn put_known(name: &[u8], fields: &[(&str, ValueRef<'_>)], out: &mut DocBuilder<'_>) {
    if let Some((name, value)) = known(name, fields) {
        out.put(name, *value);
    }
}

/// Returns the request with another body.
pub fn with_body(request: &Request, body: DocBuf) -> Request {
    Request {
        body: Bytes::from(body.into_bytes()),
        ..request.clone()
    }
}

/// Returns a cursor reply with one field of its cursor replaced.
pub fn with_cursor(reply: Doc<'_>, (replaced, value): (&str, ValueRef<'_>)) -> Bytes {
    let cursor = doc_or_empty(reply, "cursor");
    let size = reply.bytes().len() + value.data().len();
    let shown = DocBuf::build_sized(size, |out| {
        for elem in reply {
            if elem.name() != "cursor" {
                out.put(elem.name(), elem.value);
                continue;
            }
            let mut inner = out.doc("cursor");
            for elem in cursor {
                match elem.name() {
                    name if name == replaced => inner.put(name, value),
                    name => inner.put(name, elem.value),
                };
            }
            inner.end();
        }
    });
    shown.into_bytes().into()
}

/// Returns the statements of a write command: from its body or from a sequence.
pub fn statements<'a>(request: &'a Request, name: &str) -> Result<Vec<Doc<'a>>> {
    if let Some(sequence) = request.sequence(name) {
        return Ok(sequence.iter().collect());
    }
    let value = request.body().get(name);
    let array = value.as_array();
    array
        .into_iter()
        .flatten()
        .map(|elem| elem.value.as_doc())
        .collect::<Option<Vec<_>>>()
        .filter(|_| array.is_some())
        .ok_or_else(|| {
            Error::type_mismatch(format!("BSON field '{name}' must be an array of objects"))
        })
}

/// Returns the request with these statements, as a sequence.
pub fn with_statements(
    request: &Request,
    body: DocBuf,
    name: &'static str,
    documents: impl Into<Bytes>,
) -> Request {
    let mut changed = with_body(request, body);
    changed.sequences.retain(|sequence| sequence.name != name);
    changed.sequences.push(Sequence {
        name: name.into(),
        documents: documents.into(),
    });
    changed
}

/// The document under a name, or an empty one.
pub fn doc_or_empty<'a>(command: Doc<'a>, name: &str) -> Doc<'a> {
    command.get(name).as_doc().unwrap_or(Doc::EMPTY)
}
