//! `$collStats`: statistics of the collection, as one row.

use std::sync::Arc;

use super::{
    CollectionName, Flow, Report, RowBatch, RowContext, Rows, Stage, StageContext, StageOp,
};
use crate::args::{Arg, fields, object};
use crate::error::Result;
use crate::query::Survey;
use crate::value::{Doc, Type, ValueRef};

/// A stage that reports on a collection or on the server and reads no input.
pub(super) struct ReportStage {
    pub on: CollectionName,
    pub what: Report,
}

struct CollStatsRows(Arc<ReportStage>);

pub(super) fn parse(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let words = "$collStats must take a nested object but found: {}";
    let (mut latency, mut storage) = (None, None);
    let (mut count, mut exec, mut events) = (false, false, false);
    for option in fields("$collStats", object(value, 5447000, words)?) {
        match option.name() {
            "latencyStats" => {
                if let Some(options) = option.doc()? {
                    latency = Some(histograms(options)?);
                }
            }
            "storageStats" => {
                if let Some(options) = option.doc()? {
                    storage = Some(scale(options)?);
                }
            }
            "count" => count |= empty(option)?,
            "queryExecStats" => exec |= empty(option)?,
            "operationStats" => events |= empty(option)?,
            _ => return Err(option.unknown()),
        }
    }
    push(Stage::StageOp(Arc::new(ReportStage {
        on: CollectionName::new(context.db, context.coll.unwrap_or_default()),
        what: Report::CollStats {
            latency,
            storage,
            count,
            exec,
            events,
        },
    })));
    Ok(())
}

/// Returns whether the stage asks only for the number of documents.
pub(super) fn only_counts(spec: ValueRef<'_>) -> bool {
    let mut options = spec.as_doc().into_iter().flatten();
    options.all(|option| option.name() == "count")
}

/// Returns whether the option is an empty object. Null means that the client does not ask for these figures.
fn empty(option: Arg<'_>) -> Result<bool> {
    match option.doc()? {
        None => Ok(false),
        Some(doc) if doc.is_empty() => Ok(true),
        Some(_) => {
            let words = "{} argument to $collStats must be an empty object";
            Err(option.refuse(31170, words))
        }
    }
}

/// Parses `{histograms}`.
fn histograms(options: Doc<'_>) -> Result<bool> {
    let mut wanted = false;
    for option in fields("$collStats.latencyStats", options) {
        match option.name() {
            "histograms" => wanted = option.exactly(Type::Bool, ValueRef::as_bool)?,
            _ => return Err(option.unknown()),
        }
    }
    Ok(wanted)
}

/// Parses `{scale}`, the divisor of all sizes.
fn scale(options: Doc<'_>) -> Result<f64> {
    let mut scale = 1.0;
    for option in fields("$collStats.storageStats", options) {
        if option.name() != "scale" || option.is_null() {
            continue;
        }
        option.exactly(Type::Int32, ValueRef::as_num)?;
        if let Some(integer) = option.int_at_least(1)? {
            scale = integer as f64;
        }
    }
    Ok(scale)
}

// === impl ReportStage ===

impl StageOp for ReportStage {
    fn open(self: Arc<Self>, _: Box<dyn Rows>) -> Box<dyn Rows> {
        Box::new(CollStatsRows(self))
    }

    fn survey(&self, _: &mut Survey<'_>) {}
}

// === impl CollStatsRows ===

impl Rows for CollStatsRows {
    fn fill(&mut self, cx: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
        cx.sources.report(cx, &self.0.on, &self.0.what, out)?;
        Ok(Flow::End)
    }

    fn suspend(&mut self) -> usize {
        0
    }
}
