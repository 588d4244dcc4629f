//! Nested pipelines as the client wrote them, for checks that run before parsing.

use super::facts::{EarlyCheck, Entry, RowsFrom, StageParser};
use super::pipeline::only_field;
use super::stage_context::StageContext;
use super::table::STAGES;
use crate::error::{Error, Result};
use crate::value::{Doc, Elem, ValueRef};
use crate::vocabulary::Status;

/// Visits every stage of a pipeline, and of the pipelines inside its stages. It rejects only unknown stage names.
/// [`super::Pipeline::parse`] reports all other errors.
pub fn each_stage(
    stages: Doc<'_>,
    visit: &mut dyn FnMut(&'static Entry, ValueRef<'_>) -> Result<()>,
) -> Result<()> {
    for stage in names(stages) {
        let row = row_of(stage.name())?;
        visit(row, stage.value)?;
        let mut within = Ok(());
        (row.facts.inner)(stage.value, &mut |stages| {
            if within.is_ok() {
                within = each_stage(stages, visit);
            }
        });
        within?;
    }
    Ok(())
}

/// Reports the mistake that MongoDB reports first: before it parses any stage, it checks the names of all stages, at any level,
/// and the arguments of those that name collections.
pub fn check_early(stages: Doc<'_>, context: &StageContext<'_>) -> Result<()> {
    let specs = stages.iter().map(|stage| {
        let spec = stage.value.as_doc();
        spec.ok_or_else(|| context.not_a_document(stage.value.ty()))
    });
    // All elements must be documents before the first name counts.
    for spec in specs.collect::<Result<Vec<_>>>()? {
        let field = only_field(spec)?;
        let row = row_of(field.name())?;
        match (row.facts.early, row.status) {
            (EarlyCheck::Part(check), _) => check(field.value, context)?,
            (EarlyCheck::Argument, Status::Ready(StageParser::Stages(parse))) => {
                parse(field.value, context, &mut |_| {})?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns whether a pipeline begins with rows of its own, so that it needs no collection.
pub(super) fn brings_rows(stages: Doc<'_>) -> bool {
    names(stages)
        .next()
        .and_then(|first| STAGES.find(first.name_bytes()))
        .is_some_and(|row| row.facts.rows_from == RowsFrom::Command)
}

pub(super) fn row_of(name: &str) -> Result<&'static Entry> {
    STAGES.find(name.as_bytes()).ok_or_else(|| {
        Error::location(40324, format!("Unrecognized pipeline stage name: '{name}'"))
    })
}

/// Returns the name and the argument of each stage.
pub fn names(stages: Doc<'_>) -> impl Iterator<Item = Elem<'_>> {
    stages
        .iter()
        .filter_map(|stage| stage.value.as_doc().and_then(Doc::first))
}

/// Visits the inner pipeline of `$lookup` and `$unionWith`.
pub(super) fn only_pipeline<'v>(spec: ValueRef<'v>, visit: &mut dyn FnMut(Doc<'v>)) {
    let pipeline = spec
        .as_doc()
        .and_then(|spec| spec.get("pipeline").as_array());
    if let Some(stages) = pipeline {
        visit(stages);
    }
}

/// Visits the inner pipelines of `$rankFusion` and `$scoreFusion`.
pub(super) fn fused<'v>(spec: ValueRef<'v>, visit: &mut dyn FnMut(Doc<'v>)) {
    let pipelines = spec
        .as_doc()
        .and_then(|spec| spec.get("input").as_doc())
        .and_then(|input| input.get("pipelines").as_doc());
    if let Some(pipelines) = pipelines {
        super::facet::inner(ValueRef::document(pipelines), visit);
    }
}
