//! Pipeline updates: `[{$set: ...}, {$unset: ...}, ...]`. Each stage transforms the output of the previous one.

use crate::error::Result;
use crate::query::stage::{self, STAGES, Transform};
use crate::query::{Scope, Survey};
use crate::value::{Doc, TS_FIELD};

use super::Apply;
use super::check::check_size;
use super::parse::check_reserved;
use super::replace::{NameCheck, replace, without_ts};

/// A parsed pipeline update.
pub struct PipelineUpdate {
    stages: Transform,
    /// True if some stage reads the root field `_ts`.
    pub reads_ts: bool,
    pub is_slow: bool,
}

// === impl PipelineUpdate ===

impl PipelineUpdate {
    pub fn parse(stages: Doc<'_>, scope: &Scope) -> Result<Self> {
        let transform = Transform::parse(stages, &scope.clone().of_update())?;
        check_written(stages)?;
        let surveyed = Survey::of(TS_FIELD, |survey| transform.survey(survey));
        Ok(Self {
            stages: transform,
            reads_ts: surveyed.names_field,
            is_slow: surveyed.is_slow,
        })
    }

    pub fn apply(&self, old: Doc<'_>, apply: &Apply<'_>, out: &mut Vec<u8>) -> Result<bool> {
        let current = self.stages.apply(old, apply.vars)?;
        check_size(current.len())?;
        // A client cannot set `_ts`, not even through `$replaceWith` with a stored copy.
        let current = without_ts(Doc::new(&current));
        // The stages may have seen `_ts` in the old document, so it is ignored on both sides.
        if current == without_ts(old) {
            return Ok(false);
        }
        replace(old, Doc::new(&current), apply, out, NameCheck::Free, false)?;
        Ok(true)
    }
}

/// Rejects a stage that writes or removes `_ts`.
fn check_written(stages: Doc<'_>) -> Result<()> {
    for stage in stage::names(stages) {
        let Some(row) = STAGES.find(stage.name_bytes()) else {
            continue;
        };
        let mut checked = Ok(());
        row.facts.changes.each_written(stage.value, &mut |path| {
            if checked.is_ok() {
                checked = check_reserved(path.split('.').next().unwrap_or_default(), path);
            }
        });
        checked?;
    }
    Ok(())
}
