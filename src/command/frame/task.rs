//! Commands that take longer than a step: they are watched, can be killed, and end at their time limit.

use std::sync::Arc;

use super::operations::Operation;
use super::{Command, Context, reply};
use crate::aside::Limit;
use crate::command::cosmos::Meter;
use crate::effort::Effort;
use crate::error::{Hangup, Result};
use crate::handler::{Progress, Work};
use crate::value::{Doc, DocBuilder};
use crate::wait::Wait;

/// A command cut into steps. Dropping it abandons the command and leaves nothing half done.
pub trait Task: Send {
    /// Goes on for about half a millisecond. What it writes into the reply counts only in the step that returns `Done` or
    /// `Stream`.
    fn step(&mut self, reply: &mut DocBuilder<'_>) -> Result<Step>;

    /// What the command has done with documents so far, its beginning included.
    fn effort(&self) -> Effort {
        Effort::default()
    }
}

#[derive(Debug)]
pub enum Step {
    /// Step again when others had their turn.
    More,
    /// There is nothing to do before this is over, or the command ends: step again then.
    Wait(Wait),
    /// The fields of the reply are written.
    Done,
    /// They are, and the command is run again for the next reply, as in [`Outcome::Stream`](super::Outcome::Stream).
    Stream,
}

/// A task in the care of the framework.
pub(in crate::command) struct RunningCommand {
    pub task: Box<dyn Task>,
    pub command: &'static Command,
    pub context: Arc<Context>,
    /// On the list while it runs.
    pub operation: Operation,
    /// Charges what it costs, until it has done so.
    pub meter: Option<Meter>,
    pub limit: Limit,
    pub shard: usize,
    /// The reply is `ok` alone.
    pub terse: bool,
}

// === impl RunningCommand ===

impl Drop for RunningCommand {
    fn drop(&mut self) {
        // It may have made something expire long after it began.
        self.context.reaper.note_request();
    }
}

impl Work for RunningCommand {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<Progress, Hangup> {
        let start = out.len();
        let stepped = self.limit.check().and_then(|()| {
            let mut builder = DocBuilder::begin(out);
            let stepped = self.limit.watch(|| self.task.step(&mut builder));
            if matches!(stepped, Ok(Step::Done | Step::Stream)) {
                builder.put_f64("ok", 1.0);
            }
            builder.end();
            stepped
        });
        if !matches!(stepped, Ok(Step::More | Step::Wait(_)))
            && let Some(meter) = self.meter.take()
        {
            let said = match stepped {
                Ok(_) => reply::behind(out, start),
                Err(_) => Doc::EMPTY,
            };
            let client = &self.operation.info.client;
            meter.end(&self.context, client, self.task.effort(), said);
        }
        Ok(match stepped {
            Ok(Step::Done) => {
                if self.terse {
                    reply::shorten(out, start);
                }
                Progress::Done
            }
            Ok(Step::Stream) => Progress::Streaming,
            Ok(Step::More) => {
                out.truncate(start);
                Progress::More
            }
            Ok(Step::Wait(wait)) => {
                out.truncate(start);
                Progress::Wait(self.limit.bound(wait))
            }
            Err(error) => {
                self.context.counters.failed(self.shard, self.command);
                reply::fail(out, start, &error);
                Progress::Done
            }
        })
    }
}
