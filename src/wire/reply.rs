//! Frames a reply in place: the header is written first without a length, the handler appends the document, then the length
//! is filled in. Nothing is copied.
//!
//! ```text
//! OP_MSG    header · uint32 flags · 0x00 · document · [uint32 crc32c]
//! OP_REPLY  header · int32 flags · int64 cursor id · int32 starting from · int32 documents · document
//! ```

use crate::error::Hangup;

use super::header::{Header, Opcode};
use super::msg::{CHECKSUM_PRESENT, MORE_TO_COME};
use super::{Compressor, MAX_MESSAGE, compressed};

/// The layout of a message around its document. A reply has the form of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Msg,
    /// OP_MSG with a checksum at its end.
    CheckedMsg,
    /// OP_REPLY, the answer to OP_QUERY.
    Reply,
}

/// Everything about a request that its reply needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyTo {
    pub request_id: i32,
    pub form: Form,
    /// False for unacknowledged writes: the client does not wait for a reply.
    pub wanted: bool,
    pub compressor: Option<Compressor>,
}

/// A message that was started at the end of a buffer.
#[derive(Debug)]
#[must_use]
pub struct Frame {
    start: usize,
    form: Form,
    compressor: Option<Compressor>,
}

/// A flag of OP_REPLY: the server can wait for data. Every server of the last ten years sets it.
const AWAIT_CAPABLE: i32 = 8;

// === impl ReplyTo ===

impl ReplyTo {
    /// Writes everything in front of the document. `id` is the number of the reply itself.
    #[inline]
    pub fn begin(self, id: i32, out: &mut Vec<u8>) -> Frame {
        let start = out.len();
        let (head, length) = self.form.head(id, self.request_id);
        out.extend_from_slice(head.get(..length).unwrap_or_default());
        Frame {
            start,
            form: self.form,
            compressor: self.compressor,
        }
    }
}

// === impl Frame ===

impl Frame {
    /// Returns the offset of the message in its buffer.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Notes that the complete messages in front of this one have left the buffer.
    pub fn moved_to_front(&mut self) {
        self.start = 0;
    }

    /// Returns whether finishing the message includes compressing it.
    pub fn is_compressed(&self) -> bool {
        self.compressor.is_some()
    }

    /// Sets the flag that another message follows without a request. Only an OP_MSG has this flag.
    pub fn announce_next(&self, out: &mut [u8]) {
        debug_assert!(self.form != Form::Reply);
        if let Some(flags) = out.get_mut(self.start + Header::SIZE) {
            *flags |= MORE_TO_COME as u8;
        }
    }

    /// Completes the message after its document was appended.
    #[inline]
    pub fn finish(self, out: &mut Vec<u8>) -> Result<(), Hangup> {
        let checked = self.form == Form::CheckedMsg;
        let length = out.len().saturating_sub(self.start) + if checked { 4 } else { 0 };
        if length > MAX_MESSAGE {
            out.truncate(self.start);
            return Err(Hangup::new(format!("a reply of {length} bytes")));
        }
        if let Some(place) = out.get_mut(self.start..self.start + 4) {
            // Fits into an int32: it is below 48 million.
            place.copy_from_slice(&(length as i32).to_le_bytes());
        }
        if checked {
            let sum = crc32c::crc32c(out.get(self.start..).unwrap_or_default());
            out.extend_from_slice(&sum.to_le_bytes());
        }
        if let Some(compressor) = self.compressor {
            compressed::wrap(compressor, self.start, out);
        }
        Ok(())
    }

    /// Removes the message from the buffer.
    pub fn discard(self, out: &mut Vec<u8>) {
        out.truncate(self.start);
    }
}

// === impl Form ===

impl Form {
    /// Returns the bytes in front of the document, with length 0, and their number.
    #[inline]
    pub(super) fn head(self, request_id: i32, response_to: i32) -> ([u8; 36], usize) {
        let header = Header {
            length: 0,
            request_id,
            response_to,
            opcode: match self {
                Self::Msg | Self::CheckedMsg => Opcode::Msg,
                Self::Reply => Opcode::Reply,
            },
        };
        let mut head = [0; 36];
        head[..Header::SIZE].copy_from_slice(&header.to_bytes());
        match self {
            // No flags, section kind 0.
            Self::Msg => (head, 21),
            Self::CheckedMsg => {
                head[16..20].copy_from_slice(&CHECKSUM_PRESENT.to_le_bytes());
                (head, 21)
            }
            // Cursor id 0, starting from 0, one document.
            Self::Reply => {
                head[16..20].copy_from_slice(&AWAIT_CAPABLE.to_le_bytes());
                head[32..].copy_from_slice(&1i32.to_le_bytes());
                (head, 36)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: [u8; 5] = [5, 0, 0, 0, 0];

    fn framed(form: Form) -> Vec<u8> {
        let mut out = vec![0xEE; 3];
        let to = ReplyTo {
            request_id: 9,
            form,
            wanted: true,
            compressor: None,
        };
        let frame = to.begin(4, &mut out);
        out.extend_from_slice(&EMPTY);
        frame.finish(&mut out).unwrap();
        assert_eq!(out[..3], [0xEE; 3]);
        out.split_off(3)
    }

    #[test]
    fn each_form_byte_by_byte() {
        #[rustfmt::skip]
        let msg: &[u8] = &[26,0,0,0, 4,0,0,0, 9,0,0,0, 0xDD,7,0,0, 0,0,0,0, 0, 5,0,0,0,0];
        #[rustfmt::skip]
        let reply: &[u8] = &[41,0,0,0, 4,0,0,0, 9,0,0,0, 1,0,0,0, 8,0,0,0, 0,0,0,0,0,0,0,0, 0,0,0,0, 1,0,0,0, 5,0,0,0,0];
        assert_eq!(framed(Form::Msg), msg);
        assert_eq!(framed(Form::Reply), reply);

        let checked = framed(Form::CheckedMsg);
        assert_eq!(checked.len(), 30);
        assert_eq!((checked[0], checked[16]), (30, 1));
        let (before, sum) = checked.split_at(26);
        assert_eq!(sum, crc32c::crc32c(before).to_le_bytes());
    }

    #[test]
    fn one_of_several_says_so_before_its_checksum_is_made() {
        let mut out = vec![0xEE; 3];
        let to = ReplyTo {
            request_id: 9,
            form: Form::CheckedMsg,
            wanted: true,
            compressor: None,
        };
        let frame = to.begin(4, &mut out);
        out.extend_from_slice(&EMPTY);
        frame.announce_next(&mut out);
        frame.finish(&mut out).unwrap();
        assert_eq!(out[3 + 16..3 + 20], [3, 0, 0, 0]);
        let (before, sum) = out[3..].split_at(26);
        assert_eq!(sum, crc32c::crc32c(before).to_le_bytes());
    }

    #[test]
    fn what_is_taken_back_leaves_no_trace() {
        let mut out = vec![1, 2];
        let to = ReplyTo {
            request_id: 9,
            form: Form::Msg,
            wanted: false,
            compressor: None,
        };
        let frame = to.begin(1, &mut out);
        out.extend_from_slice(&EMPTY);
        frame.discard(&mut out);
        assert_eq!(out, [1, 2]);
    }
}
