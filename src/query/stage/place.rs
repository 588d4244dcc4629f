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
    /// The stage whose inner pipeline this is; none for the pipeline of the command.
    pub within: Option<&'static InnerRules>,
    /// The `$facet` around it, near or far.
    pub in_facet: Option<&'static InnerRules>,
    /// The stage is the first of its pipeline.
    pub first: bool,
    depth: u32,
}

/// What a stage with inner pipelines says of them.
pub struct InnerRules {
    /// Its pipelines run over its own input, not over a collection.
    pub same_rows: bool,
    /// The code and, behind the name of a stage, the words for one that may not stand there.
    pub refusal: (i32, &'static str),
    /// What is said of a stage that is no document.
    pub not_a_document: fn(Type) -> Error,
}

// === impl Place ===

impl<'a> Place<'a> {
    pub fn new(scope: &'a Scope, db: &'a str, coll: Option<&'a str>) -> Self {
        Self {
            scope,
            db,
            coll,
            within: None,
            in_facet: None,
            first: true,
            depth: 0,
        }
    }

    /// The place of a stage of this pipeline.
    pub(super) fn at(self, first: bool) -> Self {
        Self { first, ..self }
    }

    /// The rows in front of the pipeline are those of the stage around it.
    pub(super) fn is_over_same_rows(self) -> bool {
        self.within.is_some_and(|within| within.same_rows)
    }

    /// The place of a pipeline inside a stage that stands here.
    pub fn inside(self, within: &'static InnerRules, scope: &'a Scope) -> Result<Self> {
        if self.depth >= MAX_DEPTH {
            return Err(Error::new(
                Code::MaxSubPipelineDepthExceeded,
                format!("Maximum number of nested sub-pipelines exceeded. Limit is {MAX_DEPTH}"),
            ));
        }
        Ok(Self {
            scope,
            within: Some(within),
            in_facet: self.in_facet.or(within.same_rows.then_some(within)),
            depth: self.depth + 1,
            ..self
        })
    }
}

// === impl InnerRules ===

impl InnerRules {
    /// Refuses a stage by name.
    pub fn refuse(&self, stage: &str) -> Error {
        let (code, words) = self.refusal;
        Error::location(code, format!("{stage} is not allowed {words}"))
    }
}

pub(super) fn stage_is_no_document(_: Type) -> Error {
    Error::type_mismatch("Each element of the 'pipeline' array must be an object")
}

/// The elements of a `pipeline` argument.
pub(super) fn stages_of<'v>(value: ValueRef<'v>) -> Result<crate::value::Doc<'v>> {
    value
        .as_array()
        .ok_or_else(|| Error::type_mismatch("'pipeline' option must be specified as an array"))
}
