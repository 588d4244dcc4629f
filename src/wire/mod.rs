//! Bytes and messages: no sockets, no commands.
//!
//! [`Codec`] cuts whole messages out of a buffer and checks them at the door: lengths, flags, checksum, and every
//! document through the validator. What comes out is a [`Request`] that can be trusted, or a refusal that still gets
//! MongoDB's error as its reply; what cannot be answered ends the connection ([`Hangup`](crate::error::Hangup)). On the
//! way back a [`ReplyTo`] frames the reply document in place, in the form in which the question came, compressed if that was.

mod check;
mod codec;
mod compress;
mod compressed;
mod header;
mod msg;
mod query;
mod reply;
mod request;

pub use codec::{Codec, Incoming, Outgoing};
pub use compress::{Compressor, Compressors};
pub use compressed::Squeezed;
pub use header::{Header, Opcode};
pub use reply::{Form, Frame, ReplyTo};
pub use request::{Request, Sequence};

/// The longest message that is taken or sent, as hello announces it (`maxMessageSizeBytes`).
pub const MAX_MESSAGE: usize = 48_000_000;

/// The largest document that a client may store (`maxBsonObjectSize`).
pub const MAX_DOCUMENT: usize = 16 * 1024 * 1024;

/// The largest document that is taken at all: commands need some room around the documents that they carry.
pub const MAX_INTERNAL_DOCUMENT: usize = MAX_DOCUMENT + 16 * 1024;
