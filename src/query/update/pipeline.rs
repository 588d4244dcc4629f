//! Pipeline updates: `[{$set: ...}, {$unset: ...}, ...]`, each stage over the document that the one before made.

use crate::error::Result;
use crate::query::Scope;
use crate::query::stage::{Transform, names_root};
use crate::value::{Doc, ValueRef};

use super::Apply;
use super::check::check_size;
use super::parse::check_reserved;
use super::replace::{Names, replace, without_ts};

pub struct Pipeline {
    stages: Transform,
    /// Some stage reads the root field `_ts`.
    pub reads_ts: bool,
}

// === impl Pipeline ===

impl Pipeline {
    pub fn parse(stages: Doc<'_>, scope: &Scope) -> Result<Self> {
        let transform = Transform::parse(stages, scope)?;
        for stage in stages {
            if let Some(stage) = stage.value.as_doc().and_then(Doc::first) {
                check_written(stage.name(), stage.value)?;
            }
        }
        Ok(Self {
            stages: transform,
            reads_ts: names_root(ValueRef::array(stages), "_ts"),
        })
    }

    pub fn apply(&self, old: Doc<'_>, apply: &Apply<'_>, out: &mut Vec<u8>) -> Result<bool> {
        let current = self.stages.apply(old, apply.vars)?;
        check_size(current.len())?;
        // Wherever it may come from ($replaceWith of a stored copy, say), `_ts` is not the client's to set.
        let current = without_ts(Doc::new(&current));
        // It may have been shown to the stages, though.
        if current == without_ts(old) {
            return Ok(false);
        }
        replace(old, Doc::new(&current), apply, out, Names::Free, false)?;
        Ok(true)
    }
}

/// No stage may name `_ts` as a field to write or to take away.
fn check_written(stage: &str, spec: ValueRef<'_>) -> Result<()> {
    let check = |path: &str| check_reserved(path.split('.').next().unwrap_or_default(), path);
    match stage {
        "$set" | "$addFields" => {
            for elem in spec.as_doc().into_iter().flatten() {
                check(elem.name())?;
            }
        }
        "$project" => {
            // To name it as one of the fields that stay is no harm.
            let kept = |value: ValueRef<'_>| {
                value.as_bool() == Some(true)
                    || value.as_num().is_some_and(|number| !number.is_zero())
            };
            for elem in spec.as_doc().into_iter().flatten() {
                if !kept(elem.value) {
                    check(elem.name())?;
                }
            }
        }
        "$unset" => {
            let list = spec.as_array().into_iter().flatten().map(|elem| elem.value);
            for field in std::iter::once(spec).chain(list) {
                check(field.as_str().unwrap_or_default())?;
            }
        }
        _ => {}
    }
    Ok(())
}
