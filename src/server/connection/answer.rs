//! One request: runs its command, and completes the reply unless the command takes longer.

use std::future::Future;
use std::pin::Pin;

use crate::error::Hangup;
use crate::handler::{Answer, CallOutcome, Handler, Work};
use crate::interrupt::{LARGE_TO_COMPRESS, run_blocking};
use crate::wire::{Codec, Frame, Incoming, Request};

use super::Connection;
use crate::server::stream::Stream;

/// The work that remains after a request was run.
pub(super) enum Remaining {
    Nothing,
    Work(Pending),
    /// Run the request again for the next reply of a stream.
    NextReply(Box<Request>),
}

/// A command that is still running, and the reply that it will complete.
pub(super) struct Pending {
    pub(super) source: ReplySource,
    pub(super) frame: Frame,
    /// The client waits for the reply.
    pub(super) wanted: bool,
    /// The request to run for the next reply, if the command streams replies.
    pub(super) next_request: Option<Box<Request>>,
}

/// The source of the reply of a command that is still running.
pub(super) enum ReplySource {
    Work(Box<dyn Work>),
    Awaited(Pin<Box<dyn Future<Output = Result<Answer, Hangup>> + Send>>),
}

// === impl Connection ===

impl<H: Handler, S: Stream> Connection<H, S> {
    /// Completes a reply.
    #[inline]
    pub(super) fn seal(&mut self, frame: Frame) -> Result<(), Hangup> {
        if frame.is_compressed() {
            return self.seal_compressed(frame);
        }
        frame.finish(&mut self.output)
    }

    fn seal_compressed(&mut self, frame: Frame) -> Result<(), Hangup> {
        let start = frame.start();
        if self.output.len() - start >= LARGE_TO_COMPRESS {
            run_blocking(|| frame.finish(&mut self.output))?;
        } else {
            frame.finish(&mut self.output)?;
        }
        // A reply that would not become smaller was left uncompressed.
        if let Some(message) = Codec::peek_compressed(self.output.get(start..).unwrap_or_default())
        {
            self.handler.message_compressed(message, false);
        }
        Ok(())
    }

    /// Runs one command and frames its reply, unless the command takes longer.
    pub(super) fn answer(&mut self, incoming: Incoming) -> Result<Remaining, Hangup> {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let (to, frame, next_request, outcome) = match incoming {
            Incoming::Request(request) => {
                let to = request.reply_to();
                let next_request = request.exhaust_allowed.then(|| next_of(&request, id));
                let frame = to.begin(id, &mut self.output);
                let outcome = self
                    .handler
                    .call(&mut self.state, request, &mut self.output);
                (to, frame, next_request, outcome)
            }
            Incoming::Refused(to, error) => {
                let frame = to.begin(id, &mut self.output);
                error.write_reply(&mut self.output);
                (to, frame, None, Ok(CallOutcome::Replied))
            }
        };
        let source = match outcome {
            Ok(CallOutcome::Replied) if to.wanted => {
                self.seal(frame)?;
                return Ok(Remaining::Nothing);
            }
            Ok(CallOutcome::Streaming) if to.wanted => {
                if next_request.is_some() {
                    frame.announce_next(&mut self.output);
                }
                self.seal(frame)?;
                return Ok(next_request.map_or(Remaining::Nothing, Remaining::NextReply));
            }
            Ok(CallOutcome::Replied | CallOutcome::Streaming) => {
                frame.discard(&mut self.output);
                return Ok(Remaining::Nothing);
            }
            Ok(CallOutcome::Work(work)) => ReplySource::Work(work),
            Ok(CallOutcome::Awaited(answer)) => ReplySource::Awaited(answer),
            Err(hangup) => {
                frame.discard(&mut self.output);
                return Err(hangup);
            }
        };
        Ok(Remaining::Work(Pending {
            source,
            frame,
            wanted: to.wanted,
            next_request,
        }))
    }
}

/// Returns the request for the next reply of a stream: the same request, as if the client answered the previous reply.
fn next_of(request: &Request, reply: i32) -> Box<Request> {
    Box::new(Request {
        request_id: reply,
        ..request.clone()
    })
}
