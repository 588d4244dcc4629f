//! Commands on `local.oplog.rs`. The server keeps this collection, and fills it when somebody reads it.

use std::sync::Arc;

use super::{Access, Call};
use crate::effort::Effort;
use crate::engine::{OPLOG, Oplog, OplogUse, PlanSummary, ReadPoint};
use crate::error::Result;
use crate::session::{Fill, ReplyBatch, Source};
use crate::value::{Doc, ValueRef};
use crate::wait::Wait;

/// The rows of a tailable cursor on the oplog.
struct OplogTail {
    oplog: Arc<Oplog>,
    rows: Box<dyn Source>,
}

/// Prepares the oplog for a command on the database that has it.
#[cold]
pub(in crate::command) fn enter(call: &Call<'_>, oplog: &Oplog) -> Result<()> {
    if !names_oplog(call.body()) {
        return Ok(());
    }
    let resizes = |name: &str| call.arg(name).is_some();
    let to = match (call.command.name, call.command.facts.access) {
        ("collMod", _) if resizes("cappedSize") || resizes("cappedMax") => OplogUse::Resize,
        ("drop", _) => OplogUse::Drop,
        (_, Access::Write) | ("collMod" | "createIndexes" | "dropIndexes", _) => OplogUse::Write,
        _ => OplogUse::Read,
    };
    oplog.enter(to, call.now)
}

/// Returns whether a command, or the one that it explains, is about the collection.
fn names_oplog(body: Doc<'_>) -> bool {
    let is_name = |value: ValueRef<'_>| value.as_str() == Some(OPLOG.1);
    let Some(first) = body.first() else {
        return false;
    };
    let explained = first.value.as_doc().and_then(Doc::first);
    is_name(first.value)
        || explained.is_some_and(|explained| is_name(explained.value))
        || first.name() == "getMore" && is_name(body.get("collection"))
}

/// Lets a tailable cursor on the oplog wait for changes. Other cursors stay as they are.
pub(in crate::command) fn tail(
    call: &Call<'_>,
    collection: &str,
    rows: Box<dyn Source>,
) -> Box<dyn Source> {
    match &call.context.oplog {
        Some(oplog) if (call.database(), collection) == OPLOG => Box::new(OplogTail {
            oplog: Arc::clone(oplog),
            rows,
        }),
        _ => rows,
    }
}

// === impl OplogTail ===

impl Source for OplogTail {
    fn fill(
        &mut self,
        at: ReadPoint,
        batch: &mut ReplyBatch<'_>,
        effort: &mut Effort,
    ) -> Result<Fill> {
        self.oplog.catch_up(at.now());
        self.rows.fill(at, batch, effort)
    }

    fn arrival(&self) -> Option<Wait> {
        Some(self.oplog.arrival())
    }

    fn plan_summary(&self) -> Option<PlanSummary> {
        self.rows.plan_summary()
    }

    fn suspend(&mut self) -> usize {
        self.rows.suspend()
    }
}
