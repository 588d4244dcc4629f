//! A pipeline over one document, for pipeline updates and for `$merge` with `whenMatched: [...]`. In other pipelines it runs
//! adjacent stages of which one sets a field again that another has removed.

use std::sync::Arc;

use ahash::{HashSet, HashSetExt};

use super::document_map::DocumentMap;
use super::facts::StageParser;
use super::levels::row_of;
use super::pipeline::{PipelineStep, Stage, only_field};
use super::stage_context::{StageContext, stage_is_no_document};
use crate::error::{Code, Error, Result};
use crate::interrupt;
use crate::query::expr::check_depth;
use crate::query::projection::in_places;
use crate::query::{Scope, Survey, Vars};
use crate::value::{Doc, DocBuf, Elem, ValueRef};
use crate::vocabulary::Status;

/// A sequence of stages that map one document to one document.
#[derive(Clone, Default)]
pub struct Transform {
    stages: Vec<Arc<dyn DocumentMap>>,
    /// A stage may set a field again that one before it has removed, so their places are remembered.
    has_returning_fields: bool,
}

/// Returns the name and the argument of a stage.
fn field_of(elem: Elem<'_>) -> Result<Elem<'_>> {
    let stage = elem.value.as_doc();
    only_field(stage.ok_or_else(|| stage_is_no_document(elem.value.ty()))?)
}

/// Checks that all stages are documents.
pub fn check_documents(stages: Doc<'_>) -> Result<()> {
    stages
        .iter()
        .try_for_each(|elem| match elem.value.as_doc() {
            Some(_) => Ok(()),
            None => Err(stage_is_no_document(elem.value.ty())),
        })
}

/// Checks that each stage has a name that MongoDB knows, without looking at its argument.
pub fn check_names(stages: Doc<'_>) -> Result<()> {
    stages
        .iter()
        .try_for_each(|elem| row_of(field_of(elem)?.name()).map(drop))
}

/// Creates the error for a stage that no update can have.
fn refusal(name: &str) -> Error {
    Error::new(
        Code::InvalidOptions,
        format!("{name} is not allowed to be used within an update"),
    )
}

// === impl Transform ===

impl Transform {
    pub fn parse(stages: Doc<'_>, scope: &Scope) -> Result<Self> {
        let mut parsed = Self::default();
        let mut refused = None;
        for elem in stages {
            let field = field_of(elem)?;
            let row = row_of(field.name())?;
            match row.status {
                Status::Ready(StageParser::Each(_)) => {
                    parsed.push(row.name, field.value, scope)?;
                    continue;
                }
                // MongoDB parses all stages before it looks whether an update can have them.
                Status::Ready(StageParser::Stages(parse)) => {
                    // The stage is refused in any case: a target only needs a database that could be one.
                    let context = StageContext::new(scope, "any", Some("any"));
                    parse(field.value, &context, &mut |_| {})?;
                }
                Status::Planned => {}
            }
            refused = refused.or(Some(refusal(row.name)));
        }
        if let Some(refusal) = refused {
            return Err(refusal);
        }
        parsed.has_returning_fields = have_returning_fields(parsed.stages.iter());
        Ok(parsed)
    }

    /// Returns the transform of the projections that these steps begin with, if places must be remembered between them.
    /// (A projection keeps every row. `$redact` may drop one.)
    pub(super) fn with_places(steps: &[PipelineStep]) -> Option<Self> {
        let projections = || {
            steps.iter().map_while(|step| match &step.stage {
                Stage::StageOp(op) => op.as_map().filter(|map| map.projection().is_some()),
                _ => None,
            })
        };
        let found = projections().nth(1).is_some() && have_returning_fields(projections());
        found.then(|| Self {
            stages: projections().map(Arc::clone).collect(),
            has_returning_fields: true,
        })
    }

    /// Returns the number of stages.
    pub(super) fn len(&self) -> usize {
        self.stages.len()
    }

    /// Parses and appends one stage.
    pub fn push(&mut self, name: &str, value: ValueRef<'_>, scope: &Scope) -> Result<()> {
        let row = row_of(name)?;
        let Status::Ready(StageParser::Each(parse)) = row.status else {
            return Err(refusal(name));
        };
        self.stages
            .push(parse(value, &StageContext::new(scope, "", None))?);
        Ok(())
    }

    /// Reports the fields that the stages name.
    pub fn survey(&self, survey: &mut Survey<'_>) {
        for stage in &self.stages {
            stage.survey(survey);
            survey.settle();
        }
    }

    /// Returns the transformed document.
    pub fn apply(&self, doc: Doc<'_>, vars: &Vars) -> Result<Vec<u8>> {
        let mut current = doc.bytes().to_vec();
        let mut next = Vec::new();
        let mut places = DocBuf::new();
        if self.has_returning_fields {
            places = DocBuf::from_bytes(current.clone());
        }
        for stage in &self.stages {
            interrupt::tick_read(current.len())?;
            next.clear();
            stage.apply(Doc::new(&current), vars, &mut next)?;
            let new = Doc::new(&next);
            check_depth(ValueRef::document(new))?;
            if self.has_returning_fields {
                match stage.projection().filter(|made| made.keeps_places()) {
                    Some(made) => {
                        places = made.places(places.as_doc(), new);
                        next = in_places(new, places.as_doc()).into_bytes();
                    }
                    None => places = DocBuf::from_bytes(next.clone()),
                }
            }
            std::mem::swap(&mut current, &mut next);
        }
        Ok(current)
    }
}

/// Returns whether one of the stages may set a field that one before it may have removed, or a field inside it.
fn have_returning_fields<'s>(stages: impl Iterator<Item = &'s Arc<dyn DocumentMap>>) -> bool {
    let mut removed = HashSet::new();
    for stage in stages {
        let Some(made) = stage.projection().filter(|made| made.keeps_places()) else {
            removed.clear();
            continue;
        };
        let mut returns = false;
        if !removed.is_empty() {
            made.computed(&mut |path| {
                let above = path.match_indices('.').map(|(end, _)| &path[..end]);
                returns |= above.chain([path]).any(|path| removed.contains(path));
            });
        }
        if returns {
            return true;
        }
        made.removed(&mut |path| {
            removed.insert(path.to_owned());
        });
    }
    false
}
