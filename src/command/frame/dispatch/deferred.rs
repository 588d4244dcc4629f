//! Requests that run later, in a turn of their own.

use std::sync::Arc;
use std::time::Instant;

use super::super::counters::Counters;
use super::super::{Client, Context, reply};
use super::locked::LockedStatement;
use super::{Attempt, attempt};
use crate::error::{Hangup, Result};
use crate::handler::{Progress, Work};
use crate::interrupt::Limit;
use crate::wait::Wait;
use crate::wire::Request;

/// A request that runs later: a retryable write that waits for an earlier attempt of itself, a request that a fail point
/// delays, or one that is too large to run on the worker that serves the connection.
pub(super) struct DeferredRequest {
    pub context: Arc<Context>,
    pub client: Arc<Client>,
    pub request: Request,
    /// The step that parses the request and plans its queries may take long, and has not been announced yet.
    pub announces: bool,
    /// The end of the waiting time.
    pub deadline: Option<Instant>,
    /// The statement of a transaction that waits for a schema change.
    pub locked: Option<Box<LockedStatement>>,
    /// The work that the request became when its turn came.
    pub running: Option<Box<dyn Work>>,
}

// === impl DeferredRequest ===

impl DeferredRequest {
    pub fn new(context: &Arc<Context>, client: &Arc<Client>, request: Request) -> Self {
        Self {
            context: Arc::clone(context),
            client: Arc::clone(client),
            request,
            announces: false,
            deadline: None,
            locked: None,
            running: None,
        }
    }
}

impl Work for DeferredRequest {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<Progress, Hangup> {
        if let Some(running) = &mut self.running {
            return running.step(out);
        }
        if std::mem::take(&mut self.announces) {
            return Ok(Progress::Blocking);
        }
        let limit = Limit {
            deadline: self.deadline,
            ..Limit::default()
        };
        if let Err(error) = limit.check() {
            let start = out.len();
            reply::fail(out, start, &error);
            self.context.put_time(out, start);
            return Ok(Progress::Done);
        }
        let resumed = match self.locked.take() {
            None => None,
            Some(mut locked) => {
                if let Some(wait) = locked.take_wait() {
                    self.locked = Some(locked);
                    return Ok(Progress::Wait(wait));
                }
                if let Err(error) = locked.check(&self.context) {
                    let shard = Counters::shard(self.client.id);
                    locked.fail(&self.context, shard, error, out);
                    return Ok(Progress::Done);
                }
                Some(locked)
            }
        };
        let (context, client) = (&self.context, &self.client);
        match attempt(context, client, &mut None, &self.request, resumed, out) {
            Attempt::Replied => Ok(Progress::Done),
            Attempt::Streaming => Ok(Progress::Streaming),
            Attempt::Busy(busy, deadline) => {
                self.deadline = self.deadline.or(deadline);
                let wait = Wait::until(busy.given_back);
                Ok(Progress::Wait(match self.deadline {
                    Some(deadline) => wait.no_later_than(deadline),
                    None => wait,
                }))
            }
            Attempt::Locked(locked) => {
                self.locked = Some(locked);
                Ok(Progress::More)
            }
            Attempt::Work(work) => {
                self.running = Some(work);
                Ok(Progress::More)
            }
        }
    }
}
