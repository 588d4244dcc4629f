//! `$project`: which fields stay, which go, which are computed.

use std::sync::Arc;

use super::each::{Each, Mapped};
use super::{Op, Place, Rows, Stage};
use crate::error::{Error, Result};
use crate::query::Vars;
use crate::query::filter::Filter;
use crate::query::projection::{Kind, Projection};
use crate::value::{Doc, ValueRef};

/// A projection as a stage; also what `$unset` comes to.
pub(super) struct Project(pub Projection);

/// The rows of `input`, projected (a find's projection, too, where it needs no positional `$`).
pub fn rows(input: Box<dyn Rows>, projection: Projection) -> Box<dyn Rows> {
    Arc::new(Mapped(Project(projection))).open(input)
}

/// The rows of `input`, which have passed `filter`, projected by a find's projection with a positional `$`.
pub fn found_rows(
    input: Box<dyn Rows>,
    projection: Projection,
    filter: Arc<Filter>,
) -> Box<dyn Rows> {
    Arc::new(Mapped(Found { projection, filter })).open(input)
}

/// A projection that needs to know which array element made the document pass.
struct Found {
    projection: Projection,
    filter: Arc<Filter>,
}

pub(super) fn parse(
    value: ValueRef<'_>,
    place: &Place<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    push(Stage::Op(Arc::new(Mapped(parse_project(value, place)?))));
    Ok(())
}

pub(super) fn parse_project(value: ValueRef<'_>, place: &Place<'_>) -> Result<Project> {
    let spec = value
        .as_doc()
        .ok_or_else(|| Error::location(15969, "$project specification must be an object"))?;
    Projection::parse(spec, place.scope, Kind::Aggregate)
        .map(Project)
        .map_err(|error| error.caused("Invalid $project"))
}

// === impl Project ===

impl Each for Project {
    fn apply(&self, doc: Doc<'_>, vars: &Vars, out: &mut Vec<u8>) -> Result<bool> {
        self.0.apply(doc, vars, None, out)?;
        Ok(true)
    }
}

// === impl Found ===

impl Each for Found {
    fn apply(&self, doc: Doc<'_>, vars: &Vars, out: &mut Vec<u8>) -> Result<bool> {
        let position = self.filter.position(doc, vars);
        self.projection.apply(doc, vars, position, out)?;
        Ok(true)
    }
}
