//! `$project`: which fields stay, which go, which are computed.

use std::sync::Arc;

use super::each::{Each, map};
use super::{Place, Rows};
use crate::error::{Error, Result};
use crate::query::filter::Filter;
use crate::query::projection::{Kind, Projection};
use crate::query::{Naming, Vars};
use crate::value::{Doc, Type, ValueRef, is_true};

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

/// The fields that are computed or left out; those that are named to stay do not count.
pub(super) fn written<'v>(spec: ValueRef<'v>, visit: &mut dyn FnMut(&'v str)) {
    // Any other value is an expression.
    let is_flag = |value: ValueRef<'_>| value.ty() == Type::Bool || value.ty().is_number();
    for field in spec.as_doc().into_iter().flatten() {
        if !(is_flag(field.value) && is_true(field.value)) {
            visit(field.name());
        }
    }
}

// === impl Project ===

impl Each for Project {
    fn apply(&self, doc: Doc<'_>, vars: &Vars, out: &mut Vec<u8>) -> Result<bool> {
        self.0.apply(doc, vars, None, out)?;
        Ok(true)
    }

    fn names(&self, naming: &mut Naming<'_>) {
        self.0.names(naming);
    }
}
