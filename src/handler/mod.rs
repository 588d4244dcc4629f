//! The seam between the sockets and whatever answers: `command/`, or the handler of a test.
//!
//! The server hands over a whole, validated message and a buffer; the handler appends exactly one reply document to the
//! buffer, or returns [`Work`] that will, or a future that brings it ([`Outcome::Awaited`]). A client that allows it gets a stream of replies: the server asks again after
//! each, on its behalf. A failed command is a reply like any other; [`Hangup`] means that nothing can be answered and
//! the connection has to go.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;

use bytes::Bytes;

use crate::error::Hangup;
use crate::wait::Wait;
use crate::wire::{CompressedMessage, Request};

/// Answers the requests of all connections.
pub trait Handler: Send + Sync + 'static {
    /// What the handler remembers of one connection. Dropped when it closes.
    type Connection: Send + 'static;

    fn open(&self, peer: Peer) -> Self::Connection;

    /// A connection was turned away: too many are open.
    fn rejected(&self) {}

    /// That much was read from and written to a connection.
    fn moved(&self, _connection: &Self::Connection, _traffic: Traffic) {}

    /// A message came or went in compressed form.
    fn message_compressed(&self, _message: CompressedMessage, _came: bool) {}

    /// Whether the reply may be large. Asked only when too many large replies wait to be read: such a request then waits a little.
    fn may_answer_at_length(&self, _request: &Request) -> bool {
        true
    }

    /// Runs one command. `reply` may hold earlier replies already: append to it, never look at it.
    fn call(
        &self,
        connection: &mut Self::Connection,
        request: Request,
        reply: &mut Vec<u8>,
    ) -> Result<Outcome, Hangup>;
}

/// What went over a connection since it was last told of, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    pub read: u64,
    pub written: u64,
}

/// Who is at the other end.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// A number that no other connection of this server has had.
    pub id: u64,
    pub address: SocketAddr,
    /// How the connection is encrypted, if it is.
    pub tls: Option<TlsVersion>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersion {
    V12,
    V13,
}

pub enum Outcome {
    /// The reply document stands in the buffer.
    Replied,
    /// It does, and it is one of several: run the same request again for the next one. Only for requests that allow it
    /// (`exhaust_allowed`).
    Streaming,
    /// It takes longer: step it until it is done. Dropping it abandons the command and leaves nothing half done.
    Work(Box<dyn Work>),
    /// Somebody else makes the reply: wait for it. Dropping the future abandons the command. A server that stops lets it come.
    Awaited(Pin<Box<dyn Future<Output = Result<Answer, Hangup>> + Send>>),
}

/// A reply that was made elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// One document.
    pub document: Bytes,
    /// It is one of several, as in [`Outcome::Streaming`].
    pub streaming: bool,
}

/// A command that may run long, cut into steps so that others get their turn in between.
pub trait Work: Send {
    /// Goes on for about half a millisecond. Appends the reply document only in the step that returns `Done`.
    fn step(&mut self, reply: &mut Vec<u8>) -> Result<Progress, Hangup>;
}

#[derive(Debug)]
pub enum Progress {
    /// Step again when others had their turn.
    More,
    /// There is nothing to do before this is over: step again then. Nothing is lost if it is abandoned instead, as a server
    /// that stops does.
    Wait(Wait),
    /// The next step may take long, and cannot be cut: have a thread of its own run it. It counts its work
    /// ([`tick`](crate::aside::tick)), so that it ends when it is abandoned.
    Blocking,
    /// The reply document was appended.
    Done,
    /// It was, and it is one of several, as in [`Outcome::Streaming`].
    Streaming,
}

// === impl Peer ===

impl Peer {
    /// Somebody whose connection is not encrypted.
    pub fn plain(id: u64, address: SocketAddr) -> Self {
        Self {
            id,
            address,
            tls: None,
        }
    }
}

// === impl Progress ===

impl Progress {
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }
}
