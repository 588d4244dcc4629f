//! The end of a reply: `ok: 1`, or the error in mongod's form.

use crate::error::{Error, WriteError};
use crate::value::{Doc, DocBuilder, Type, Value, ValueRef};

/// Replaces everything after `start` with the reply of a failed command.
pub(in crate::command) fn fail(out: &mut Vec<u8>, start: usize, error: &Error) {
    out.truncate(start);
    error.write_reply(out);
}

/// Replaces everything after `start` with the reply of a failed command that has more to tell.
pub(in crate::command) fn fail_and_tell(
    out: &mut Vec<u8>,
    start: usize,
    error: &Error,
    tell: impl FnOnce(&mut DocBuilder<'_>),
) {
    out.truncate(start);
    let mut reply = DocBuilder::begin(out);
    tell(&mut reply);
    error.write_fields(&mut reply);
    reply.end();
}

/// Replaces the reply that begins at `start` with one that tells nothing of what was written.
pub(in crate::command) fn shorten(out: &mut Vec<u8>, start: usize) {
    let counts = ["n", "nModified"].map(|name| behind(out, start).has(name).then_some(name));
    out.truncate(start);
    let mut reply = DocBuilder::begin(out);
    for name in counts.into_iter().flatten() {
        reply.put_i32(name, 0);
    }
    reply.put_f64("ok", 1.0);
    reply.end();
}

/// Returns the reply that begins at `start`.
pub(in crate::command) fn behind(out: &[u8], start: usize) -> Doc<'_> {
    Doc::new(out.get(start..).unwrap_or_default())
}

/// Adds fields to the reply that begins at `start`.
pub(in crate::command) fn extend(
    out: &mut Vec<u8>,
    start: usize,
    write: impl FnOnce(&mut DocBuilder<'_>),
) {
    let whole = out.split_off(start);
    let mut reply = DocBuilder::begin(out);
    reply.put_body(Doc::new(&whole).body());
    write(&mut reply);
    reply.end();
}

/// Writes `writeErrors`, if there are any: `[{index, code, errmsg, keyPattern, keyValue, ...}]`.
pub fn put_write_errors(reply: &mut DocBuilder<'_>, errors: &[WriteError]) {
    if errors.is_empty() {
        return;
    }
    let mut array = reply.array("writeErrors");
    for WriteError { index, error } in errors {
        let mut entry = array.doc();
        entry
            .put_i32("index", i32::try_from(*index).unwrap_or(i32::MAX))
            .put_i32("code", error.code().number())
            .put_str("errmsg", error.message());
        if let Some(details) = error.details() {
            entry.put_body(Doc::new(details).body());
        }
        entry.end();
    }
    array.end();
}

/// Writes a count as MongoDB does: as int32 if it fits, else as int64.
pub fn put_count(reply: &mut DocBuilder<'_>, name: &str, n: u64) {
    match i32::try_from(n) {
        Ok(n) => reply.put_i32(name, n),
        Err(_) => reply.put_i64(name, i64::try_from(n).unwrap_or(i64::MAX)),
    };
}

/// Writes a UUID (binary subtype 4).
pub fn put_uuid(reply: &mut DocBuilder<'_>, name: &str, uuid: &[u8; 16]) {
    reply.put(name, Value::binary(4, uuid).as_ref());
}

/// Writes `topologyVersion`, which drivers compare: the process, and how often its state has changed.
pub(in crate::command) fn put_topology_version(reply: &mut DocBuilder<'_>, process: &[u8; 12]) {
    let mut version = reply.doc("topologyVersion");
    version
        .put("processId", ValueRef::new(Type::ObjectId, process))
        .put_i64("counter", 0);
    version.end();
}
