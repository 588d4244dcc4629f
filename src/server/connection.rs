//! One connection, from its first byte to its last.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::codec::Decoder;

use crate::aside::uncut;
use crate::error::Hangup;
use crate::handler::{Handler, Outcome, Peer, Traffic, Work};
use crate::wire::{Codec, Frame, Incoming, Request};

use super::drain::Duty;
use super::stream::Stream;
use super::unpacking::{self, Unpacking};
use super::unread::{self, Part, Unread};

pub(super) struct Connection<H: Handler, S> {
    handler: Arc<H>,
    /// What the handler remembers of this connection.
    state: H::Connection,
    pub(super) stream: S,
    codec: Codec,
    /// What has arrived and was not run yet. Requests are cut out of it without copying.
    pub(super) input: BytesMut,
    /// Replies that were not written yet: whole ones, and at the end at most one that is being made.
    pub(super) output: Vec<u8>,
    /// What the handler was not told of yet.
    pub(super) traffic: Traffic,
    /// The number of the next reply.
    next_id: i32,
    pub(super) duty: Arc<Duty>,
    unpacking: Unpacking,
    pub(super) unread: Unread,
    /// What this connection's output buffer counts among them, while it is large.
    pub(super) part: Option<Part>,
    /// Rounds in a row that would have fitted into small buffers.
    small_rounds: u32,
}

/// What a connection needs besides its socket.
pub(super) struct Opening<H> {
    pub(super) handler: Arc<H>,
    pub(super) peer: Peer,
    pub(super) codec: Codec,
    pub(super) duty: Arc<Duty>,
    pub(super) unpacking: Unpacking,
    pub(super) unread: Unread,
}

/// Why a connection is over.
#[derive(Debug)]
pub(super) enum End {
    /// The client left, or the server is closing.
    Closed,
    Lost(io::Error),
    Hangup(Hangup),
}

/// What is left to do when a request was run.
pub(super) enum Rest {
    Nothing,
    Finish(Pending),
    /// The next reply of a stream.
    Again(Box<Request>),
}

/// A command that goes on, and the reply that it will complete.
pub(super) struct Pending {
    pub(super) work: Box<dyn Work>,
    pub(super) frame: Frame,
    /// Somebody waits for the reply.
    pub(super) wanted: bool,
    /// What to run for the next reply, if the command streams them.
    pub(super) again: Option<Box<Request>>,
}

/// The buffers of a connection that does nothing unusual.
const READ_BUFFER: usize = 16 * 1024;
const WRITE_BUFFER: usize = 4 * 1024;

/// Replies are written when there are that many bytes of them, even if more requests wait.
const FLUSH_AT: usize = 256 * 1024;

/// Buffers that grew beyond this are given back when they have not been needed for a while.
const KEEP: usize = 64 * 1024;
const SMALL_ROUNDS: u32 = 64;
const QUIET: Duration = Duration::from_secs(1);

/// Checking a message from this size on takes about a millisecond or more: other tasks move away meanwhile.
const LARGE: usize = 2 * 1024 * 1024;

/// Compressing takes that long from this size on.
const LARGE_TO_COMPRESS: usize = 128 * 1024;

/// A client that was hung up on gets its earlier replies, if it takes them soon.
const LAST_WRITE: Duration = Duration::from_secs(2);

// === impl Connection ===

impl<H: Handler, S: Stream> Connection<H, S> {
    pub(super) fn new(opening: Opening<H>, stream: S) -> Self {
        let Opening {
            handler,
            peer,
            codec,
            duty,
            unpacking,
            unread,
        } = opening;
        Self {
            state: handler.open(peer),
            handler,
            stream,
            codec,
            input: BytesMut::with_capacity(READ_BUFFER),
            output: Vec::with_capacity(WRITE_BUFFER),
            traffic: Traffic::default(),
            next_id: 1,
            duty,
            unpacking,
            unread,
            part: None,
            small_rounds: 0,
        }
    }

    pub(super) async fn run(mut self) -> End {
        let end = self.serve().await;
        if matches!(end, End::Hangup(_)) {
            // What was answered before the bad message is still sent; nobody waits for a client that does not read.
            let _ = tokio::time::timeout(LAST_WRITE, self.flush()).await;
        }
        if !matches!(end, End::Lost(_)) {
            self.stream.close().await;
        }
        end
    }

    async fn serve(&mut self) -> End {
        loop {
            self.tidy();
            if !self.duty.wait() {
                return End::Closed;
            }
            match self.read(QUIET).await {
                Ok(0) => return End::Closed,
                Ok(read) => self.traffic.read += read as u64,
                Err(problem) => return End::Lost(problem),
            }
            if !self.duty.work() {
                return End::Closed;
            }
            if let Err(end) = self.run_all().await {
                return end;
            }
        }
    }

    /// Waits for bytes. Large buffers wait only for a while, then they are given back.
    async fn read(&mut self, quiet: Duration) -> io::Result<usize> {
        if self.is_swollen() {
            match tokio::time::timeout(quiet, self.stream.read_buf(&mut self.input)).await {
                Ok(read) => return read,
                Err(_) => self.shrink(),
            }
        }
        self.stream.read_buf(&mut self.input).await
    }

    /// Runs every whole message that has arrived, in order, and writes all replies.
    async fn run_all(&mut self) -> Result<(), End> {
        let mut budgeted = false;
        loop {
            let decoded = if self.input.len() < LARGE && !Codec::is_compressed(&self.input) {
                self.codec.decode(&mut self.input)?
            } else {
                self.decode_heavy().await?
            };
            let Some(incoming) = decoded else {
                break;
            };
            // The read has paid for the first one. Who sends thousands at once gives way to others now and then.
            if budgeted {
                tokio::task::consume_budget().await;
            }
            budgeted = true;
            match self.answer(incoming)? {
                Rest::Nothing => {}
                rest => self.go_on(rest).await?,
            }
            if self.output.len() >= FLUSH_AT {
                self.flush().await?;
            }
        }
        self.flush().await
    }

    /// Decodes what may take long to check, or become larger than it came.
    async fn decode_heavy(&mut self) -> Result<Option<Incoming>, Hangup> {
        let weight = Codec::weight(&self.input)?;
        let squeezed = Codec::squeezed(&self.input);
        let place = match squeezed {
            Some(message) if message.large > unpacking::SMALL => {
                // Apart, so that the task of a connection is no larger for it.
                Some(Box::pin(self.unpacking.place(message.large)).await?)
            }
            _ => None,
        };
        let decode = || self.codec.decode_keeping(&mut self.input, place);
        let decoded = if weight >= LARGE {
            uncut(decode)
        } else {
            decode()
        };
        if let (Ok(Some(_)), Some(message)) = (&decoded, squeezed) {
            self.handler.squeezed(message, true);
        }
        if weight >= LARGE && !self.input.is_empty() && self.input.len() <= READ_BUFFER {
            // A few bytes of the next message do not keep the buffer of this one.
            self.input = copied(&self.input);
        }
        decoded
    }

    /// Closes a reply.
    #[inline]
    pub(super) fn seal(&mut self, frame: Frame) -> Result<(), Hangup> {
        if frame.is_compressed() {
            return self.squeeze(frame);
        }
        frame.finish(&mut self.output)
    }

    fn squeeze(&mut self, frame: Frame) -> Result<(), Hangup> {
        let start = frame.start();
        if self.output.len() - start >= LARGE_TO_COMPRESS {
            uncut(|| frame.finish(&mut self.output))?;
        } else {
            frame.finish(&mut self.output)?;
        }
        // It stays as it was if that is shorter.
        if let Some(message) = Codec::squeezed(self.output.get(start..).unwrap_or_default()) {
            self.handler.squeezed(message, false);
        }
        Ok(())
    }

    /// Runs one command and frames its reply, unless it takes longer.
    pub(super) fn answer(&mut self, incoming: Incoming) -> Result<Rest, Hangup> {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let (to, frame, again, outcome) = match incoming {
            Incoming::Request(request) => {
                let to = request.reply_to();
                let again = request.exhaust_allowed.then(|| next_of(&request, id));
                let frame = to.begin(id, &mut self.output);
                let outcome = self
                    .handler
                    .call(&mut self.state, request, &mut self.output);
                (to, frame, again, outcome)
            }
            Incoming::Refused(to, error) => {
                let frame = to.begin(id, &mut self.output);
                error.write_reply(&mut self.output);
                (to, frame, None, Ok(Outcome::Replied))
            }
        };
        match outcome {
            Ok(Outcome::Replied) if to.wanted => {
                self.seal(frame)?;
                Ok(Rest::Nothing)
            }
            Ok(Outcome::Streaming) if to.wanted => {
                if again.is_some() {
                    frame.announce_next(&mut self.output);
                }
                self.seal(frame)?;
                Ok(again.map_or(Rest::Nothing, Rest::Again))
            }
            Ok(Outcome::Replied | Outcome::Streaming) => {
                frame.discard(&mut self.output);
                Ok(Rest::Nothing)
            }
            Ok(Outcome::Work(work)) => Ok(Rest::Finish(Pending {
                work,
                frame,
                wanted: to.wanted,
                again,
            })),
            Err(hangup) => {
                frame.discard(&mut self.output);
                Err(hangup)
            }
        }
    }

    pub(super) async fn flush(&mut self) -> Result<(), End> {
        self.traffic.written += self.output.len() as u64;
        let traffic = std::mem::take(&mut self.traffic);
        self.handler.moved(&self.state, traffic);
        if !self.output.is_empty() {
            if self.output.capacity() > unread::SMALL {
                self.small_rounds = 0;
                return Box::pin(self.write_counted()).await;
            }
            if self.output.len() > KEEP {
                self.small_rounds = 0;
            }
            self.stream.write_all(&self.output).await?;
            self.stream.flush().await?;
            self.output.clear();
        }
        Ok(())
    }

    /// Makes room for the next read, and gives back what one large message needed and the following ones do not.
    fn tidy(&mut self) {
        if self.input.is_empty() || self.input.len() == self.input.capacity() {
            // Nobody holds the last request any more, as a rule: this only moves the buffer back to its beginning.
            self.input.reserve(READ_BUFFER);
        }
        if self.input.len() > READ_BUFFER {
            // In the middle of a large message.
            self.small_rounds = 0;
        } else if self.is_swollen() {
            self.small_rounds += 1;
            if self.small_rounds >= SMALL_ROUNDS || self.unread.is_too_much() {
                self.shrink();
            }
        }
    }

    fn is_swollen(&self) -> bool {
        self.input.capacity() > KEEP || self.output.capacity() > FLUSH_AT + KEEP
    }

    /// Gives large buffers back. That of a message that is still coming stays.
    pub(super) fn shrink(&mut self) {
        self.small_rounds = 0;
        if self.input.len() <= READ_BUFFER {
            self.input = copied(&self.input);
        }
        if self.output.is_empty() {
            self.output = Vec::with_capacity(WRITE_BUFFER);
            self.part = None;
        }
    }
}

/// The same bytes in a buffer of ordinary size.
fn copied(input: &[u8]) -> BytesMut {
    let mut buffer = BytesMut::with_capacity(READ_BUFFER);
    buffer.extend_from_slice(input);
    buffer
}

/// What the client would send to get the next reply of a stream: the same, as if to answer the reply before.
fn next_of(request: &Request, reply: i32) -> Box<Request> {
    Box::new(Request {
        request_id: reply,
        ..request.clone()
    })
}

// === impl End ===

impl From<Hangup> for End {
    fn from(hangup: Hangup) -> Self {
        Self::Hangup(hangup)
    }
}

impl From<io::Error> for End {
    fn from(problem: io::Error) -> Self {
        Self::Lost(problem)
    }
}

#[cfg(test)]
mod tests;
