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
        let is_changed = |name: &[u8]| is_changed(name, fields);
        put_changed(command, out, is_changed, |name, out| {
            put_known(name, fields, out);
        });
        for (name, value) in fields.iter().filter(|(name, _)| !command.has(name)) {
            out.put(name, *value);
        }
    })
}

/// Returns the body of a request with some fields changed, as [`with_fields`] does. If none changes, it is not copied.
pub fn body_with(request: &Request, fields: &[(&str, ValueRef<'_>)]) -> Bytes {
    let command = request.body();
    let adds = fields.iter().any(|(_, value)| !value.is_missing());
    let stays = !adds
        && command
            .iter()
            .all(|elem| !is_changed(elem.name_bytes(), fields));
    if stays {
        return request.body.clone();
    }
    with_fields(command, fields).into_bytes().into()
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

fn is_changed(name: &[u8], fields: &[(&str, ValueRef<'_>)]) -> bool {
    name == b"$readPreference" || known(name, fields).is_some()
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
pub fn with_body(request: &Request, body: impl Into<Bytes>) -> Request {
    Request {
        body: body.into(),
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
    body: impl Into<Bytes>,
    name: &'static str,
    documents: impl Into<Bytes>,
) -> Request {
    let others = request.sequences.iter();
    let mut sequences = Vec::with_capacity(1);
    sequences.extend(others.filter(|sequence| sequence.name != name).cloned());
    sequences.push(Sequence {
        name: name.into(),
        documents: documents.into(),
    });
    Request {
        body: body.into(),
        sequences,
        query_database: request.query_database.clone(),
        ..*request
    }
}

/// The document under a name, or an empty one.
pub fn doc_or_empty<'a>(command: Doc<'a>, name: &str) -> Doc<'a> {
    command.get(name).as_doc().unwrap_or(Doc::EMPTY)
}
