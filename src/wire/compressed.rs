//! OP_COMPRESSED: another message in compressed form.
//!
//! ```text
//! header · int32 opcode of what is inside · int32 its size · uint8 compressor · compressed bytes
//! ```
//!
//! The compressed bytes are the other message without its header. A reply is compressed like its request, if that makes it
//! smaller.

use bytes::Bytes;

use crate::error::Hangup;

use super::codec::Incoming;
use super::compress::{Compressor, Compressors};
use super::header::{Header, Opcode, int32};
use super::{MAX_MESSAGE, msg, query};

/// The offset of the compressed bytes.
const HEAD: usize = Header::SIZE + 9;

/// Commands that drivers never compress, and whose replies are not compressed either: the compressed size could reveal a
/// secret.
const PLAIN: [&str; 12] = [
    "authenticate",
    "copydb",
    "copydbgetnonce",
    "copydbSaslStart",
    "createUser",
    "getnonce",
    "hello",
    "isMaster",
    "ismaster",
    "saslContinue",
    "saslStart",
    "updateUser",
];

/// Returns the announced size of the compressed message that begins here, or `None` if it is not compressed.
#[inline]
pub(super) fn inflated_size(bytes: &[u8]) -> Option<usize> {
    int32(bytes, 12).filter(|opcode| *opcode == Opcode::Compressed as i32)?;
    usize::try_from(int32(bytes, Header::SIZE + 4)?).ok()
}

/// A compressed message: its compressor, and the size of its content in compressed and in inflated form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressedMessage {
    pub compressor: Compressor,
    pub small: usize,
    pub large: usize,
}

/// Describes the compressed message that begins here, if it is complete. The announced size is not checked.
pub(super) fn peek(bytes: &[u8]) -> Option<CompressedMessage> {
    let large = inflated_size(bytes)?;
    let length = usize::try_from(int32(bytes, 0)?).ok()?;
    Some(CompressedMessage {
        compressor: Compressor::by_id(*bytes.get(HEAD - 1)?)?,
        small: length.checked_sub(HEAD).filter(|_| length <= bytes.len())?,
        large,
    })
}

/// Inflates a complete message and parses the message inside. `own` takes the inflated bytes. Every error in the compressed
/// form ends the connection.
pub(super) fn parse(
    header: Header,
    frame: &[u8],
    offered: Compressors,
    own: impl FnOnce(Vec<u8>) -> Bytes,
) -> Result<Incoming, Hangup> {
    let (header, message, compressor) = inflate_with(header, frame, offered)?;
    let message = own(message);
    let mut incoming = match header.opcode {
        Opcode::Query => query::parse(header, message)?,
        _ => msg::parse(header, message)?,
    };
    match &mut incoming {
        Incoming::Request(request) => {
            let name = request.body().first().map_or("", |first| first.name());
            request.compressor = Some(compressor).filter(|_| may_compress(name));
        }
        Incoming::Refused(to, _) => to.compressor = Some(compressor),
    }
    Ok(incoming)
}

/// Returns whether messages of the command may be compressed.
pub(super) fn may_compress(command: &str) -> bool {
    !PLAIN.contains(&command)
}

/// Inflates a complete message, and returns the message inside with its header.
pub(super) fn inflate(
    header: Header,
    frame: &[u8],
    offered: Compressors,
) -> Result<(Header, Bytes), Hangup> {
    let (header, message, _) = inflate_with(header, frame, offered)?;
    Ok((header, message.into()))
}

fn inflate_with(
    header: Header,
    frame: &[u8],
    offered: Compressors,
) -> Result<(Header, Vec<u8>, Compressor), Hangup> {
    let (Some(opcode), Some(size), Some(&id)) = (
        int32(frame, Header::SIZE),
        int32(frame, Header::SIZE + 4),
        frame.get(HEAD - 1),
    ) else {
        return Err(Hangup::new("OP_COMPRESSED is too short"));
    };
    let opcode = match Opcode::from_wire(opcode) {
        Some(opcode @ (Opcode::Msg | Opcode::Query)) => opcode,
        _ => return Err(Hangup::new(format!("OP_COMPRESSED of opcode {opcode}"))),
    };
    let compressor = Compressor::by_id(id)
        .filter(|compressor| offered.has(*compressor))
        .ok_or_else(|| {
            Hangup::new(format!(
                "OP_COMPRESSED by compressor {id}, which is not offered"
            ))
        })?;
    let compressed = frame.get(HEAD..).unwrap_or_default();
    let length = usize::try_from(size)
        .ok()
        .filter(|size| compressor.can_become(compressed.len(), *size))
        .map(|size| size.saturating_add(Header::SIZE))
        .filter(|length| *length <= MAX_MESSAGE)
        .ok_or_else(|| {
            let given = compressed.len();
            Hangup::new(format!("OP_COMPRESSED that makes {size} bytes of {given}"))
        })?;
    let header = Header {
        length,
        opcode,
        ..header
    };
    let mut message = vec![0; length];
    let (head, inside) = message.split_at_mut(Header::SIZE);
    head.copy_from_slice(&header.to_bytes());
    compressor.inflate(compressed, inside).ok_or_else(|| {
        let name = compressor.name();
        Hangup::new(format!(
            "OP_COMPRESSED whose {name} bytes are not {size} others"
        ))
    })?;
    Ok((header, message, compressor))
}

/// Compresses the complete message that begins at `start` and ends with `out`, if that makes it smaller.
pub(super) fn wrap(compressor: Compressor, start: usize, out: &mut Vec<u8>) {
    let Ok(Some(header)) = Header::peek(out.get(start..).unwrap_or_default()) else {
        return;
    };
    let inside = out.get(start + Header::SIZE..).unwrap_or_default();
    let Some(compressed) = compressor.deflate(inside) else {
        return;
    };
    // Both fit into an int32: they are below 48 million.
    let (opcode, size) = (header.opcode as i32, inside.len() as i32);
    let header = Header {
        length: HEAD + compressed.len(),
        opcode: Opcode::Compressed,
        ..header
    };
    if header.length >= out.len() - start {
        return;
    }
    out.truncate(start);
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(&opcode.to_le_bytes());
    out.extend_from_slice(&size.to_le_bytes());
    out.push(compressor as u8);
    out.extend_from_slice(&compressed);
}
