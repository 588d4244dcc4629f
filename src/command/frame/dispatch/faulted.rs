//! Requests while a fail point is on.

use std::sync::Arc;
use std::time::Duration;

use super::super::reply;
use super::DeferredRequest;
use crate::command::fail_point::Fault;
use crate::config::Topology;
use crate::error::Hangup;
use crate::handler::{Progress, Work};
use crate::value::DocBuilder;
use crate::wait::Wait;

/// A request that `failCommand` strikes.
struct Faulted {
    asked: DeferredRequest,
    fault: Arc<Fault>,
    /// The rest of the time to wait.
    block: Option<Duration>,
}

/// A retryable write, whose connection closes in the end if a fail point has struck one of its statements.
struct WatchedWrite(DeferredRequest);

/// Returns the request as work, with what the fail points do to it.
pub(super) fn struck(asked: DeferredRequest) -> Box<dyn Work> {
    let points = &asked.context.fail_points;
    if let Some(fault) = points.strike(&asked.client, &asked.request) {
        return Box::new(Faulted {
            asked,
            block: fault.block,
            fault,
        });
    }
    if points.watches_writes() && asked.request.body().has("txnNumber") {
        return Box::new(WatchedWrite(asked));
    }
    Box::new(asked)
}

// === impl Faulted ===

impl Faulted {
    fn put_state(&self, reply: &mut DocBuilder<'_>) {
        let context = &self.asked.context;
        if self.fault.denies_primary()
            && matches!(context.config.topology, Topology::ReplicaSet { .. })
        {
            reply::put_topology_version(reply, &context.process);
        }
    }
}

impl Work for Faulted {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<Progress, Hangup> {
        if let Some(time) = self.block.take() {
            return Ok(Progress::Wait(Wait::sleep(time)));
        }
        if self.fault.close {
            return Err(Hangup::new("a fail point closes the connection"));
        }
        let start = out.len();
        if let Some(error) = self.fault.error(&self.asked.request) {
            reply::fail(out, start, &error);
            reply::extend(out, start, |reply| self.put_state(reply));
            self.asked.context.put_time(out, start);
            return Ok(Progress::Done);
        }
        let progress = self.asked.step(out)?;
        if progress.is_done()
            && let Some(error) = &self.fault.write_concern_error
        {
            reply::extend(out, start, |reply| {
                reply.put_doc("writeConcernError", error.as_doc());
                self.fault.put_labels(&self.asked.request, reply);
                self.put_state(reply);
            });
        }
        Ok(progress)
    }
}

// === impl WatchedWrite ===

impl Work for WatchedWrite {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<Progress, Hangup> {
        let Self(asked) = self;
        let progress = asked.step(out)?;
        if progress.is_done() && asked.context.fail_points.closes(asked.client.id) {
            return Err(Hangup::new("a fail point closes the connection"));
        }
        Ok(progress)
    }
}
