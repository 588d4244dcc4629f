//! A pipeline over one document: what an update with a pipeline and `$merge` with `whenMatched: [...]` run.

use std::sync::Arc;

use super::add_fields::AddFields;
use super::each::Each;
use super::pipeline::only_field;
use super::place::Place;
use super::{add_fields, project, replace_root, unset};
use crate::aside;
use crate::error::{Code, Error, Result};
use crate::query::expr::check_depth;
use crate::query::{Scope, Vars};
use crate::value::{Doc, ValueRef};

/// Stages that make one document of one document, one behind the other.
#[derive(Clone, Default)]
pub struct Transform {
    stages: Vec<Arc<dyn Each>>,
}

// === impl Transform ===

impl Transform {
    pub fn parse(stages: Doc<'_>, scope: &Scope) -> Result<Self> {
        let mut parsed = Self::default();
        for elem in stages {
            let stage = elem.value.as_doc().ok_or_else(|| {
                Error::type_mismatch("Each element of the 'pipeline' array must be an object")
            })?;
            let field = only_field(stage)?;
            parsed.push(field.name(), field.value, scope)?;
        }
        Ok(parsed)
    }

    /// Parses one more stage.
    pub fn push(&mut self, name: &str, value: ValueRef<'_>, scope: &Scope) -> Result<()> {
        let place = Place::new(scope, "", None);
        let each: Arc<dyn Each> = match name {
            "$addFields" | "$set" => {
                let fields: AddFields = add_fields::parse_fields(name_of(name), value, &place)?;
                Arc::new(fields)
            }
            "$project" => Arc::new(project::parse_project(value, &place)?),
            "$unset" => Arc::new(unset::parse_unset(value, &place)?),
            "$replaceRoot" => Arc::new(replace_root::replace_root(value, &place)?),
            "$replaceWith" => Arc::new(replace_root::replace_with(value, &place)?),
            other if super::table::find(other).is_some() => {
                return Err(Error::new(
                    Code::InvalidOptions,
                    format!("{other} is not allowed to be used within an update"),
                ));
            }
            other => {
                return Err(Error::location(
                    40324,
                    format!("Unrecognized pipeline stage name: '{other}'"),
                ));
            }
        };
        self.stages.push(each);
        Ok(())
    }

    /// The document that comes of `doc`.
    pub fn apply(&self, doc: Doc<'_>, vars: &Vars) -> Result<Vec<u8>> {
        let mut current = doc.bytes().to_vec();
        let mut next = Vec::new();
        for stage in &self.stages {
            aside::tick_read(current.len())?;
            next.clear();
            stage.apply(Doc::new(&current), vars, &mut next)?;
            check_depth(ValueRef::document(Doc::new(&next)))?;
            std::mem::swap(&mut current, &mut next);
        }
        Ok(current)
    }
}

fn name_of(name: &str) -> &'static str {
    if name == "$set" { "$set" } else { "$addFields" }
}
