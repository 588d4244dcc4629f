//! OP_QUERY. Older handshakes send their first hello with it; it has no other use.
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

/// The commands that MongoDB 8 still accepts, because drivers send them before they know the server.
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
        compressor: None,
    };
    match command(&frame, numbers_at + 8, to_return) {
        Ok(range) => {
            frame.truncate(range.end);
            frame.advance(range.start);
            Ok(Incoming::Request(Request {
                query_database: Some(database),
                request_id: to.request_id,
                form: to.form,
                ..Request::new(frame)
            }))
        }
        Err(error) => Ok(Incoming::Refused(to, error)),
    }
}

/// Returns the range of the command document, without its `$query` wrapper if it has one.
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
            // `$query` is the first field: length, type, name and the zero byte come before it.
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

#[cfg(test)]
mod tests {
    use bson::{Document, doc};
    use bytes::BytesMut;
    use tokio_util::codec::Decoder;

    use super::*;
    use crate::wire::{Codec, Opcode};

    fn message(namespace: &str, to_return: i32, documents: &[Document], tail: &[u8]) -> BytesMut {
        let mut inside = vec![0; 4];
        inside.extend_from_slice(namespace.as_bytes());
        inside.extend_from_slice(&[0; 5]);
        inside.extend_from_slice(&to_return.to_le_bytes());
        for document in documents {
            inside.extend(document.to_vec().unwrap());
        }
        inside.extend_from_slice(tail);
        let header = Header {
            length: 16 + inside.len(),
            request_id: 3,
            response_to: 0,
            opcode: Opcode::Query,
        };
        let mut bytes = BytesMut::from(&header.to_bytes()[..]);
        bytes.extend_from_slice(&inside);
        bytes
    }

    fn outcome(mut bytes: BytesMut) -> String {
        match Codec::default().decode(&mut bytes) {
            Ok(Some(Incoming::Request(request))) => {
                assert_eq!(request.form, Form::Reply);
                let first = request.body().first().map_or("", |first| first.name());
                format!(
                    "{} {first}",
                    request.query_database.as_deref().unwrap_or_default()
                )
            }
            Ok(Some(Incoming::Refused(_, error))) => format!("refuse {}", error.code().number()),
            Ok(None) => "wait".into(),
            Err(_) => "hang up".into(),
        }
    }

    #[test]
    fn old_hellos_and_nothing_else() {
        let hello = || doc! {"ismaster": 1, "client": {}};
        let rows: Vec<(&str, BytesMut, &str)> = vec![
            (
                "hello",
                message("admin.$cmd", -1, &[hello()], &[]),
                "admin ismaster",
            ),
            (
                "wants one",
                message("admin.$cmd", 1, &[hello()], &[]),
                "admin ismaster",
            ),
            (
                "with fields",
                message("a.b.$cmd", -1, &[hello(), doc! {}], &[]),
                "a.b ismaster",
            ),
            (
                "wrapped",
                message(
                    "admin.$cmd",
                    -1,
                    &[doc! {"$query": hello(), "$readPreference": {}}],
                    &[],
                ),
                "admin ismaster",
            ),
            (
                "another command",
                message("admin.$cmd", -1, &[doc! {"ping": 1}], &[]),
                "refuse 352",
            ),
            (
                "an empty one",
                message("admin.$cmd", -1, &[doc! {}], &[]),
                "refuse 352",
            ),
            (
                "wants two",
                message("admin.$cmd", 2, &[hello()], &[]),
                "refuse 16979",
            ),
            (
                "trailing bytes",
                message("admin.$cmd", -1, &[hello()], &[0]),
                "refuse 22",
            ),
            (
                "three documents",
                message("admin.$cmd", -1, &[hello(), doc! {}, doc! {}], &[]),
                "refuse 22",
            ),
            (
                "no document",
                message("admin.$cmd", -1, &[], &[]),
                "refuse 22",
            ),
            (
                "a find",
                message("test.things", 0, &[doc! {}], &[]),
                "hang up",
            ),
            (
                "no database",
                message(".$cmd", -1, &[hello()], &[]),
                "hang up",
            ),
        ];
        for (what, bytes, expected) in rows {
            assert_eq!(outcome(bytes), expected, "{what}");
        }
    }

    #[test]
    fn any_length_is_survived() {
        let whole = message("admin.$cmd", -1, &[doc! {"hello": 1}], &[]);
        for length in 16..whole.len() {
            let mut cut = BytesMut::from(&whole[..length]);
            cut[..4].copy_from_slice(&(length as i32).to_le_bytes());
            assert_ne!(outcome(cut), "admin hello", "{length} bytes");
        }
    }
}
