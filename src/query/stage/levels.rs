//! Nested pipelines as the client wrote them, for checks that run before parsing.

use super::facts::{Entry, RowsFrom};
use super::table::STAGES;
use crate::error::{Error, Result};
use crate::value::{Doc, Elem, ValueRef};

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
