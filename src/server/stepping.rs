//! Commands that take longer: one step at a time, and in between everybody else. And commands that answer more than once.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt;

use crate::handler::{Handler, Progress};
use crate::wire::{Incoming, Request};

use super::connection::{Connection, End, Pending, Rest};
use super::stream::Stream;

/// Who sleeps that long (a hello that waits for news, as every driver keeps one) is not at work.
const RESTING: Duration = Duration::from_millis(500);

impl<H: Handler, S: Stream> Connection<H, S> {
    /// Does what is left of a request: work, and the further replies of a stream. Each of those is sent when it is there, and
    /// the next one begun when the client has taken it.
    pub(super) async fn go_on(&mut self, mut rest: Rest) -> Result<(), End> {
        loop {
            let next = match rest {
                Rest::Nothing => return Ok(()),
                Rest::Finish(pending) => self.finish(pending).await?,
                Rest::Again(request) => Some(request),
            };
            let Some(request) = next else {
                return Ok(());
            };
            self.flush().await?;
            tokio::task::yield_now().await;
            self.notice_hangup()?;
            if !(self.duty.wait() && self.duty.work()) {
                return Err(End::Closed);
            }
            rest = self.answer(Incoming::Request(*request))?;
        }
    }

    /// Steps the work until its reply is there, and returns the request for the next one of a stream. Dropping the work abandons
    /// the command: when the client has left, when the server stops.
    async fn finish(&mut self, pending: Pending) -> Result<Option<Box<Request>>, End> {
        let Pending {
            mut work,
            mut frame,
            wanted,
            again,
        } = pending;
        if frame.start() > 0 {
            // Replies that are ready do not wait for this one.
            self.stream
                .write_all(self.output.get(..frame.start()).unwrap_or_default())
                .await?;
            self.stream.flush().await?;
            self.traffic.written += frame.start() as u64;
            self.output.drain(..frame.start());
            frame.moved_to_front();
        }
        let next = loop {
            match work.step(&mut self.output) {
                Ok(Progress::Done) => break None,
                Ok(Progress::Streaming) => break again.filter(|_| wanted),
                Ok(Progress::More) => tokio::task::yield_now().await,
                Ok(Progress::Sleep(time)) if wanted && time >= RESTING => self.rest(time).await?,
                Ok(Progress::Sleep(time)) => self.sleep(time, wanted).await?,
                Err(hangup) => {
                    frame.discard(&mut self.output);
                    return Err(hangup.into());
                }
            }
            // An unacknowledged write goes on without its client, who may have left right behind it.
            if wanted {
                self.notice_hangup()?;
            }
        };
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

    /// A long sleep. The server that shuts down does not wait for it.
    async fn rest(&mut self, time: Duration) -> Result<(), End> {
        if !self.duty.wait() {
            return Err(End::Closed);
        }
        self.sleep(time, true).await?;
        if self.duty.work() {
            Ok(())
        } else {
            Err(End::Closed)
        }
    }

    async fn sleep(&mut self, time: Duration, wanted: bool) -> Result<(), End> {
        let awake = tokio::time::sleep(time);
        tokio::pin!(awake);
        while wanted && self.has_room() {
            tokio::select! {
                () = &mut awake => return Ok(()),
                ready = self.stream.readable() => {
                    ready?;
                    self.notice_hangup()?;
                }
            }
        }
        awake.await;
        Ok(())
    }

    /// Ends when the client is gone. What it has sent in the meantime is kept for later, as far as there is room: nothing is
    /// allocated for somebody who does not wait for replies. Costs no system call while nothing has happened.
    fn notice_hangup(&mut self) -> Result<(), End> {
        if !self.has_room() {
            return Ok(());
        }
        match self.stream.try_read(&mut self.input) {
            Ok(0) => Err(End::Closed),
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
