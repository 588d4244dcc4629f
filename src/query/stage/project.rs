//! `$project`: which fields stay, which go, which are computed.

use std::sync::Arc;

use super::each::{Each, map};
use super::facts::root;
use super::{Place, Rows};
use crate::error::{Error, Result};
use crate::query::filter::Filter;
use crate::query::projection::{Kind, Projection};
use crate::query::{Survey, Vars};
use crate::value::{Doc, Elem, Type, ValueRef, is_true};

/// A projection as a stage; also what `$unset` comes to.
pub(super) struct Project(pub Projection);

/// The rows of `input`, projected (a find's projection, too, where it needs no positional `$`).
pub fn rows(input: Box<dyn Rows>, projection: Projection) -> Box<dyn Rows> {
    map(input, move |row, vars, out| {
        projection.apply(row.doc, vars, None, out)?;
        Ok(true)
    })
}

/// The rows of `input`, which have passed `filter`, projected by a find's projection with a positional `$`: it has to
/// know which array element made the document pass.
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

pub(super) fn parse_project(value: ValueRef<'_>, place: &Place<'_>) -> Result<Arc<dyn Each>> {
    let spec = value
        .as_doc()
        .ok_or_else(|| Error::location(15969, "$project specification must be an object"))?;
    let projection = Projection::parse(spec, place.scope, Kind::Aggregate)
        .map_err(|error| error.caused("Invalid $project"))?;
    Ok(Arc::new(Project(projection)))
}

/// The fields that are computed or left out by name; those that are named to stay do not count.
pub(super) fn written<'v>(spec: ValueRef<'v>, visit: &mut dyn FnMut(&'v str)) {
    for field in spec.as_doc().into_iter().flatten() {
        if flag(field.value) != Some(true) {
            visit(field.name());
        }
    }
}

/// Whether what stands at a path comes out as it went in. What is named only in part does not.
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

/// Whether a field that is not named is left out. The first other field than `_id` decides, at whatever level.
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

/// `1` and `true`, `0` and `false`; nothing for what is computed.
fn flag(value: ValueRef<'_>) -> Option<bool> {
    let is_flag = value.ty() == Type::Bool || value.ty().is_number();
    is_flag.then(|| is_true(value))
}

// === impl Project ===

impl Each for Project {
    fn apply(&self, doc: Doc<'_>, vars: &Vars, out: &mut Vec<u8>) -> Result<bool> {
        self.0.apply(doc, vars, None, out)?;
        Ok(true)
    }

    fn survey(&self, survey: &mut Survey<'_>) {
        self.0.survey(survey);
    }
}
