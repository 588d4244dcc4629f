//! OP_QUERY, kept for the first hello of older handshakes and nothing else.
//!
//! ```text
//! header · int32 flags · "db.$cmd" · 0x00 · int32 skip · int32 return · document · [document: fields to return]
//! ```

use bytes::{Buf, Bytes};

use crate::error::{Code, Error, Hangup, Result};
use crate::value::Doc;

use super::check;
use super::codec::Incoming;
use super::header::{Header, int32};
use super::{Form, ReplyTo, Request};

/// What MongoDB 8 still lets through, because drivers ask it before they know whom they talk to.
const ALLOWED: [&str; 9] = [
    "_isSelf",
    "authenticate",
    "buildInfo",
    "buildinfo",
    "hello",
    "isMaster",
    "ismaster",
    "saslContinue",
    "saslStart",
];

pub(super) fn parse(header: Header, mut frame: Bytes) -> Result<Incoming, Hangup> {
    let name_at = Header::SIZE + 4;
    let rest = frame.get(name_at..).unwrap_or_default();
    let name_length = rest
        .iter()
        .position(|&byte| byte == 0)
        .ok_or_else(|| Hangup::new("OP_QUERY without a collection name"))?;
    let database = rest
        .get(..name_length)
        .and_then(|name| std::str::from_utf8(name).ok())
        .and_then(|name| name.strip_suffix(".$cmd"))
        .filter(|database| !database.is_empty())
        .ok_or_else(|| Hangup::new("OP_QUERY is only supported for commands on db.$cmd"))?
        .to_owned();
    let numbers_at = name_at + name_length + 1;
    let to_return = int32(&frame, numbers_at + 4)
        .ok_or_else(|| Hangup::new("OP_QUERY is too short for its numbers"))?;
    let to = ReplyTo {
        request_id: header.request_id,
        form: Form::Reply,
        wanted: true,
    };
    match command(&frame, numbers_at + 8, to_return) {
        Ok(range) => {
            frame.truncate(range.end);
            frame.advance(range.start);
            Ok(Incoming::Request(Request {
                body: frame,
                sequences: Vec::new(),
                query_database: Some(database),
                unacknowledged: false,
                exhaust_allowed: false,
                request_id: to.request_id,
                form: to.form,
            }))
        }
        Err(error) => Ok(Incoming::Refused(to, error)),
    }
}

/// Where the command document lies, out of its `$query` wrapper if it has one.
fn command(frame: &[u8], at: usize, to_return: i32) -> Result<std::ops::Range<usize>> {
    let rest = frame.get(at..).unwrap_or_default();
    let document = check::document(rest)?;
    let behind = rest.get(document.len()..).unwrap_or_default();
    if !behind.is_empty() && check::document(behind)?.len() != behind.len() {
        return Err(check::invalid("bytes behind the last document of OP_QUERY"));
    }
    if !matches!(to_return, 1 | -1) {
        return Err(Error::location(
            16979,
            format!("Bad numberToReturn ({to_return}) for $cmd type ns - can only be 1 or -1"),
        ));
    }
    let whole = Doc::new(document);
    let (range, command) = match whole.first() {
        Some(first) if matches!(first.name(), "$query" | "query") => match first.value.as_doc() {
            // `$query` is the first field: length, tag, name and its zero stand before it.
            Some(inner) => {
                let start = at + 4 + 1 + first.name().len() + 1;
                (start..start + inner.bytes().len(), inner)
            }
            None => (at..at + document.len(), whole),
        },
        _ => (at..at + document.len(), whole),
    };
    let name = command.first().map_or("", |first| first.name());
    if !ALLOWED.contains(&name) {
        return Err(Error::new(
            Code::UnsupportedOpQueryCommand,
            format!(
                "Unsupported OP_QUERY command: {name}. The client driver may require an upgrade. \
                 For more details see https://dochub.mongodb.org/core/legacy-opcode-removal"
            ),
        ));
    }
    Ok(range)
}
