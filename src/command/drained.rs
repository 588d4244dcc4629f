//! Changes to a collection's rules that must not bring anything back.
//!
//! A longer, unlimited or removed rule could revive what has ended and still waits for the reaper. So what has ended is removed
//! first, in steps; the change is made in the same lock hold in which nothing is left.

use std::sync::Arc;

use super::{Call, Context, Outcome, Step, Task};
use crate::engine::TimeSlice;
use crate::error::{Code, Error, Result};
use crate::storage::{Collection, Writer};
use crate::value::{DocBuf, DocBuilder};

/// Makes the change and says what the reply holds.
pub type Change = Box<dyn FnOnce(&mut Writer<'_>) -> Result<DocBuf> + Send>;

struct Draining {
    context: Arc<Context>,
    collection: Arc<Collection>,
    change: Option<Change>,
}

/// Makes a change once nothing is left that has ended. Mostly at once; as work where much has ended.
pub fn drain_then(
    call: &Call<'_>,
    reply: &mut DocBuilder<'_>,
    collection: Arc<Collection>,
    change: Change,
) -> Result<Outcome> {
    let mut draining = Draining {
        context: Arc::clone(call.context),
        collection,
        change: Some(change),
    };
    match draining.step(reply)? {
        Step::Done => Ok(Outcome::Reply),
        _ => Ok(Outcome::Work(Box::new(draining))),
    }
}

// === impl Draining ===

impl Task for Draining {
    fn step(&mut self, reply: &mut DocBuilder<'_>) -> Result<Step> {
        let Some(change) = self.change.take() else {
            return Ok(Step::Done);
        };
        let slice = TimeSlice::begin();
        // Time goes on while this waits its turn: what ends meanwhile has to go, too.
        let now = self.context.clock.now();
        match self.collection.drain_then(now, slice.until(), change) {
            Ok(Ok(done)) => {
                reply.put_body(done?.as_doc().body());
                Ok(Step::Done)
            }
            Ok(Err(change)) => {
                self.change = Some(change);
                Ok(Step::More)
            }
            Err(_dropped) => Err(dropped()),
        }
    }
}

/// The collection went away while it was being changed.
pub fn dropped() -> Error {
    Error::new(Code::NamespaceNotFound, "ns does not exist")
}
