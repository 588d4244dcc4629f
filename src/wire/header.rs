//! The header: the first sixteen bytes of every message.
//!
//! ```text
//! int32 length (of all of it) · int32 request id · int32 response to · int32 opcode
//! ```

use crate::error::Hangup;

use super::MAX_MESSAGE;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The length of the whole message, header included. It is within the limits.
    pub length: usize,
    pub request_id: i32,
    pub response_to: i32,
    pub opcode: Opcode,
}

/// The kinds of messages that the server understands. MongoDB 6 and later have no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    Reply = 1,
    Query = 2004,
    Compressed = 2012,
    Msg = 2013,
}

/// The first bytes of a TLS handshake.
const TLS: [u8; 2] = [0x16, 0x03];

// === impl Header ===

impl Header {
    pub const SIZE: usize = 16;

    /// Reads the header of the message that begins here, once it has arrived completely. It reports a bad length as soon as
    /// the first four bytes are there, so that the server does not wait for the rest of garbage.
    #[inline]
    pub fn peek(bytes: &[u8]) -> Result<Option<Self>, Hangup> {
        let Some(length) = int32(bytes, 0) else {
            return Ok(None);
        };
        let length = match usize::try_from(length) {
            Ok(length) if (Self::SIZE..=MAX_MESSAGE).contains(&length) => length,
            _ if bytes.starts_with(&TLS) => {
                return Err(Hangup::new("a TLS handshake, and TLS is not switched on"));
            }
            _ => {
                return Err(Hangup::new(format!(
                    "message length {length} is invalid; min {} max {MAX_MESSAGE}",
                    Self::SIZE
                )));
            }
        };
        let (Some(request_id), Some(response_to), Some(opcode)) =
            (int32(bytes, 4), int32(bytes, 8), int32(bytes, 12))
        else {
            return Ok(None);
        };
        let opcode = Opcode::from_wire(opcode)
            .ok_or_else(|| Hangup::new(format!("opcode {opcode} is not supported")))?;
        Ok(Some(Self {
            length,
            request_id,
            response_to,
            opcode,
        }))
    }

    #[inline]
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let length = i32::try_from(self.length).unwrap_or(i32::MAX);
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.request_id.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.response_to.to_le_bytes());
        bytes[12..].copy_from_slice(&(self.opcode as i32).to_le_bytes());
        bytes
    }
}

// === impl Opcode ===

impl Opcode {
    #[inline]
    pub(super) fn from_wire(number: i32) -> Option<Self> {
        Some(match number {
            2013 => Self::Msg,
            2012 => Self::Compressed,
            2004 => Self::Query,
            1 => Self::Reply,
            _ => return None,
        })
    }
}

/// Returns the little-endian number at `at`, if all its bytes are there.
#[inline]
pub(super) fn int32(bytes: &[u8], at: usize) -> Option<i32> {
    let word = bytes.get(at..)?.first_chunk::<4>()?;
    Some(i32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back_and_waits_for_its_bytes() {
        let header = Header {
            length: 99,
            request_id: 7,
            response_to: -1,
            opcode: Opcode::Msg,
        };
        let bytes = header.to_bytes();
        for cut in 0..bytes.len() {
            assert_eq!(Header::peek(&bytes[..cut]), Ok(None), "{cut} bytes");
        }
        assert_eq!(Header::peek(&bytes), Ok(Some(header)));
    }

    #[test]
    fn bad_lengths_and_opcodes_are_refused_at_once() {
        for length in [-1, 0, 15, 48_000_001, i32::MAX, i32::MIN] {
            assert!(Header::peek(&length.to_le_bytes()).is_err(), "{length}");
        }
        for opcode in [0, 2, 2001, 2002, 2005, 2006, 2007, 2010, 2011, 2014, -1] {
            let mut bytes = Header {
                length: 16,
                request_id: 0,
                response_to: 0,
                opcode: Opcode::Msg,
            }
            .to_bytes();
            bytes[12..].copy_from_slice(&i32::to_le_bytes(opcode));
            assert!(Header::peek(&bytes).is_err(), "{opcode}");
        }
    }
}
