//! One connection, from its first byte to its last: it reads messages, runs them, and writes the replies.
//!
//! `answer` runs one request, `stepping` continues a command that takes longer, and `buffers` frees large buffers.

mod answer;
mod buffers;
mod stepping;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use tokio_util::codec::Decoder;

use crate::error::Hangup;
use crate::handler::{Handler, Peer, Traffic};
use crate::interrupt::{LARGE, run_over};
use crate::wire::{Codec, Incoming};

use super::drain::ConnectionPhase;
use super::inflate_budget::{self, InflateBudget};
use super::stream::Stream;
use super::unread_replies::{self, UnreadReplies, UnreadShare};

use answer::Remaining;
use buffers::{LARGE_BUFFER, QUIET, READ_BUFFER, WRITE_BUFFER, copy_to_ordinary_buffer};

pub(super) struct Connection<H: Handler, S> {
    pub(super) handler: Arc<H>,
    /// The handler's state for this connection.
    state: H::Connection,
    pub(super) stream: S,
    codec: Codec,
    /// Bytes that have arrived and were not run yet. Requests are split off without copying.
    input: BytesMut,
    /// Replies that were not written yet. All are complete, except possibly the last one.
    pub(super) output: Vec<u8>,
    /// Bytes that were not reported to the handler yet.
    traffic: Traffic,
    /// The id of the next reply.
    next_id: i32,
    phase: Arc<ConnectionPhase>,
    inflate_budget: InflateBudget,
    pub(super) unread_replies: UnreadReplies,
    /// The share of `unread_replies` that this connection's output buffer takes while it is large.
    pub(super) unread_share: Option<UnreadShare>,
    /// The number of consecutive rounds that would have fitted into small buffers.
    small_rounds: u32,
}

/// Everything that a connection needs besides its socket.
pub(super) struct ConnectionSetup<H> {
    pub(super) handler: Arc<H>,
    pub(super) peer: Peer,
    pub(super) codec: Codec,
    pub(super) phase: Arc<ConnectionPhase>,
    pub(super) inflate_budget: InflateBudget,
    pub(super) unread_replies: UnreadReplies,
}

/// The reason why a connection ended.
#[derive(Debug)]
pub(super) enum ConnectionEnd {
    /// The client closed the connection, or the server is shutting down.
    Closed,
    Lost(io::Error),
    Hangup(Hangup),
}

/// Replies are written when they reach this many bytes, even if more requests wait.
const FLUSH_AT: usize = 256 * 1024;

/// The time for writing earlier replies to a client after a hangup.
const LAST_WRITE: Duration = Duration::from_secs(2);

// === impl Connection ===

impl<H: Handler, S: Stream> Connection<H, S> {
    pub(super) fn new(setup: ConnectionSetup<H>, stream: S) -> Self {
        let ConnectionSetup {
            handler,
            peer,
            codec,
            phase,
            inflate_budget,
            unread_replies,
        } = setup;
        Self {
            state: handler.open(peer),
            handler,
            stream,
            codec,
            input: BytesMut::with_capacity(READ_BUFFER),
            output: Vec::with_capacity(WRITE_BUFFER),
            traffic: Traffic::default(),
            next_id: 1,
            phase,
            inflate_budget,
            unread_replies,
            unread_share: None,
            small_rounds: 0,
        }
    }

    /// Adds bytes that were already read from the stream. They are part of the first message.
    #[must_use]
    pub(super) fn with_input(mut self, bytes: &[u8]) -> Self {
        self.input.extend_from_slice(bytes);
        self.traffic.read += bytes.len() as u64;
        self
    }

    pub(super) async fn run(mut self) -> ConnectionEnd {
        let end = self.serve().await;
        if matches!(end, ConnectionEnd::Hangup(_)) {
            // Replies to the messages before the bad one are still sent, but the server does not wait for a client that
            // does not read.
            let _ = tokio::time::timeout(LAST_WRITE, self.flush()).await;
        }
        if !matches!(end, ConnectionEnd::Lost(_)) {
            self.stream.close().await;
        }
        end
    }

    async fn serve(&mut self) -> ConnectionEnd {
        loop {
            self.prepare_buffers();
            if !self.phase.wait() {
                return ConnectionEnd::Closed;
            }
            match self.read(QUIET).await {
                Ok(0) => return ConnectionEnd::Closed,
                Ok(read) => self.traffic.read += read as u64,
                Err(problem) => return ConnectionEnd::Lost(problem),
            }
            if !self.phase.work() {
                return ConnectionEnd::Closed;
            }
            if let Err(end) = self.run_all().await {
                return end;
            }
        }
    }

    /// Runs every complete message that has arrived, in order, and writes all replies.
    async fn run_all(&mut self) -> Result<(), ConnectionEnd> {
        let mut is_first = true;
        loop {
            let decoded = if self.input.len() < LARGE && !Codec::is_compressed(&self.input) {
                self.codec.decode(&mut self.input)?
            } else {
                self.decode_heavy().await?
            };
            let Some(incoming) = decoded else {
                break;
            };
            // The read has paid for the first message. A client that sends thousands of messages at once yields to others
            // now and then.
            if !is_first {
                tokio::task::consume_budget().await;
            }
            is_first = false;
            if self.unread_replies.is_far_above_limit() {
                Box::pin(self.hold_back(&incoming)).await;
            }
            match self.answer(incoming)? {
                Remaining::Nothing => {}
                rest => self.run_remaining(rest).await?,
            }
            if self.output.len() >= FLUSH_AT {
                self.flush().await?;
            }
        }
        self.flush().await
    }

    /// Decodes a message that takes long to check, or that is compressed.
    async fn decode_heavy(&mut self) -> Result<Option<Incoming>, Hangup> {
        let weight = Codec::weight(&self.input)?;
        let compressed_message = Codec::peek_compressed(&self.input);
        let permit = match compressed_message {
            Some(message) if message.large > inflate_budget::SMALL => {
                // Boxed, so that the future of a connection does not grow.
                Some(Box::pin(self.inflate_budget.acquire(message.large)).await?)
            }
            _ => None,
        };
        let decode = || self.codec.decode_keeping(&mut self.input, permit);
        let decoded = run_over(weight, decode);
        if let (Ok(Some(_)), Some(message)) = (&decoded, compressed_message) {
            self.handler.message_compressed(message, true);
        }
        if weight >= LARGE && !self.input.is_empty() && self.input.len() <= READ_BUFFER {
            // A few bytes of the next message must not keep this message's large buffer alive.
            self.input = copy_to_ordinary_buffer(&self.input);
        }
        decoded
    }

    async fn flush(&mut self) -> Result<(), ConnectionEnd> {
        self.traffic.written += self.output.len() as u64;
        let traffic = std::mem::take(&mut self.traffic);
        self.handler.moved(&self.state, traffic);
        if !self.output.is_empty() {
            if self.output.len() > LARGE_BUFFER {
                self.small_rounds = 0;
            }
            if self.output.capacity() > unread_replies::SMALL {
                return Box::pin(self.write_counted()).await;
            }
            self.stream.write_all(&self.output).await?;
            self.stream.flush().await?;
            self.output.clear();
        }
        Ok(())
    }
}

// === impl ConnectionEnd ===

impl From<Hangup> for ConnectionEnd {
    fn from(hangup: Hangup) -> Self {
        Self::Hangup(hangup)
    }
}

impl From<io::Error> for ConnectionEnd {
    fn from(problem: io::Error) -> Self {
        Self::Lost(problem)
    }
}

#[cfg(test)]
mod tests;
