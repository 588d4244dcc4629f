//! The place of a pipeline during parsing, and what is allowed there.

use crate::error::{Code, Error, Result};
use crate::query::Scope;
use crate::value::{Type, ValueRef};

/// The maximum nesting depth of pipelines.
const MAX_DEPTH: u32 = 20;

/// The context of a stage that is being parsed.
#[derive(Clone, Copy)]
pub struct StageContext<'a> {
    pub scope: &'a Scope,
    pub db: &'a str,
    /// The collection that the command names, or `None` for `{aggregate: 1}`.
    pub coll: Option<&'a str>,
    /// The stage that contains this pipeline, or `None` for the pipeline of the command.
    pub within: Option<&'static InnerRules>,
    /// The enclosing `$facet`, at any level.
    pub in_facet: Option<&'static InnerRules>,
    /// True if the stage is the first of its pipeline.
    pub first: bool,
    depth: u32,
}

/// The rules of a stage for its inner pipelines.
pub struct InnerRules {
    /// True if the pipelines run over the stage's own input, not over a collection.
    pub same_rows: bool,
    /// The code and the message for a stage that is not allowed there. The message follows the name of the stage.
    pub refusal: (i32, &'static str),
    /// Creates the error for a stage that is not a document.
    pub not_a_document: fn(Type) -> Error,
}

// === impl StageContext ===

impl<'a> StageContext<'a> {
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

    /// Returns the place of a stage of this pipeline.
    pub(super) fn at(self, first: bool) -> Self {
        Self { first, ..self }
    }

    /// Returns whether the pipeline's input is that of the enclosing stage.
    pub(super) fn is_over_same_rows(self) -> bool {
        self.within.is_some_and(|within| within.same_rows)
    }

    /// Returns the error for a stage that is not a document.
    pub(super) fn not_a_document(self, ty: Type) -> Error {
        match self.within {
            Some(within) => (within.not_a_document)(ty),
            None => stage_is_no_document(ty),
        }
    }

    /// Returns the place of a pipeline inside a stage at this place.
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
    /// Creates the error that rejects a stage by name.
    pub fn refuse(&self, stage: &str) -> Error {
        let (code, words) = self.refusal;
        Error::location(code, format!("{stage} is not allowed {words}"))
    }
}

pub(super) fn stage_is_no_document(_: Type) -> Error {
    Error::type_mismatch("Each element of the 'pipeline' array must be an object")
}

/// Returns the elements of a `pipeline` argument.
pub(super) fn stages_of<'v>(value: ValueRef<'v>) -> Result<crate::value::Doc<'v>> {
    value
        .as_array()
        .ok_or_else(|| Error::type_mismatch("'pipeline' option must be specified as an array"))
}
