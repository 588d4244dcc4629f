//! The interface between the sockets and the code that answers requests: `command/`, or the handler of a test.
//!
//! The server passes one complete, validated message and a buffer to [`Handler::call`]. The handler appends exactly one
//! reply document to the buffer, or returns [`Work`] that will append it, or a future that delivers it
//! ([`CallOutcome::Awaited`]). A client that allows it gets a stream of replies: after each reply the server runs the same
//! request again.
//!
//! A failed command has a reply like any other. [`Hangup`] means that the server cannot answer and must close the
//! connection. This module knows neither sockets nor commands.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;

use bytes::Bytes;

use crate::error::Hangup;
use crate::wait::Wait;
use crate::wire::{CompressedMessage, Request};

/// The code that answers the requests of all connections.
pub trait Handler: Send + Sync + 'static {
    /// The handler's state for one connection. It is dropped when the connection closes.
    type Connection: Send + 'static;

    fn open(&self, peer: Peer) -> Self::Connection;

    /// The server refused a connection because too many are open.
    fn rejected(&self) {}

    /// Reports how many bytes were read from and written to a connection.
    fn moved(&self, _connection: &Self::Connection, _traffic: Traffic) {}

    /// A compressed message was received (`came`) or sent.
    fn message_compressed(&self, _message: CompressedMessage, _came: bool) {}

    /// Returns whether the reply may be large. The server asks only when too many large replies wait to be read. It then
    /// holds the request back for a while.
    fn may_answer_at_length(&self, _request: &Request) -> bool {
        true
    }

    /// Runs one command. `reply` may already hold earlier replies: append to it, and do not read it.
    fn call(
        &self,
        connection: &mut Self::Connection,
        request: Request,
        reply: &mut Vec<u8>,
    ) -> Result<CallOutcome, Hangup>;
}

/// The bytes that went over a connection since the last report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    pub read: u64,
    pub written: u64,
}

/// The client at the other end of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// The number of the connection. The server never uses a number twice.
    pub id: u64,
    pub address: SocketAddr,
    /// The version of TLS, if the connection is encrypted.
    pub tls: Option<TlsVersion>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersion {
    V12,
    V13,
}

/// The result of [`Handler::call`].
pub enum CallOutcome {
    /// The reply document is in the buffer.
    Replied,
    /// The reply document is in the buffer, and more replies follow: run the same request again for the next one. Only for
    /// requests that allow it (`exhaust_allowed`).
    Streaming,
    /// The command takes longer: step it until it is done. Dropping the work cancels the command and leaves nothing half
    /// done.
    Work(Box<dyn Work>),
    /// The reply is made elsewhere: await it. Dropping the future cancels the command. A server that shuts down waits for
    /// it.
    Awaited(Pin<Box<dyn Future<Output = Result<Answer, Hangup>> + Send>>),
}

/// A reply that was made elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The reply document.
    pub document: Bytes,
    /// More replies follow, as in [`CallOutcome::Streaming`].
    pub streaming: bool,
}

/// A command that may run long, cut into steps so that other connections get their turn in between.
pub trait Work: Send {
    /// Works for about half a millisecond. Only the step that ends the work appends the reply document.
    fn step(&mut self, reply: &mut Vec<u8>) -> Result<Progress, Hangup>;
}

/// The result of a step.
#[derive(Debug)]
pub enum Progress {
    /// Step again after other tasks had their turn.
    More,
    /// There is nothing to do until this wait is over: step again then. Dropping the work instead loses nothing, and a
    /// server that shuts down does so.
    Wait(Wait),
    /// The next step may take long and cannot be cut: run it on a blocking thread. The step counts its work
    /// ([`tick`](crate::interrupt::tick)), so that it ends when it is abandoned.
    Blocking,
    /// The reply document is in the buffer.
    Done,
    /// The reply document is in the buffer, and more replies follow, as in [`CallOutcome::Streaming`].
    Streaming,
}

// === impl Answer ===

impl Answer {
    /// Returns the only reply.
    pub fn of(document: Bytes) -> Self {
        Self {
            document,
            streaming: false,
        }
    }
}

// === impl Peer ===

impl Peer {
    /// Returns a client whose connection is not encrypted.
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
