//! A pipeline over one document, for pipeline updates and for `$merge` with `whenMatched: [...]`.

use std::sync::Arc;

use super::document_map::DocumentMap;
use super::facts::StageParser;
use super::levels::row_of;
use super::pipeline::only_field;
use super::stage_context::{StageContext, stage_is_no_document};
use crate::error::{Code, Error, Result};
use crate::interrupt;
use crate::query::expr::check_depth;
use crate::query::{Scope, Survey, Vars};
use crate::value::{Doc, ValueRef};
use crate::vocabulary::Status;

/// A sequence of stages that map one document to one document.
#[derive(Clone, Default)]
pub struct Transform {
    stages: Vec<Arc<dyn DocumentMap>>,
}

// === impl Transform ===

impl Transform {
    pub fn parse(stages: Doc<'_>, scope: &Scope) -> Result<Self> {
        let mut parsed = Self::default();
        for elem in stages {
            let stage = elem
                .value
                .as_doc()
                .ok_or_else(|| stage_is_no_document(elem.value.ty()))?;
            let field = only_field(stage)?;
            parsed.push(field.name(), field.value, scope)?;
        }
        Ok(parsed)
    }

    /// Parses and appends one stage.
    pub fn push(&mut self, name: &str, value: ValueRef<'_>, scope: &Scope) -> Result<()> {
        let row = row_of(name)?;
        let Status::Ready(StageParser::Each(parse)) = row.status else {
            return Err(Error::new(
                Code::InvalidOptions,
                format!("{name} is not allowed to be used within an update"),
            ));
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
        for stage in &self.stages {
            interrupt::tick_read(current.len())?;
            next.clear();
            stage.apply(Doc::new(&current), vars, &mut next)?;
            check_depth(ValueRef::document(Doc::new(&next)))?;
            std::mem::swap(&mut current, &mut next);
        }
        Ok(current)
    }
}
