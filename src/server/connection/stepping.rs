//! Commands that take longer, which run in steps so that other tasks get their turn in between; and commands with several
//! replies.

use std::future::Future;
use std::io;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::task::spawn_blocking;

use crate::handler::{Handler, Progress, Work};
use crate::interrupt::Limit;
use crate::wait::{Flag, Wait};
use crate::wire::{Incoming, Request};

use super::answer::{Pending, Remaining, ReplySource};
use super::{Connection, ConnectionEnd};
use crate::server::stream::Stream;

/// A guard of the task that waits for a step on another thread. Dropping it abandons the step.
#[derive(Default)]
struct AbandonGuard(Arc<Flag>);

impl<H: Handler, S: Stream> Connection<H, S> {
    /// Completes a request: runs its work, and sends the further replies of a stream. Each reply is sent as soon as it is
    /// complete, and the next one starts after the client has taken it.
    pub(super) async fn run_remaining(&mut self, mut rest: Remaining) -> Result<(), ConnectionEnd> {
        loop {
            let next = match rest {
                Remaining::Nothing => return Ok(()),
                Remaining::Work(pending) => self.finish(pending).await?,
                Remaining::NextReply(request) => Some(request),
            };
            let Some(request) = next else {
                return Ok(());
            };
            self.flush().await?;
            tokio::task::yield_now().await;
            self.notice_hangup()?;
            if !(self.phase.wait() && self.phase.work()) {
                return Err(ConnectionEnd::Closed);
            }
            rest = self.answer(Incoming::Request(*request))?;
        }
    }

    /// Waits until the reply is complete, and returns the request for the next one of a stream. If the client leaves or the
    /// server shuts down, the work is dropped, which cancels the command.
    async fn finish(&mut self, pending: Pending) -> Result<Option<Box<Request>>, ConnectionEnd> {
        let Pending {
            source,
            mut frame,
            wanted,
            next_request,
        } = pending;
        if frame.start() > 0 {
            // Complete replies do not wait for this one.
            let started = self.output.split_off(frame.start());
            self.flush().await?;
            self.output.extend_from_slice(&started);
            frame.moved_to_front();
        }
        let completed = match source {
            ReplySource::Work(work) => self.step(work, wanted).await,
            ReplySource::Awaited(answer) => match self.unless_hung_up(answer, wanted).await {
                Ok(Ok(answer)) => {
                    self.output.extend_from_slice(&answer.document);
                    Ok(answer.streaming)
                }
                Ok(Err(hangup)) => Err(hangup.into()),
                Err(end) => Err(end),
            },
        };
        let streaming = match completed {
            Ok(streaming) => streaming,
            Err(end) => {
                frame.discard(&mut self.output);
                return Err(end);
            }
        };
        let next = next_request.filter(|_| streaming && wanted);
        if next.is_some() {
            frame.announce_next(&mut self.output);
        }
        if wanted {
            self.seal(frame)?;
        } else {
            frame.discard(&mut self.output);
        }
        Ok(next)
    }

    /// Steps the work until its reply is complete. Returns true if the reply is one of a stream.
    async fn step(&mut self, mut work: Box<dyn Work>, wanted: bool) -> Result<bool, ConnectionEnd> {
        let mut progress = work.step(&mut self.output)?;
        loop {
            let mut blocking = false;
            match progress {
                Progress::Done => return Ok(false),
                Progress::Streaming => return Ok(true),
                Progress::More => tokio::task::yield_now().await,
                Progress::Wait(wait) => self.wait(wait, wanted).await?,
                Progress::Blocking => blocking = true,
            }
            // An unacknowledged write goes on without its client, which may have disconnected right after sending it.
            if wanted {
                self.notice_hangup()?;
            }
            progress = match blocking {
                false => work.step(&mut self.output)?,
                true => {
                    let stepped;
                    (work, stepped) = self.step_blocking(work, wanted).await?;
                    stepped
                }
            };
        }
    }

    /// Runs the step on a blocking thread. The step is abandoned when the client disconnects, and when a server that shuts
    /// down has waited long enough and aborts this task.
    async fn step_blocking(
        &mut self,
        mut work: Box<dyn Work>,
        wanted: bool,
    ) -> Result<(Box<dyn Work>, Progress), ConnectionEnd> {
        let mut output = std::mem::take(&mut self.output);
        let abandons = AbandonGuard::default();
        let limit = Limit::until_abandoned(Arc::clone(&abandons.0));
        let stepping = spawn_blocking(move || {
            let progress = limit.watch(|| work.step(&mut output));
            (work, output, progress)
        });
        match self.unless_hung_up(stepping, wanted).await? {
            Ok((work, output, progress)) => {
                self.output = output;
                Ok((work, progress?))
            }
            Err(failed) => match failed.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime is shutting down.
                Err(_) => Err(ConnectionEnd::Closed),
            },
        }
    }

    /// Waits. Nothing runs meanwhile, so a server that shuts down does not wait for this connection, unless the client
    /// expects no reply and relies on the server to complete the command.
    async fn wait(&mut self, wait: Wait, wanted: bool) -> Result<(), ConnectionEnd> {
        if wanted && !self.phase.wait() {
            return Err(ConnectionEnd::Closed);
        }
        self.unless_hung_up(wait, wanted).await?;
        if wanted && !self.phase.work() {
            return Err(ConnectionEnd::Closed);
        }
        Ok(())
    }

    /// Waits for a future. If the client waits for the reply, a disconnect ends the wait.
    async fn unless_hung_up<T>(
        &mut self,
        future: impl Future<Output = T>,
        wanted: bool,
    ) -> Result<T, ConnectionEnd> {
        let mut future = pin!(future);
        if !wanted {
            return Ok(future.await);
        }
        while self.has_room() {
            tokio::select! {
                biased;
                done = &mut future => return Ok(done),
                ready = self.stream.readable() => {
                    ready?;
                    self.notice_hangup()?;
                }
            }
        }
        tokio::select! {
            biased;
            done = &mut future => Ok(done),
            closed = self.stream.closed() => Err(end(closed)),
        }
    }

    /// Returns an error if the client has disconnected. Bytes that it has sent in the meantime are kept for later, as far
    /// as the buffer has room: the server allocates nothing for a client that does not wait for replies. Without room it
    /// notices only the end of the connection. Costs no system call while nothing has happened.
    fn notice_hangup(&mut self) -> Result<(), ConnectionEnd> {
        if !self.has_room() {
            let mut context = Context::from_waker(Waker::noop());
            return match pin!(self.stream.closed()).poll(&mut context) {
                Poll::Ready(closed) => Err(end(closed)),
                Poll::Pending => Ok(()),
            };
        }
        match self.stream.try_read(&mut self.input) {
            Ok(0) => Err(ConnectionEnd::Closed),
            Ok(read) => {
                self.traffic.read += read as u64;
                Ok(())
            }
            Err(problem) if problem.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(problem) => Err(problem.into()),
        }
    }

    fn has_room(&self) -> bool {
        self.input.len() < self.input.capacity()
    }
}

// === impl AbandonGuard ===

impl Drop for AbandonGuard {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// Returns the reason for the end of a connection that the client has closed.
fn end(closed: io::Result<()>) -> ConnectionEnd {
    closed.map_or_else(ConnectionEnd::Lost, |()| ConnectionEnd::Closed)
}
