//! `$project`: keeps, drops and computes fields.

use std::sync::Arc;

use super::document_map::{DocumentMap, map};
use super::facts::root;
use super::{Rows, StageContext};
use crate::error::{Error, Result};
use crate::query::filter::Filter;
use crate::query::projection::{Projection, ProjectionKind};
use crate::query::{PathOrigin, Survey, Vars};
use crate::value::{Doc, Elem, Path, Type, ValueRef, is_true};

/// A projection as a stage. `$unset` is parsed into it too.
pub(super) struct Project(pub Projection);

/// Returns the projected rows of `input`. A find uses it too, if its projection has no positional `$`.
pub fn rows(input: Box<dyn Rows>, projection: Projection) -> Box<dyn Rows> {
    map(input, move |row, vars, out| {
        projection.apply(row.doc, vars, None, out)?;
        Ok(true)
    })
}

/// Returns the rows of `input`, which have passed `filter`, projected with a positional `$`. That projection needs to know
/// which array element made the document match.
pub fn found_rows(
    input: Box<dyn Rows>,
    projection: Projection,
    filter: Arc<Filter>,
) -> Box<dyn Rows> {
    map(input, move |row, vars, out| {
        let position = filter.position(row.doc, vars)?;
        projection.apply(row.doc, vars, position, out)?;
        Ok(true)
    })
}

pub(super) fn parse_project(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
) -> Result<Arc<dyn DocumentMap>> {
    let spec = value
        .as_doc()
        .ok_or_else(|| Error::location(15969, "$project specification must be an object"))?;
    let projection = Projection::parse(spec, context.scope, ProjectionKind::Aggregate)
        .map_err(|error| error.caused("Invalid $project"))?;
    Ok(Arc::new(Project(projection)))
}

/// Visits the fields that are computed or dropped by name. Fields that are included do not count.
pub(super) fn written<'v>(spec: ValueRef<'v>, visit: &mut dyn FnMut(&'v str)) {
    for field in spec.as_doc().into_iter().flatten() {
        if flag(field.value) != Some(true) {
            visit(field.name());
        }
    }
}

/// Returns whether the value at a path passes unchanged. A value that is only partly named does not.
pub(super) fn passes(spec: ValueRef<'_>, path: &str) -> bool {
    let spec = spec.as_doc().unwrap_or(Doc::EMPTY);
    let mut named = spec.iter().filter(|elem| root(elem.name()) == root(path));
    let Some(first) = named.next() else {
        return root(path) == "_id" || !includes(spec);
    };
    std::iter::once(first).chain(named).any(|elem| {
        let below = path.strip_prefix(elem.name());
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            && flag(elem.value) == Some(true)
    })
}

/// Returns whether unnamed fields are dropped. The first field other than `_id` decides, at any level.
fn includes(spec: Doc<'_>) -> bool {
    let decides = |elem: &Elem<'_>| elem.name() != "_id" || spec.count() == 1;
    spec.iter().find(decides).is_some_and(|elem| {
        let within = elem.value.as_doc();
        let within = within.filter(|doc| doc.iter().all(|elem| !elem.name().starts_with('$')));
        match within {
            Some(doc) => includes(doc),
            None => flag(elem.value) != Some(false),
        }
    })
}

/// Reads `1`, `true`, `0` and `false`. Returns `None` for a computed field.
fn flag(value: ValueRef<'_>) -> Option<bool> {
    let is_flag = value.ty() == Type::Bool || value.ty().is_number();
    is_flag.then(|| is_true(value))
}

// === impl Project ===

impl DocumentMap for Project {
    fn apply(&self, doc: Doc<'_>, vars: &Vars, out: &mut Vec<u8>) -> Result<bool> {
        self.0.apply(doc, vars, None, out)?;
        Ok(true)
    }

    fn survey(&self, survey: &mut Survey<'_>) {
        self.0.survey(survey);
    }

    fn origin(&self, path: &Path) -> PathOrigin {
        self.0.origin(path)
    }

    fn projection(&self) -> Option<&Projection> {
        Some(&self.0)
    }
}
