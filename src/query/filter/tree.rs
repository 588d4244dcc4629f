//! The typed tree of a parsed filter.

use std::sync::Arc;

use super::{
    Bits, CompareOp, Comparison, ExprTest, Members, Modulo, Schema, TypeSet, describe,
    matches::{self, RootDocument},
    parse,
};
use crate::{
    error::Result,
    query::{Scope, Survey, Vars, pattern::Pattern, survey::MANY},
    value::{Doc, DocBuf, Path, Value, ValueRef},
};

/// A parsed filter.
#[derive(Debug, Clone)]
pub struct Filter {
    root: FilterNode,
    slow: bool,
    /// Conditions that cannot change the answer, as those beside `{}` in an `$or`. They are not tested. A client that names
    /// a field in one of them has named it all the same.
    unused: Vec<FilterNode>,
}

/// A condition on a document or, inside `$elemMatch`, on one element.
#[derive(Debug, Clone)]
pub enum FilterNode {
    True,
    False,
    /// All of these must match. Never empty.
    And(Vec<FilterNode>),
    Or(Vec<FilterNode>),
    Nor(Vec<FilterNode>),
    Not(Box<FilterNode>),
    Field(FieldTest),
    Expr(Arc<ExprTest>),
    Schema(Arc<(Schema, Value)>),
    /// `$sampleRate`: true for this fraction of the documents.
    Sample(f64),
}

/// A test of the values at a path. Inside the value form of `$elemMatch` the path is empty, and the element itself is
/// tested.
#[derive(Debug, Clone)]
pub struct FieldTest {
    pub path: Path,
    pub test: Test,
}

/// A test of one value.
#[derive(Debug, Clone)]
pub enum Test {
    Compare(Comparison),
    In(Members),
    /// All of these values must be found. Used for a long `$all`, because one test per value would walk the array again for
    /// each.
    All(Members),
    Regex(Pattern),
    Exists,
    Type(TypeSet),
    Mod(Modulo),
    Size(i64),
    Bits(Bits),
    /// At least one element is a document (or an array) that matches.
    ElemObject(Box<FilterNode>),
    /// At least one element passes all of these tests.
    ElemValue(Vec<FilterNode>),
}

// === impl Filter ===

impl Filter {
    pub fn parse(doc: Doc<'_>, scope: &Scope) -> Result<Self> {
        Self::of_node(parse::parse(doc, scope, false)?)
    }

    /// Parses a condition on elements, in an update or a projection. Operators that need a whole document or an index are
    /// refused.
    pub fn parse_plain(doc: Doc<'_>, scope: &Scope) -> Result<Self> {
        Self::of_node(parse::parse(doc, scope, true)?)
    }

    /// Returns the filter that every document passes.
    pub fn all() -> Self {
        Self::new(FilterNode::True)
    }

    /// Builds `{_id: value}` as an equality, even for a value that would otherwise be a condition.
    pub fn of_id(value: ValueRef<'_>) -> Self {
        let test = Test::Compare(Comparison::new(CompareOp::Eq, value));
        Self::new(FilterNode::field("_id", test))
    }

    /// Puts the conditions into the order in which they are tested.
    pub(super) fn of_node(root: FilterNode) -> Result<Self> {
        let mut unused = Vec::new();
        let root = root.normalise(&mut unused)?;
        Ok(Self {
            unused,
            ..Self::new(root)
        })
    }

    fn new(root: FilterNode) -> Self {
        let slow = root.weight() > MANY;
        Self {
            root,
            slow,
            unused: Vec::new(),
        }
    }

    /// Returns whether testing one document may take long, as [`Survey`] explains.
    pub fn is_slow(&self) -> bool {
        self.slow
    }

    pub(super) fn with_root(&self, root: FilterNode) -> Self {
        Self {
            root,
            ..self.clone()
        }
    }

    pub(super) fn into_root(self) -> FilterNode {
        self.root
    }

    pub fn root(&self) -> &FilterNode {
        &self.root
    }

    /// Returns whether the filter evaluates an expression for each document. (An expression gives no array position, and
    /// may take long.)
    pub fn has_expression(&self) -> bool {
        self.root.has_expression()
    }

    /// Reports the fields that the filter names.
    pub fn survey(&self, survey: &mut Survey<'_>) {
        self.survey_at(survey, true);
    }

    /// Reports the fields of a filter on array elements or on other values below a field.
    pub fn survey_below(&self, survey: &mut Survey<'_>) {
        self.survey_at(survey, false);
    }

    fn survey_at(&self, survey: &mut Survey<'_>, at_root: bool) {
        if self.slow {
            survey.slow();
        }
        for node in std::iter::once(&self.root).chain(&self.unused) {
            node.survey(survey, at_root);
        }
    }

    /// Returns whether every document passes.
    pub fn is_all(&self) -> bool {
        matches!(self.root, FilterNode::True)
    }

    /// Returns whether the document passes. Returns an error if an expression fails or the command must end.
    #[inline]
    pub fn matches(&self, doc: Doc<'_>, vars: &Vars) -> Result<bool> {
        match self.root.compares(doc) {
            Some(passed) => Ok(passed),
            None => matches::unless_interrupted(self.root.matches(RootDocument { doc, vars })?),
        }
    }

    /// The filter as explain shows it, every shorthand spelled out. Fails where the command is to end.
    pub fn describe(&self) -> Result<DocBuf> {
        self.describe_without(&[])
    }

    /// The same without some parts of the top conjunction (by place, ascending).
    pub fn describe_without(&self, parts: &[usize]) -> Result<DocBuf> {
        describe::filter(&self.root, parts)
    }

    /// Returns the array index that the positional `$` refers to, if the document passes through an array element.
    pub fn position(&self, doc: Doc<'_>, vars: &Vars) -> Result<Option<usize>> {
        matches::unless_interrupted(self.root.position(RootDocument { doc, vars }))
    }

    /// Returns the (path, value) pairs that an upsert copies into the new document.
    pub fn equalities(&self) -> Result<Vec<(&str, &Value)>> {
        self.root.equalities()
    }

    /// Returns the pair of the `_id`, all that the upsert of a replacement copies.
    pub fn id_equality(&self) -> Result<Vec<(&str, &Value)>> {
        self.root.id_equality()
    }
}

// === impl FilterNode ===

impl FilterNode {
    pub(super) fn field(path: &str, test: Test) -> Self {
        Self::Field(FieldTest {
            path: Path::parse(path),
            test,
        })
    }

    /// Returns the number of tests. A part that is slow by itself counts as very many.
    fn weight(&self) -> usize {
        const SLOW: usize = MANY + 1;
        let searches = |pattern: &Pattern| if pattern.is_slow() { SLOW } else { 1 };
        match self {
            Self::True | Self::False | Self::Sample(_) => 0,
            Self::And(nodes) | Self::Or(nodes) | Self::Nor(nodes) => {
                nodes.iter().map(Self::weight).sum()
            }
            Self::Not(node) => node.weight(),
            Self::Field(field) => match &field.test {
                Test::ElemObject(node) => 1 + node.weight(),
                Test::ElemValue(nodes) => 1 + nodes.iter().map(Self::weight).sum::<usize>(),
                Test::In(members) | Test::All(members) => {
                    1 + members.patterns().iter().map(searches).sum::<usize>()
                }
                Test::Regex(pattern) => searches(pattern),
                Test::Compare(_)
                | Test::Exists
                | Test::Type(_)
                | Test::Mod(_)
                | Test::Size(_)
                | Test::Bits(_) => 1,
            },
            Self::Expr(_) | Self::Schema(_) => SLOW,
        }
    }

    /// Returns whether a test evaluates an expression, which may fail.
    pub(super) fn has_expression(&self) -> bool {
        match self {
            Self::Expr(_) => true,
            Self::And(nodes) | Self::Or(nodes) | Self::Nor(nodes) => {
                nodes.iter().any(Self::has_expression)
            }
            Self::Not(node) => node.has_expression(),
            _ => false,
        }
    }

    fn survey(&self, survey: &mut Survey<'_>, at_root: bool) {
        match self {
            Self::True | Self::False => {}
            Self::Sample(_) => survey.random(),
            Self::And(nodes) | Self::Or(nodes) | Self::Nor(nodes) => {
                nodes.iter().for_each(|node| node.survey(survey, at_root));
            }
            Self::Not(node) => node.survey(survey, at_root),
            Self::Field(field) => {
                match at_root {
                    true => survey.path(&field.path),
                    false => survey.path_below(&field.path),
                }
                match &field.test {
                    Test::ElemObject(node) => node.survey(survey, false),
                    Test::ElemValue(nodes) => {
                        nodes.iter().for_each(|node| node.survey(survey, false));
                    }
                    Test::Compare(_)
                    | Test::In(_)
                    | Test::All(_)
                    | Test::Regex(_)
                    | Test::Exists
                    | Test::Type(_)
                    | Test::Mod(_)
                    | Test::Size(_)
                    | Test::Bits(_) => {}
                }
            }
            Self::Expr(expr) => survey.expr(&expr.expr),
            Self::Schema(schema) => schema.0.survey(survey, at_root),
        }
    }

    pub(super) fn not(node: FilterNode) -> Self {
        Self::Not(Box::new(node))
    }

    /// Builds a conjunction. One node stays as it is, and none becomes `True`.
    pub(super) fn and(mut nodes: parse::Nodes) -> Self {
        match nodes.len() {
            0 | 1 => nodes.pop().unwrap_or(Self::True),
            _ => Self::And(nodes.into_vec()),
        }
    }
}
