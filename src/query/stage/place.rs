//! Where a pipeline stands while it is parsed, and what is allowed there.

use crate::error::{Code, Error, Result};
use crate::query::Scope;
use crate::value::{Type, ValueRef};

/// How deep pipelines may stand within pipelines.
const MAX_DEPTH: u32 = 20;

/// The surroundings of a stage that is being parsed.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub scope: &'a Scope,
    pub db: &'a str,
    /// The collection the command names; none for `{aggregate: 1}`.
    pub coll: Option<&'a str>,
    pub within: Within,
    /// A `$facet` stands around it, near or far.
    pub in_facet: bool,
    /// The stage is the first of its pipeline.
    pub first: bool,
    depth: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Within {
    Command,
    Facet,
    Lookup,
    UnionWith,
}

/// Where in a pipeline a stage may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    Any,
    First,
    Last,
}

// === impl Place ===

impl<'a> Place<'a> {
    pub fn new(scope: &'a Scope, db: &'a str, coll: Option<&'a str>) -> Self {
        Self {
            scope,
            db,
            coll,
            within: Within::Command,
            in_facet: false,
            first: true,
            depth: 0,
        }
    }

    /// The place of a stage of this pipeline.
    pub(super) fn at(self, first: bool) -> Self {
        Self { first, ..self }
    }

    /// The place of a pipeline inside a stage that stands here.
    pub fn inside(self, within: Within, scope: &'a Scope) -> Result<Self> {
        if self.depth >= MAX_DEPTH {
            return Err(Error::new(
                Code::MaxSubPipelineDepthExceeded,
                format!("Maximum number of nested sub-pipelines exceeded. Limit is {MAX_DEPTH}"),
            ));
        }
        Ok(Self {
            scope,
            within,
            in_facet: self.in_facet || within == Within::Facet,
            depth: self.depth + 1,
            ..self
        })
    }
}

// === impl Within ===

impl Within {
    /// Refuses a stage by name, as mongod does for each kind of inner pipeline.
    pub fn refusal(self, stage: &str) -> Error {
        match self {
            Self::Facet => Error::location(
                40600,
                format!("{stage} is not allowed to be used within a $facet stage"),
            ),
            Self::UnionWith => Error::location(
                31441,
                format!("{stage} is not allowed within a $unionWith's sub-pipeline"),
            ),
            _ => Error::location(
                51047,
                format!("{stage} is not allowed within a $lookup's sub-pipeline"),
            ),
        }
    }

    /// What is said of a stage that is no document.
    pub fn not_a_document(self, ty: Type) -> Error {
        match self {
            Self::Facet => Error::location(
                40171,
                format!(
                    "elements of arrays in $facet spec must be non-empty objects, found: {}",
                    ty.alias()
                ),
            ),
            _ => Error::type_mismatch("Each element of the 'pipeline' array must be an object"),
        }
    }
}

/// The elements of a `pipeline` argument.
pub(super) fn stages_of<'v>(value: ValueRef<'v>) -> Result<crate::value::Doc<'v>> {
    value
        .as_array()
        .ok_or_else(|| Error::type_mismatch("'pipeline' option must be specified as an array"))
}
