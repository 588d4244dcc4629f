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
pub use compressed::CompressedMessage;
pub use header::{Header, Opcode};
pub use reply::{Form, Frame, ReplyTo};
pub use request::{Request, Sequence};

/// The longest message that is taken or sent, as hello announces it (`maxMessageSizeBytes`).
pub const MAX_MESSAGE: usize = 48_000_000;
