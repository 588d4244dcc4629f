//! The codec of tokio-util: decodes the bytes of a buffer to messages, and encodes messages.
//!
//! The server calls the decoder from its own loop and frames its replies in place ([`ReplyTo::begin`]). The encoder is for
//! clients (the health check, tests) that send one complete message.

use bytes::{BufMut, Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

use crate::error::{Error, Hangup};

use super::header::{Header, Opcode};
use super::{CompressedMessage, Compressors, Form, ReplyTo, Request, compressed, msg, query};

#[derive(Debug, Clone, Copy, Default)]
pub struct Codec {
    /// The compressors that are accepted.
    pub compressors: Compressors,
}

/// A complete message from the other side.
#[derive(Debug)]
pub enum Incoming {
    Request(Request),
    /// The frame of the message is valid, but its content is not: the reply is this error.
    Refused(ReplyTo, Error),
}

/// A complete message to the other side.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    pub request_id: i32,
    pub response_to: i32,
    pub form: Form,
    pub document: &'a [u8],
}

/// An inflated message, and a value that is dropped together with its bytes.
struct OwnedMessage<K> {
    message: Vec<u8>,
    _keep: K,
}

/// The initial buffer for a message that has not arrived completely.
const FIRST_STEP: usize = 16 * 1024;

// === impl Codec ===

impl Codec {
    /// Returns the number of bytes to check when the message that begins here is decoded: 0 until it has arrived
    /// completely.
    #[inline]
    pub fn weight(src: &[u8]) -> Result<usize, Hangup> {
        Ok(match Header::peek(src)? {
            Some(header) if header.length <= src.len() => header
                .length
                .max(compressed::inflated_size(src).unwrap_or_default()),
            _ => 0,
        })
    }

    /// Describes the message that begins here, if it is complete and compressed.
    #[inline]
    pub fn peek_compressed(src: &[u8]) -> Option<CompressedMessage> {
        compressed::peek(src)
    }

    /// Returns whether the message that begins here is compressed, so that its weight may exceed its length.
    #[inline]
    pub fn is_compressed(src: &[u8]) -> bool {
        compressed::inflated_size(src).is_some()
    }

    /// Decodes a message. `keep` lives as long as any reference to the bytes of an inflated message.
    pub fn decode_keeping<K: Send + 'static>(
        &mut self,
        src: &mut BytesMut,
        keep: Option<K>,
    ) -> Result<Option<Incoming>, Hangup> {
        match keep {
            None => self.decode(src),
            Some(_keep) => self.cut(src, |message| {
                Bytes::from_owner(OwnedMessage { message, _keep })
            }),
        }
    }

    /// Splits a message off the buffer. `own` takes the bytes of an inflated one.
    #[inline]
    fn cut(
        self,
        src: &mut BytesMut,
        own: impl FnOnce(Vec<u8>) -> Bytes,
    ) -> Result<Option<Incoming>, Hangup> {
        let Some(header) = Header::peek(src)? else {
            return Ok(None);
        };
        if src.len() < header.length {
            // The buffer grows with the bytes that have arrived: a large length alone does not reserve much memory.
            let missing = header.length - src.len();
            src.reserve(missing.min(src.len().max(FIRST_STEP)));
            return Ok(None);
        }
        let frame = src.split_to(header.length).freeze();
        match header.opcode {
            Opcode::Msg => msg::parse(header, frame).map(Some),
            Opcode::Query => query::parse(header, frame).map(Some),
            Opcode::Compressed => {
                compressed::parse(header, &frame, self.compressors, own).map(Some)
            }
            Opcode::Reply => Err(Hangup::new("OP_REPLY is for clients")),
        }
    }
}

// === impl OwnedMessage ===

impl<K> AsRef<[u8]> for OwnedMessage<K> {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

impl Decoder for Codec {
    type Item = Incoming;
    type Error = Hangup;

    #[inline]
    fn decode(&mut self, src: &mut BytesMut) -> Result<Option<Incoming>, Hangup> {
        self.cut(src, Bytes::from)
    }
}

impl Encoder<Outgoing<'_>> for Codec {
    type Error = Hangup;

    fn encode(&mut self, message: Outgoing<'_>, dst: &mut BytesMut) -> Result<(), Hangup> {
        let mut bytes = Vec::with_capacity(message.document.len() + 40);
        let to = ReplyTo {
            request_id: message.response_to,
            form: message.form,
            wanted: true,
            compressor: None,
        };
        let frame = to.begin(message.request_id, &mut bytes);
        bytes.extend_from_slice(message.document);
        frame.finish(&mut bytes)?;
        dst.put_slice(&bytes);
        Ok(())
    }
}
