//! OP_MSG, the one message that everybody sends.
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
const MORE_TO_COME: u32 = 1 << 1;
const EXHAUST_ALLOWED: u32 = 1 << 16;

/// The low half of the flags changes what a message means: an unknown bit there cannot be passed over.
const REQUIRED: u32 = 0xFFFF;

const CHECKSUM_SIZE: usize = 4;

/// MongoDB's limit: bulkWrite sends two, every other command at most one.
const MAX_SEQUENCES: usize = 2;

/// Where the sections of a message lie.
struct Sections {
    /// The command document, as a range of the message.
    body: std::ops::Range<usize>,
    sequences: Vec<Sequence>,
}

/// Reads a whole message, header included.
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
    }))
}

/// Compares the checksum at the end with the bytes before it, and takes it off.
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

/// The outer result ends the connection, the inner one becomes a reply: MongoDB answers what it could cut into sections.
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

/// The sequence whose name begins at `start` and whose last document ends at `end`.
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

/// The names that drivers send cost no allocation.
fn known_name(name: &str) -> Cow<'static, str> {
    const KNOWN: [&str; 5] = ["documents", "updates", "deletes", "ops", "nsInfo"];
    KNOWN
        .into_iter()
        .find(|known| *known == name)
        .map_or_else(|| name.to_owned().into(), Cow::Borrowed)
}
