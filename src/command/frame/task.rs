//! Commands that take longer than a step. They are listed, can be killed, and end at their deadline.

use std::sync::Arc;

use super::operations::Operation;
use super::usage::Used;
use super::write_concern::UnmetConcern;
use super::{Command, Context, reply, transaction};
use crate::command::cosmos::Meter;
use crate::effort::Effort;
use crate::engine::Snapshot;
use crate::error::{Code, Error, Hangup, Result};
use crate::handler::{Progress, Work};
use crate::interrupt::Limit;
use crate::latency::Stopwatch;
use crate::session::InTransaction;
use crate::value::{Doc, DocBuilder, ValueRef};
use crate::wait::Wait;
use crate::wire::Request;

/// A command cut into steps. Dropping it abandons the command and leaves nothing half done.
pub trait Task: Send {
    /// Runs for about half a millisecond. The framework discards what the step writes into the reply unless it returns
    /// `Done` or `Stream`.
    fn step(&mut self, reply: &mut DocBuilder<'_>) -> Result<Step>;

    /// Returns the work that the command has done on documents, from its beginning.
    fn effort(&self) -> Effort {
        Effort::default()
    }
}

#[derive(Debug)]
pub enum Step {
    /// Call `step` again after other connections had their turn.
    More,
    /// Call `step` again when this wait is over, or when the command ends.
    Wait(Wait),
    /// The same, and the command waits for a lock that a transaction holds.
    Locked(Wait),
    /// Call `step` again on a thread of its own: that step may have to wait in its middle.
    Blocking,
    /// The fields of the reply are written.
    Done,
    /// The fields are written, and the command runs again for the next reply, as in
    /// [`Outcome::Stream`](super::Outcome::Stream).
    Stream,
}

/// A task that the framework runs.
pub(in crate::command) struct RunningCommand {
    pub task: Box<dyn Task>,
    pub command: &'static Command,
    pub context: Arc<Context>,
    /// Keeps the command on the list of operations while it runs.
    pub operation: Operation,
    /// Charges the cost of the command. `None` once that is done.
    pub meter: Option<Meter>,
    pub limit: Limit,
    pub shard: usize,
    pub stopwatch: Stopwatch,
    /// The number of statements that count on their own.
    pub statements: u64,
    /// The reply is only `ok`.
    pub terse: bool,
    /// A write concern that cannot be met, and the request that has it.
    pub unmet: Option<(Box<UnmetConcern>, Request)>,
    /// The transaction that the command belongs to. It is aborted if the command is abandoned.
    pub transaction: Option<InTransaction>,
    /// Stays open while the command reads it.
    pub _snapshot: Option<Arc<Snapshot>>,
}

// === impl RunningCommand ===

impl RunningCommand {
    /// Returns the write concern that the reply must tell about.
    fn unmet(&self) -> Option<&UnmetConcern> {
        let (unmet, request) = self.unmet.as_ref()?;
        let counts = unmet.concerns(self.command, request.body(), self.task.effort());
        counts.then_some(unmet)
    }

    fn note_usage(&self) {
        let info = &self.operation.info;
        let body = info.body();
        let first = body.first().map_or(ValueRef::MISSING, |first| first.value);
        let mut used = Used::new(self.command, &info.database, first, body, None);
        used.statements = self.statements;
        self.context
            .note_usage(&info.client, &used, Some(&self.stopwatch));
    }

    /// Returns the error of a command that was killed because the time of its transaction is over, or else this one.
    fn name_interruption(&self, error: Error) -> Error {
        match &self.transaction {
            Some(joined) if error.code() == Code::Interrupted => {
                let checked = transaction::check_lifetime(joined, self.context.clock.now());
                checked.err().unwrap_or(error)
            }
            _ => error,
        }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        // The command may have made a document expire long after its own start.
        self.context.reaper.note_request();
    }
}

impl Work for RunningCommand {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<Progress, Hangup> {
        let start = out.len();
        self.stopwatch.go_on();
        let stepped = self.limit.check().and_then(|()| {
            let mut builder = DocBuilder::begin(out);
            let stepped = self.limit.watch(|| self.task.step(&mut builder));
            if matches!(stepped, Ok(Step::Done | Step::Stream)) {
                if let Some(unmet) = self.unmet() {
                    unmet.put(self.command, &mut builder);
                }
                builder.put_f64("ok", 1.0);
            }
            builder.end();
            stepped
        });
        let stepped = stepped.map_err(|error| self.name_interruption(error));
        let is_locked = matches!(stepped, Ok(Step::Locked(_)));
        self.operation.info.note_lock(is_locked);
        let goes_on =
            is_locked || matches!(stepped, Ok(Step::More | Step::Wait(_) | Step::Blocking));
        if !goes_on && let Some(meter) = self.meter.take() {
            let reply = match stepped {
                Ok(_) => reply::behind(out, start),
                Err(_) => Doc::EMPTY,
            };
            let client = &self.operation.info.client;
            meter.end(&self.context, client, self.task.effort(), reply);
        }
        match stepped {
            Ok(Step::Wait(_)) => self.stopwatch.pause(),
            _ if goes_on => {}
            _ => self.note_usage(),
        }
        let in_transaction = self.transaction.is_some();
        if !goes_on && let Some(joined) = self.transaction.take() {
            let reply = stepped.as_ref().map(|_| reply::behind(out, start));
            transaction::finish(&self.context, joined, reply);
        }
        Ok(match stepped {
            Ok(Step::Done) => {
                if self.terse {
                    reply::shorten(out, start);
                }
                self.context.put_time(out, start);
                Progress::Done
            }
            Ok(Step::Stream) => {
                self.context.put_time(out, start);
                Progress::Streaming
            }
            Ok(Step::More) => {
                out.truncate(start);
                Progress::More
            }
            Ok(Step::Blocking) => {
                out.truncate(start);
                Progress::Blocking
            }
            Ok(Step::Wait(wait) | Step::Locked(wait)) => {
                out.truncate(start);
                Progress::Wait(self.limit.bound(wait))
            }
            Err(error) => {
                let error = match in_transaction {
                    true => transaction::labelled(error),
                    false => error,
                };
                self.context
                    .counters
                    .failed(self.shard, self.command, &error);
                match self.unmet() {
                    Some(unmet) => reply::fail_and_tell(out, start, &error, |reply| {
                        unmet.put(self.command, reply);
                    }),
                    None => reply::fail(out, start, &error),
                }
                self.context.put_time(out, start);
                Progress::Done
            }
        })
    }
}
