//! Reads that visit documents one by one and keep no copy of them: count, distinct, dataSize.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::{Call, Outcome, Step, Task};
use crate::effort::Effort;
use crate::engine::access::{SlicePace, Walk};
use crate::engine::write::Selection;
use crate::engine::{ReadPoint, TimeSlice};
use crate::error::Result;
use crate::query::Vars;
use crate::query::filter::Filter;
use crate::query::stage::StepBudget;
use crate::value::{Doc, DocBuilder};

/// A computation over the documents of a scan.
pub(in crate::command) trait ScanVisitor: Send + 'static {
    /// Takes in a document. A break means that no more documents are needed.
    fn take(&mut self, doc: Doc<'_>) -> Result<ControlFlow<()>>;
    /// Writes the result.
    fn reply(&mut self, reply: &mut DocBuilder<'_>) -> Result<()>;
}

/// A scan that passes the documents it finds to `G`.
pub(in crate::command) struct ScanTask<G> {
    walk: Option<Walk>,
    filter: Arc<Filter>,
    vars: Vars,
    at: ReadPoint,
    gather: G,
    effort: Effort,
}

/// Scans the documents of a collection, at once if that is quick, else in steps. A collection that does not exist has no
/// documents.
pub(in crate::command) fn run<G: ScanVisitor>(
    call: &mut Call<'_>,
    collection: &str,
    selection: Selection,
    gather: G,
    reply: &mut DocBuilder<'_>,
) -> Result<Outcome> {
    let collection = call
        .context
        .catalog
        .get_at(call.database(), collection, call.read_point())?;
    let walk = collection.map(|collection| selection.walk(collection, call.read_point()));
    let is_slow = selection.is_slow();
    let filter = selection.wanted.into_filter();
    let scan = ScanTask::new(walk.transpose()?, filter, selection.vars, gather, call);
    begin(call, scan, is_slow, reply)
}

pub(in crate::command) fn begin<G: ScanVisitor>(
    call: &mut Call<'_>,
    mut scan: ScanTask<G>,
    is_slow: bool,
    reply: &mut DocBuilder<'_>,
) -> Result<Outcome> {
    // A scan that may take long is on the list of operations before it begins.
    if !is_slow {
        let stepped = scan.step(reply);
        call.effort = scan.effort;
        if matches!(stepped?, Step::Done) {
            return Ok(Outcome::Reply);
        }
    }
    Ok(Outcome::Work(Box::new(scan)))
}

// === impl ScanTask ===

impl<G: ScanVisitor> ScanTask<G> {
    pub fn new(
        walk: Option<Walk>,
        filter: Arc<Filter>,
        vars: Vars,
        gather: G,
        call: &Call<'_>,
    ) -> Self {
        Self {
            walk,
            filter,
            vars,
            at: call.read_point(),
            gather,
            effort: Effort::default(),
        }
    }
}

impl<G: ScanVisitor> Task for ScanTask<G> {
    fn step(&mut self, reply: &mut DocBuilder<'_>) -> Result<Step> {
        let Self {
            walk,
            filter,
            vars,
            at,
            gather,
            effort,
        } = self;
        let slice = TimeSlice::begin();
        if let Some(walk) = walk {
            loop {
                let mut enough = false;
                let sliced = walk.slice(*at, filter, vars, |found| {
                    let flow = gather.take(found.shown)?;
                    enough = flow.is_break();
                    Ok(flow)
                });
                *effort += walk.take_effort();
                if sliced? == SlicePace::End || enough {
                    break;
                }
                if slice.is_over() {
                    return Ok(Step::More);
                }
            }
        }
        gather.reply(reply)?;
        Ok(Step::Done)
    }

    fn effort(&self) -> Effort {
        self.effort
    }
}
