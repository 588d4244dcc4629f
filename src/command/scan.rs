//! Reads that look at documents one after the other and keep no copy of them: count, distinct, dataSize, explain.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::{Call, Outcome, Step, Task};
use crate::engine::access::{Pace, Walk};
use crate::engine::write::Selection;
use crate::engine::{ReadPoint, TimeSlice};
use crate::error::Result;
use crate::query::Vars;
use crate::query::filter::Filter;
use crate::query::stage::Slice;
use crate::value::{Doc, DocBuilder};

/// What is made of the documents.
pub(super) trait Gather: Send + 'static {
    /// Takes one in; a break says that no more are needed.
    fn take(&mut self, doc: Doc<'_>) -> Result<ControlFlow<()>>;
    /// Writes what came of them.
    fn reply(&mut self, walk: Option<&Walk>, reply: &mut DocBuilder<'_>) -> Result<()>;
}

/// The documents on their way into `G`.
pub(super) struct Scan<G> {
    pub walk: Option<Walk>,
    pub filter: Arc<Filter>,
    pub vars: Vars,
    pub at: ReadPoint,
    pub gather: G,
}

/// Gathers the documents of a collection (one that does not exist has none): at once if that is quickly done, else in steps. The
/// selection comes with what [`parsing`](crate::aside::parsing) says of it.
pub(super) fn run<G: Gather>(
    call: &Call<'_>,
    collection: &str,
    (selection, is_slow): (Selection, bool),
    gather: G,
    reply: &mut DocBuilder<'_>,
) -> Result<Outcome> {
    let collection = call.context.catalog.get(call.database(), collection)?;
    let walk = collection.map(|collection| selection.walk(collection, call.read_point()));
    let scan = Scan {
        walk: walk.transpose()?,
        filter: selection.wanted.into_filter(),
        vars: selection.vars,
        at: call.read_point(),
        gather,
    };
    begin(scan, is_slow, reply)
}

pub(super) fn begin<G: Gather>(
    mut scan: Scan<G>,
    is_slow: bool,
    reply: &mut DocBuilder<'_>,
) -> Result<Outcome> {
    // What may take long is on the list of operations before it begins.
    if is_slow || !matches!(scan.step(reply)?, Step::Done) {
        return Ok(Outcome::Work(Box::new(scan)));
    }
    Ok(Outcome::Reply)
}

// === impl Scan ===

impl<G: Gather> Task for Scan<G> {
    fn step(&mut self, reply: &mut DocBuilder<'_>) -> Result<Step> {
        let Self {
            walk,
            filter,
            vars,
            at,
            gather,
        } = self;
        let slice = TimeSlice::begin();
        if let Some(walk) = walk {
            loop {
                let mut enough = false;
                let pace = walk.slice(*at, filter, vars, |found| {
                    let flow = gather.take(found.shown)?;
                    enough = flow.is_break();
                    Ok(flow)
                })?;
                if enough || pace == Pace::End {
                    break;
                }
                if slice.is_over() {
                    return Ok(Step::More);
                }
            }
        }
        gather.reply(walk.as_ref(), reply)?;
        Ok(Step::Done)
    }
}
