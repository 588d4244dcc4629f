//! `$out`: writes the rows into a new collection. Also the part that `$out` and `$merge` share: a stage that writes and
//! returns no rows.

use std::sync::Arc;

use super::{
    CollectionName, Flow, Output, RowBatch, RowContext, Rows, Sink, Stage, StageContext, StageOp,
};
use crate::args::{fields, object, required};
use crate::error::{Code, Error, Result};
use crate::names::{check_characters, is_database, is_internal, is_system};
use crate::query::Survey;
use crate::value::{Doc, ValueRef};

/// A stage that writes.
pub(super) struct WriteStage(Arc<Output>);

struct OutRows {
    input: Box<dyn Rows>,
    output: Arc<Output>,
    sink: Option<Box<dyn Sink>>,
    batch: RowBatch,
}

pub(super) fn parse(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let (into, timeseries) = match value.as_str() {
        Some(coll) => (CollectionName::new(context.db, coll), false),
        None => {
            let words = "$out only supports a string or object argument, but found {}";
            document_form(object(value, 16990, words)?)?
        }
    };
    check_target("$out", &into)?;
    if is_internal(&into.db) && into.db != context.db {
        return Err(Error::location(
            31321,
            format!("Can't $out to internal database: {}", into.db),
        ));
    }
    if is_system(&into.coll) {
        return Err(Error::location(
            17385,
            format!("Can't $out to special collection: {}", into.coll),
        ));
    }
    if timeseries {
        return Err(Error::not_implemented("$out to a time-series collection"));
    }
    push(writes(Output::Replace(into)));
    Ok(())
}

pub(super) fn writes(output: Output) -> Stage {
    Stage::StageOp(Arc::new(WriteStage(Arc::new(output))))
}

/// Parses `{db, coll, timeseries}`. Returns the target, and whether a time-series collection is requested.
fn document_form(spec: Doc<'_>) -> Result<(CollectionName, bool)> {
    let (mut db, mut coll, mut timeseries) = (None, None, None);
    for option in fields("$out", spec) {
        let before = match option.name() {
            "db" => db.replace(option.str()?).is_some(),
            "coll" => coll.replace(option.str()?).is_some(),
            "timeseries" => timeseries.replace(option.doc()?).is_some(),
            _ => return Err(option.unknown()),
        };
        if before {
            return Err(option.duplicate());
        }
    }
    let db = required(db.flatten(), "$out", "db")?;
    let coll = required(coll.flatten(), "$out", "coll")?;
    Ok((
        CollectionName::new(db, coll),
        timeseries.flatten().is_some(),
    ))
}

/// Checks that the namespace is valid.
pub(super) fn check_target(stage: &str, into: &CollectionName) -> Result<()> {
    let CollectionName { db, coll } = into;
    check_characters(coll)?;
    if !is_database(db) || coll.is_empty() {
        let place = match stage {
            "$out" => format!(", {into}"),
            _ => format!(": '{into}'"),
        };
        return Err(Error::new(
            Code::InvalidNamespace,
            format!("Invalid {stage} target namespace{place}"),
        ));
    }
    Ok(())
}

// === impl WriteStage ===

impl StageOp for WriteStage {
    fn open(self: Arc<Self>, input: Box<dyn Rows>) -> Box<dyn Rows> {
        Box::new(OutRows {
            input,
            output: self.0.clone(),
            sink: None,
            batch: RowBatch::new(),
        })
    }

    fn output(&self) -> Option<&Arc<Output>> {
        Some(&self.0)
    }

    fn survey(&self, survey: &mut Survey<'_>) {
        if let Output::Merge(merge) = &*self.0 {
            merge.survey(survey);
        }
    }
}

// === impl OutRows ===

impl Rows for OutRows {
    fn fill(&mut self, cx: &mut RowContext<'_>, _: &mut RowBatch) -> Result<Flow> {
        if self.sink.is_none() {
            self.sink = Some(cx.sources.sink(cx, &self.output)?);
        }
        let Some(sink) = &mut self.sink else {
            return Ok(Flow::End);
        };
        loop {
            self.batch.restart(usize::MAX);
            let flow = self.input.fill(cx, &mut self.batch)?;
            if !self.batch.is_empty() {
                sink.write(cx, &self.batch)?;
            }
            match flow {
                Flow::End => {
                    sink.finish(cx)?;
                    return Ok(Flow::End);
                }
                Flow::More if !cx.out_of_time() => {}
                _ => return Ok(Flow::Pause),
            }
        }
    }

    fn suspend(&mut self) -> usize {
        self.batch.suspend() + self.input.suspend()
    }
}
