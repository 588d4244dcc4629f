//! OP_MSG, the message format of all current drivers.
//!
//! ```text
//! header · uint32 flags · section+ · [uint32 crc32c of all bytes before it]
//! section = 0x00 · document                                      the command, exactly once
//!         | 0x01 · int32 size · name · 0x00 · document*           a sequence: one of its fields, laid out apart
//! ```

use std::borrow::Cow;

use bytes::{Buf, Bytes};

use crate::error::{Code, Error, Hangup, Result};
use crate::value::Doc;

use super::check;
use super::codec::Incoming;
use super::header::{Header, int32};
use super::{Form, ReplyTo, Request, Sequence};

pub(super) const CHECKSUM_PRESENT: u32 = 1;
pub(super) const MORE_TO_COME: u32 = 1 << 1;
const EXHAUST_ALLOWED: u32 = 1 << 16;

/// The low half of the flags changes the meaning of a message, so an unknown bit there cannot be ignored.
const REQUIRED: u32 = 0xFFFF;

const CHECKSUM_SIZE: usize = 4;

/// MongoDB's limit: bulkWrite sends two, every other command at most one.
const MAX_SEQUENCES: usize = 2;

/// The sections of a message.
struct Sections {
    /// The command document, as a range of the message.
    body: std::ops::Range<usize>,
    sequences: Vec<Sequence>,
}

/// Parses a complete message, header included.
pub(super) fn parse(header: Header, mut frame: Bytes) -> Result<Incoming, Hangup> {
    let flags = int32(&frame, Header::SIZE)
        .ok_or_else(|| Hangup::new("OP_MSG without flags"))?
        .cast_unsigned();
    if flags & REQUIRED & !(CHECKSUM_PRESENT | MORE_TO_COME) != 0 {
        return Err(Hangup::new(format!(
            "OP_MSG contains illegal flags value: {flags:#034b}"
        )));
    }
    let form = if flags & CHECKSUM_PRESENT == 0 {
        Form::Msg
    } else {
        verify(&mut frame)?;
        Form::CheckedMsg
    };
    let to = ReplyTo {
        request_id: header.request_id,
        form,
        wanted: flags & MORE_TO_COME == 0,
        compressor: None,
    };
    let Sections { body, sequences } = match sections(&frame)? {
        Ok(sections) => sections,
        Err(error) => return Ok(Incoming::Refused(to, error)),
    };
    frame.truncate(body.end);
    frame.advance(body.start);
    Ok(Incoming::Request(Request {
        body: frame,
        sequences,
        query_database: None,
        unacknowledged: !to.wanted,
        exhaust_allowed: flags & EXHAUST_ALLOWED != 0,
        request_id: to.request_id,
        form,
        compressor: None,
    }))
}

/// Verifies the checksum at the end of the message and cuts it off.
fn verify(frame: &mut Bytes) -> Result<(), Hangup> {
    let end = frame.len().saturating_sub(CHECKSUM_SIZE);
    let sent = int32(frame, end)
        .filter(|_| end >= Header::SIZE + 4)
        .ok_or_else(|| Hangup::new("OP_MSG is too short for the checksum it announces"))?;
    frame.truncate(end);
    if crc32c::crc32c(frame) != sent.cast_unsigned() {
        return Err(Hangup::new("OP_MSG checksum does not match contents"));
    }
    Ok(())
}

/// Splits the message into sections. An outer error ends the connection. An inner error becomes a reply: MongoDB answers
/// every message that it can split into sections.
fn sections(frame: &Bytes) -> Result<Result<Sections>, Hangup> {
    let mut body = None;
    let mut sequences: Vec<Sequence> = Vec::new();
    let mut at = Header::SIZE + 4;
    while let Some(&kind) = frame.get(at) {
        at += 1;
        let rest = frame.get(at..).unwrap_or_default();
        match kind {
            0 if body.is_some() => return refuse(40430, "Multiple body sections in message"),
            0 => match check::document(rest) {
                Ok(document) => {
                    body = Some(at..at + document.len());
                    at += document.len();
                }
                Err(error) => return Ok(Err(error)),
            },
            1 => {
                if sequences.len() == MAX_SEQUENCES {
                    return Err(Hangup::new("Too many document sequences in OP_MSG"));
                }
                let size = int32(rest, 0)
                    .and_then(|size| usize::try_from(size).ok())
                    .filter(|size| (4..=rest.len()).contains(size))
                    .ok_or_else(|| Hangup::new("OP_MSG document sequence with a bad size"))?;
                let sequence = match sequence(frame, at + 4, at + size) {
                    Ok(sequence) => sequence,
                    Err(error) => return Ok(Err(error)),
                };
                at += size;
                if sequences.iter().any(|known| known.name == sequence.name) {
                    return refuse(
                        40431,
                        format!("Duplicate document sequence: {}", sequence.name),
                    );
                }
                sequences.push(sequence);
            }
            2 => {
                return Ok(Err(Error::new(
                    Code::Unauthorized,
                    "Unsupported Security Token provided",
                )));
            }
            other => return refuse(40432, format!("Unknown section kind {other}")),
        }
    }
    let Some(body) = body else {
        return refuse(40587, "OP_MSG messages must have a body");
    };
    for sequence in &sequences {
        let command = Doc::new(frame.get(body.clone()).unwrap_or_default());
        if command.has(sequence.name.as_bytes()) {
            return refuse(
                40433,
                format!(
                    "Duplicate field between body and document sequence {}",
                    sequence.name
                ),
            );
        }
    }
    Ok(Ok(Sections { body, sequences }))
}

fn refuse<T>(number: i32, message: impl Into<String>) -> Result<Result<T>, Hangup> {
    Ok(Err(Error::location(number, message)))
}

/// Parses the sequence whose name begins at `start` and whose last document ends at `end`.
fn sequence(frame: &Bytes, start: usize, end: usize) -> Result<Sequence> {
    let inside = frame.get(start..end).unwrap_or_default();
    let length = inside
        .iter()
        .position(|&byte| byte == 0)
        .ok_or_else(|| check::invalid("document sequence without a name"))?;
    let name = inside
        .get(..length)
        .and_then(|name| std::str::from_utf8(name).ok())
        .ok_or_else(|| check::invalid("name of a document sequence is not UTF-8"))?;
    let mut rest = inside.get(length + 1..).unwrap_or_default();
    while !rest.is_empty() {
        let document = check::document(rest)?;
        rest = rest.get(document.len()..).unwrap_or_default();
    }
    Ok(Sequence {
        name: known_name(name),
        documents: frame.slice((start + length + 1).min(end)..end),
    })
}

/// Returns the name without an allocation, if it is one that drivers send.
fn known_name(name: &str) -> Cow<'static, str> {
    const KNOWN: [&str; 5] = ["documents", "updates", "deletes", "ops", "nsInfo"];
    KNOWN
        .into_iter()
        .find(|known| *known == name)
        .map_or_else(|| name.to_owned().into(), Cow::Borrowed)
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};
    use bytes::BytesMut;
    use tokio_util::codec::Decoder;

    use super::*;
    use crate::wire::{Codec, Opcode};

    fn message(flags: u32, sections: &[&[u8]]) -> BytesMut {
        let inside = sections.concat();
        let header = Header {
            length: 20 + inside.len(),
            request_id: 7,
            response_to: 0,
            opcode: Opcode::Msg,
        };
        let mut bytes = BytesMut::from(&header.to_bytes()[..]);
        bytes.extend_from_slice(&flags.to_le_bytes());
        bytes.extend_from_slice(&inside);
        bytes
    }

    fn with_checksum(sections: &[&[u8]], damage: u32) -> BytesMut {
        let mut bytes = message(CHECKSUM_PRESENT, &[sections.concat().as_slice(), &[0; 4]]);
        let end = bytes.len() - 4;
        let sum = crc32c::crc32c(&bytes[..end]) ^ damage;
        bytes[end..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn body(document: Document) -> Vec<u8> {
        [&[0][..], &document.to_vec().unwrap()].concat()
    }

    fn sequence_of(name: &str, documents: &[Document]) -> Vec<u8> {
        let mut inside = name.as_bytes().to_vec();
        inside.push(0);
        for document in documents {
            inside.extend(document.to_vec().unwrap());
        }
        let size = (inside.len() as i32 + 4).to_le_bytes();
        [&[1][..], &size, &inside].concat()
    }

    /// Returns the result of decoding a message in one word.
    fn outcome(mut bytes: BytesMut) -> String {
        match Codec::default().decode(&mut bytes) {
            Ok(Some(Incoming::Request(request))) => {
                assert!(bytes.is_empty());
                assert_eq!(request.request_id, 7);
                let first = request.body().first().map_or("", |first| first.name());
                let mut text = format!("run {first}");
                for sequence in &request.sequences {
                    text += &format!(" {}={}", sequence.name, sequence.iter().count());
                }
                for (set, word) in [
                    (request.form == Form::CheckedMsg, " checked"),
                    (request.unacknowledged, " silent"),
                    (request.exhaust_allowed, " exhaust"),
                ] {
                    if set {
                        text += word;
                    }
                }
                text
            }
            Ok(Some(Incoming::Refused(to, error))) => {
                assert_eq!(to.request_id, 7);
                format!("refuse {}", error.code().number())
            }
            Ok(None) => "wait".into(),
            Err(_) => "hang up".into(),
        }
    }

    #[test]
    fn messages_and_what_becomes_of_them() {
        let ping = || body(doc! {"ping": 1, "$db": "admin"});
        let insert = || body(doc! {"insert": "c", "$db": "d"});
        let docs = |n: i32| sequence_of("documents", &vec![doc! {"a": 1}; n as usize]);
        let ops = || sequence_of("ops", &[doc! {}]);
        let cut = |mut section: Vec<u8>, n: usize| {
            section.truncate(section.len() - n);
            section
        };
        let deep = |depth: usize| {
            let mut inner = doc! {};
            for _ in 1..depth {
                inner = doc! {"a": inner};
            }
            body(inner)
        };
        let not_utf8 = || {
            let mut section = body(doc! {"ping": "xy"});
            let at = section.len() - 4;
            section[at] = 0xFF;
            section
        };
        let rows: Vec<(&str, BytesMut, &str)> = vec![
            ("a command", message(0, &[&ping()]), "run ping"),
            (
                "with a sequence",
                message(0, &[&insert(), &docs(3)]),
                "run insert documents=3",
            ),
            (
                "sequence first",
                message(0, &[&docs(1), &insert()]),
                "run insert documents=1",
            ),
            (
                "two sequences",
                message(0, &[&insert(), &docs(2), &ops()]),
                "run insert documents=2 ops=1",
            ),
            (
                "an empty sequence",
                message(0, &[&insert(), &docs(0)]),
                "run insert documents=0",
            ),
            (
                "three sequences",
                message(0, &[&insert(), &docs(1), &ops(), &sequence_of("x", &[])]),
                "hang up",
            ),
            ("moreToCome", message(2, &[&ping()]), "run ping silent"),
            (
                "exhaustAllowed",
                message(1 << 16, &[&ping()]),
                "run ping exhaust",
            ),
            (
                "unknown optional bits",
                message(0xFFFE_0000, &[&ping()]),
                "run ping",
            ),
            ("unknown required bit 2", message(4, &[&ping()]), "hang up"),
            (
                "unknown required bit 15",
                message(1 << 15, &[&ping()]),
                "hang up",
            ),
            (
                "right checksum",
                with_checksum(&[&ping()], 0),
                "run ping checked",
            ),
            (
                "right checksum and a sequence",
                with_checksum(&[&insert(), &docs(2)], 0),
                "run insert documents=2 checked",
            ),
            ("wrong checksum", with_checksum(&[&ping()], 1), "hang up"),
            (
                "nothing but a checksum",
                with_checksum(&[], 0),
                "refuse 40587",
            ),
            ("no room for the checksum", message(1, &[]), "hang up"),
            ("no sections", message(0, &[]), "refuse 40587"),
            ("only a sequence", message(0, &[&docs(1)]), "refuse 40587"),
            (
                "two bodies",
                message(0, &[&ping(), &ping()]),
                "refuse 40430",
            ),
            (
                "the same sequence twice",
                message(0, &[&insert(), &docs(1), &docs(1)]),
                "refuse 40431",
            ),
            (
                "unknown section kind",
                message(0, &[&ping(), &[9]]),
                "refuse 40432",
            ),
            (
                "trailing zero",
                message(0, &[&ping(), &[0]]),
                "refuse 40430",
            ),
            (
                "security token",
                message(0, &[&ping(), &[2, 0]]),
                "refuse 13",
            ),
            (
                "field in body and sequence",
                message(0, &[&body(doc! {"insert": "c", "documents": []}), &docs(1)]),
                "refuse 40433",
            ),
            (
                "body cut short",
                message(0, &[&cut(ping(), 1)]),
                "refuse 22",
            ),
            (
                "body without a length",
                message(0, &[&[0, 5, 0]]),
                "refuse 22",
            ),
            (
                "body longer than its limit",
                message(0, &[&[0, 0, 0, 0, 2, 0]]),
                "refuse 10334",
            ),
            (
                "body of negative length",
                message(0, &[&[0, 0xFF, 0xFF, 0xFF, 0xFF, 0]]),
                "refuse 10334",
            ),
            (
                "body shorter than a document",
                message(0, &[&[0, 4, 0, 0, 0]]),
                "refuse 22",
            ),
            (
                "sequence cut short",
                message(0, &[&insert(), &cut(docs(1), 1)]),
                "hang up",
            ),
            (
                "sequence of size 3",
                message(0, &[&insert(), &[1, 3, 0, 0, 0]]),
                "hang up",
            ),
            (
                "sequence of negative size",
                message(0, &[&insert(), &[1, 0xFF, 0xFF, 0xFF, 0xFF]]),
                "hang up",
            ),
            (
                "sequence without a size",
                message(0, &[&insert(), &[1, 3]]),
                "hang up",
            ),
            (
                "sequence without a name",
                message(0, &[&insert(), &[1, 6, 0, 0, 0, b'a', b'b']]),
                "refuse 22",
            ),
            (
                "sequence whose name is not UTF-8",
                message(0, &[&insert(), &[1, 6, 0, 0, 0, 0xFF, 0]]),
                "refuse 22",
            ),
            (
                "document of a sequence cut short",
                message(0, &[&insert(), &[1, 8, 0, 0, 0, b'a', 0, 5, 0]]),
                "refuse 22",
            ),
            (
                "text that is not UTF-8",
                message(0, &[&not_utf8()]),
                "refuse 22",
            ),
            ("200 levels below", message(0, &[&deep(201)]), "run a"),
            ("201 levels below", message(0, &[&deep(202)]), "refuse 15"),
        ];
        for (what, bytes, expected) in rows {
            assert_eq!(outcome(bytes), expected, "{what}");
        }
    }

    #[test]
    fn every_cut_waits_and_every_changed_byte_is_survived() {
        let whole = with_checksum(
            &[
                &body(doc! {"insert": "c", "x": [1, {"y": "z"}], "$db": "d"}),
                &sequence_of("documents", &[doc! {"a": 1.5}, doc! {}]),
            ],
            0,
        );
        for cut in 0..whole.len() {
            assert_eq!(
                outcome(BytesMut::from(&whole[..cut])),
                "wait",
                "{cut} bytes"
            );
        }
        for at in 16..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x41;
            assert_ne!(outcome(damaged), outcome(whole.clone()), "byte {at}");
        }
    }

    #[test]
    fn a_length_alone_gets_little_memory() {
        let mut bytes = BytesMut::new();
        bytes.extend_from_slice(&48_000_000i32.to_le_bytes());
        bytes.extend_from_slice(&[7, 0, 0, 0, 0, 0, 0, 0, 0xDD, 7, 0, 0]);
        for _ in 0..100 {
            assert!(Codec::default().decode(&mut bytes).unwrap().is_none());
            assert!(bytes.capacity() <= 64 * 1024);
        }
    }
}
