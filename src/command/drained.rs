//! Changes to a collection's rules that must not bring anything back, and must not hold anybody up.
//!
//! A longer, unlimited or removed rule could revive what has ended and still waits for the reaper. So what has ended is removed
//! first, in steps; the change is made in the same lock hold in which nothing is left. Where rules that go by dates change,
//! what the new ones say of each document is computed before that, in steps as well ([`Redating`]).

use std::sync::Arc;
use std::time::Duration;

use super::{Call, Context, Outcome, Step, Task};
use crate::engine::TimeSlice;
use crate::error::{Code, Error, Result};
use crate::storage::index::{Index, IndexSpec};
use crate::storage::{Collection, Dropped, Redating, Writer};
use crate::value::{DocBuf, DocBuilder};

/// Makes the change and says what the reply holds.
pub type Change = Box<dyn FnOnce(&mut Writer<'_>) -> Result<Done> + Send>;

/// Which indexes make date rules after the change.
pub type Rules = Box<dyn Fn(&[Index]) -> Vec<IndexSpec> + Send>;

/// A change that was made.
#[derive(Default)]
pub struct Done {
    pub reply: DocBuf,
    /// Indexes that are no more, to be freed when the lock is.
    pub gone: Vec<Index>,
}

/// Before one that waits for another change looks again.
pub const A_MOMENT: Duration = Duration::from_millis(2);

struct Draining {
    context: Arc<Context>,
    collection: Arc<Collection>,
    /// Dropped behind the change, so that others with a change to make wait until it is made.
    dates: Option<(Redating, Rules)>,
    change: Option<Change>,
}

/// Makes a change once nothing is left that has ended. Mostly at once; as work where much has ended, or where `rules`
/// change and there are many documents.
pub fn drain_then(
    call: &Call<'_>,
    reply: &mut DocBuilder<'_>,
    collection: Arc<Collection>,
    rules: Option<Rules>,
    change: Change,
) -> Result<Outcome> {
    let mut draining = Draining {
        context: Arc::clone(call.context),
        dates: rules.map(|rules| (Redating::new(Arc::clone(&collection)), rules)),
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
        let slice = TimeSlice::begin();
        if let Some((redating, rules)) = &mut self.dates
            && let Some(step) = prepare(redating, &slice, rules).map_err(|_| dropped())?
        {
            return Ok(step);
        }
        let Some(change) = self.change.take() else {
            return Ok(Step::Done);
        };
        // Time goes on while this waits its turn: what ends meanwhile has to go, too.
        let now = self.context.clock.now();
        match self.collection.drain_then(now, slice.until(), change) {
            Ok(Ok(done)) => {
                let Done { reply: said, gone } = done?;
                let entries = gone.iter().map(Index::len).sum::<usize>();
                crate::storage::free(gone, entries as u64);
                reply.put_body(said.as_doc().body());
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

/// A step towards other date rules; `None` when they can change at once.
pub fn prepare(
    redating: &mut Redating,
    slice: &TimeSlice,
    rules: impl FnOnce(&[Index]) -> Vec<IndexSpec>,
) -> Result<Option<Step>, Dropped> {
    Ok(match redating.step(slice.until(), rules)? {
        true => None,
        false if redating.waits() => Some(Step::Sleep(A_MOMENT)),
        false => Some(Step::More),
    })
}

/// The date rules among the indexes, with `change` made to each: `None` if it makes none any more.
pub fn rules_after(
    indexes: &[Index],
    change: impl Fn(&Index) -> Option<IndexSpec>,
) -> Vec<IndexSpec> {
    let rules = indexes.iter().filter_map(change);
    rules.filter(|spec| spec.expire_after.is_some()).collect()
}

/// The collection went away while it was being changed.
pub fn dropped() -> Error {
    Error::new(Code::NamespaceNotFound, "ns does not exist")
}
