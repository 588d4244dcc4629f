//! The wire protocol: bytes to messages and back.
//!
//! [`Codec`] splits complete messages off a buffer and validates them: lengths, flags, checksum and every document. The
//! result is a [`Request`] that the code behind it can trust, or a refusal that still gets MongoDB's error as its reply.
//! Bytes that cannot be answered end the connection ([`Hangup`](crate::error::Hangup)). On the way back a [`ReplyTo`]
//! frames the reply document in place, in the form of the request, and compressed if the request was. [`put_request`] and
//! [`take_reply`] are the client's side. This module knows no sockets and no commands.

mod check;
mod client;
mod codec;
mod compress;
mod compressed;
mod header;
mod msg;
mod query;
mod reply;
mod request;

pub use client::{ServerReply, put_request, take_reply};
pub use codec::{Codec, Incoming, Outgoing};
pub use compress::{Compressor, Compressors};
pub use compressed::CompressedMessage;
pub use header::{Header, Opcode};
pub use reply::{Form, Frame, ReplyTo};
pub use request::{Request, Sequence};

/// The length of the longest message that the server accepts or sends. `hello` announces it as `maxMessageSizeBytes`.
pub const MAX_MESSAGE: usize = 48_000_000;
