//! tokio-util's view of the wire: bytes in a buffer to messages, and back.
//!
//! The server drives the decoder from its own loop and frames its replies in place ([`ReplyTo::begin`]); the encoder is
//! for clients (the health check, tests) that send one whole message.

use bytes::{BufMut, Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

use crate::error::{Error, Hangup};

use super::header::{Header, Opcode};
use super::{CompressedMessage, Compressors, Form, ReplyTo, Request, compressed, msg, query};

#[derive(Debug, Clone, Copy, Default)]
pub struct Codec {
    /// Which compressed messages are taken.
    pub compressors: Compressors,
}

/// A whole message from the other side.
#[derive(Debug)]
pub enum Incoming {
    Request(Request),
    /// It was cut cleanly out of the stream, but what is inside gets this error as its reply.
    Refused(ReplyTo, Error),
}

/// A whole message to the other side.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    pub request_id: i32,
    pub response_to: i32,
    pub form: Form,
    pub document: &'a [u8],
}

/// What a compressed message became, and what goes when it does.
struct OwnedMessage<K> {
    message: Vec<u8>,
    _keep: K,
}

/// The room that a message of unknown length gets to begin with.
const FIRST_STEP: usize = 16 * 1024;

// === impl Codec ===

impl Codec {
    /// How many bytes have to be looked at to decode the message that begins here: none before it is all there.
    #[inline]
    pub fn weight(src: &[u8]) -> Result<usize, Hangup> {
        Ok(match Header::peek(src)? {
            Some(header) if header.length <= src.len() => header
                .length
                .max(compressed::inflated_size(src).unwrap_or_default()),
            _ => 0,
        })
    }

    /// The message that begins here, if it is all there and compressed.
    #[inline]
    pub fn peek_compressed(src: &[u8]) -> Option<CompressedMessage> {
        compressed::peek(src)
    }

    /// Whether the message that begins here may weigh more than it is long.
    #[inline]
    pub fn is_compressed(src: &[u8]) -> bool {
        compressed::inflated_size(src).is_some()
    }

    /// Decodes, and keeps something for as long as anybody holds bytes of what a compressed message becomes.
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

    /// Cuts a message out; `own` takes the bytes of one that was compressed.
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
            // The buffer doubles with what has really come: a length alone, however large, gets little.
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
