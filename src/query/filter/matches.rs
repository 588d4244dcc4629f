//! Tests whether a document passes.
//!
//! One evaluator ([`FilterNode::matches`]) serves every place where conditions are tested. Its [`Subject`] is a document, a
//! document inside an array (`$elemMatch` with conditions on fields), or a bare value (`$elemMatch` with conditions on the
//! element).
//!
//! Most tests of a value cannot return an error. When the command is interrupted, they stop early with an arbitrary answer,
//! and [`unless_interrupted`] then replaces that answer with the error. The two entry points,
//! [`Filter::matches`](super::Filter::matches) and [`Filter::position`](super::Filter::position), call it, so the tests
//! inside need not. (A single comparison of one value never stops early and skips the call.)

use std::ops::ControlFlow;

use super::{FieldTest, FilterNode, Members, Test, evaluation};
use crate::{
    error::Result,
    interrupt,
    query::Vars,
    value::{ArrayLeaf, Doc, Type, ValueRef, is_true},
};

/// The value or document that conditions are tested on.
pub(super) trait Subject<'a>: Copy {
    /// Returns the size in bytes, which is roughly the most that one test reads.
    fn size(self) -> usize;

    fn passes(self, field: &FieldTest) -> bool;

    /// Returns the document, for conditions on a whole document (`$jsonSchema`, `$expr`). The parser refuses them for a
    /// bare value.
    fn document(self) -> Option<Doc<'a>>;

    /// Returns the variables for `$expr`. The parser refuses `$expr` inside `$elemMatch`.
    fn vars(self) -> Option<&'a Vars>;
}

/// A whole document.
#[derive(Clone, Copy)]
pub(super) struct RootDocument<'a> {
    pub doc: Doc<'a>,
    pub vars: &'a Vars,
}

// === impl Subject ===

impl<'a> Subject<'a> for RootDocument<'a> {
    #[inline]
    fn size(self) -> usize {
        self.doc.bytes().len()
    }

    #[inline]
    fn passes(self, field: &FieldTest) -> bool {
        field.matches(self.doc)
    }

    fn document(self) -> Option<Doc<'a>> {
        Some(self.doc)
    }

    fn vars(self) -> Option<&'a Vars> {
        Some(self.vars)
    }
}

/// A document inside an array.
impl<'a> Subject<'a> for Doc<'a> {
    fn size(self) -> usize {
        self.bytes().len()
    }

    #[inline]
    fn passes(self, field: &FieldTest) -> bool {
        field.matches(self)
    }

    fn document(self) -> Option<Doc<'a>> {
        Some(self)
    }

    fn vars(self) -> Option<&'a Vars> {
        None
    }
}

/// A bare value: every path inside is empty, and the tests apply to the value itself.
impl<'a> Subject<'a> for ValueRef<'a> {
    fn size(self) -> usize {
        self.data().len()
    }

    #[inline]
    fn passes(self, field: &FieldTest) -> bool {
        field.test.passes(self)
    }

    fn document(self) -> Option<Doc<'a>> {
        None
    }

    fn vars(self) -> Option<&'a Vars> {
        None
    }
}

// === impl FilterNode ===

impl FilterNode {
    pub(super) fn matches<'a>(&self, subject: impl Subject<'a>) -> Result<bool> {
        Ok(match self {
            Self::Field(field) => subject.passes(field),
            Self::And(nodes) => return all(nodes, subject),
            Self::Or(nodes) => return any(nodes, subject),
            Self::Nor(nodes) => !any(nodes, subject)?,
            Self::Not(node) => !node.matches(subject)?,
            Self::True => true,
            Self::False => false,
            Self::Expr(expr) => match subject.document().zip(subject.vars()) {
                Some((doc, vars)) => is_true(expr.expr.eval(doc, vars)?.as_ref()),
                None => false,
            },
            Self::Schema(schema) => subject
                .document()
                .is_some_and(|doc| schema.0.matches(ValueRef::document(doc))),
            Self::Sample(rate) => evaluation::sample(*rate),
        })
    }

    /// Returns the answer if the filter is a single comparison, as in nearly all scans. This cannot be interrupted.
    #[inline]
    pub(super) fn compares(&self, doc: Doc<'_>) -> Option<bool> {
        match self {
            Self::Field(field) if matches!(field.test, Test::Compare(_)) => {
                field.matches_plain(doc)
            }
            _ => None,
        }
    }
}

fn all<'a>(nodes: &[FilterNode], subject: impl Subject<'a>) -> Result<bool> {
    for node in nodes {
        if !node.matches(subject)? {
            return Ok(false);
        }
        count_work(nodes, node, subject.size())?;
    }
    Ok(true)
}

fn any<'a>(nodes: &[FilterNode], subject: impl Subject<'a>) -> Result<bool> {
    for node in nodes {
        if node.matches(subject)? {
            return Ok(true);
        }
        count_work(nodes, node, subject.size())?;
    }
    Ok(false)
}

/// Lets the command be interrupted between two conditions. A long list of conditions on a large document may take long, and
/// so may nested short lists.
#[inline]
fn count_work(nodes: &[FilterNode], node: &FilterNode, size: usize) -> Result<()> {
    const MANY: usize = 16;
    if nodes.len() < MANY
        && !matches!(
            node,
            FilterNode::And(_) | FilterNode::Or(_) | FilterNode::Nor(_)
        )
    {
        return Ok(());
    }
    interrupt::tick(1)?;
    interrupt::tick_read(size)
}

/// Returns the answer, or the error if the command was interrupted. A test that stopped early has set the counter so that
/// this tick checks again.
#[inline]
pub(super) fn unless_interrupted<T>(answer: T) -> Result<T> {
    interrupt::tick(1)?;
    Ok(answer)
}

// === impl FieldTest ===

impl FieldTest {
    #[inline]
    pub(super) fn matches(&self, doc: Doc<'_>) -> bool {
        self.matches_plain(doc)
            .unwrap_or_else(|| self.matches_walking(doc))
    }

    /// Handles the usual case, one name and no array, in one walk over the document.
    #[inline]
    fn matches_plain(&self, doc: Doc<'_>) -> Option<bool> {
        if self.path.len() != 1 || matches!(self.test, Test::All(_)) {
            return None;
        }
        let value = doc.get(self.path.as_str());
        (value.ty() != Type::Array).then(|| self.test.passes(value))
    }

    fn matches_walking(&self, doc: Doc<'_>) -> bool {
        if let Test::All(members) = &self.test {
            return self.finds_all(members, doc);
        }
        self.path
            .hits(doc, self.test.leaf(), |hit| {
                if interrupt::tick(1).is_err() || self.test.passes(hit.value) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .is_break()
    }

    /// Returns whether each member is among the values at the path.
    fn finds_all(&self, members: &Members, doc: Doc<'_>) -> bool {
        let mut found = vec![false; members.values().len()];
        let mut left = found.len();
        self.path
            .hits(doc, ArrayLeaf::Elements, |hit| {
                if let Some(slot) = members.find(hit.value).and_then(|at| found.get_mut(at))
                    && !std::mem::replace(slot, true)
                {
                    left -= 1;
                }
                if left == 0 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .is_break()
    }
}

// === impl Test ===

impl Test {
    /// Returns whether an array at the end of the path is also tested element by element.
    #[inline]
    pub(super) fn leaf(&self) -> ArrayLeaf {
        match self {
            Self::Exists | Self::Size(_) | Self::ElemObject(_) | Self::ElemValue(_) => {
                ArrayLeaf::Whole
            }
            _ => ArrayLeaf::Elements,
        }
    }

    #[inline]
    pub(super) fn passes(&self, value: ValueRef<'_>) -> bool {
        match self {
            Self::Compare(comparison) => comparison.passes(value),
            Self::In(members) => members.passes(value),
            // For a whole field `finds_all` decides. A single value can equal only one member.
            Self::All(members) => members.values().len() == 1 && members.passes(value),
            Self::Regex(pattern) => pattern.passes(value),
            Self::Exists => !value.is_missing(),
            Self::Type(types) => types.has(value.ty()),
            Self::Mod(modulo) => modulo.passes(value),
            Self::Size(size) => value
                .as_array()
                .is_some_and(|array| array.iter().count() as i64 == *size),
            Self::Bits(bits) => bits.passes(value),
            Self::ElemObject(_) | Self::ElemValue(_) => self.element(value).is_some(),
        }
    }

    /// Returns the index of the first element that an `$elemMatch` accepts.
    pub(super) fn element(&self, value: ValueRef<'_>) -> Option<usize> {
        let mut elements = value.as_array()?.iter().map(|elem| elem.value);
        // An interrupted search ends with an arbitrary answer.
        let accepts =
            |matched: Result<bool>| interrupt::tick(1).is_err() || matched.unwrap_or(true);
        match self {
            Self::ElemObject(node) => elements.position(|value| match value.ty() {
                // An array inside the array is treated as a document with the names "0", "1", ...
                Type::Document | Type::Array => accepts(node.matches(Doc::new(value.data()))),
                _ => false,
            }),
            Self::ElemValue(nodes) => elements.position(|value| accepts(all(nodes, value))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, doc};

    use crate::interrupt::{self, Limit};
    use crate::query::filter::check;
    use crate::value::DocBuf;

    #[test]
    fn an_interrupted_filter_gives_an_error_and_no_wrong_answer() {
        let regex = |pattern: &str| {
            Bson::from(bson::Regex {
                pattern: pattern.try_into().unwrap(),
                options: "".try_into().unwrap(),
            })
        };
        let document = doc! {"s": "a", "t": ["a", "b"], "d": [{"b": 1}, {"b": 2}]};
        let bytes = DocBuf::from(&document);
        let over = Limit::of_killed();
        for filter in [
            doc! {"s": regex("x")},
            doc! {"s": {"$in": [regex("x")]}},
            doc! {"s": {"$not": regex("a")}},
            doc! {"$nor": [{"s": regex("a")}]},
            doc! {"$or": [{"s": regex("x")}, {"z": 1}]},
            doc! {"t": regex("x")},
            doc! {"t": {"$not": regex("a")}},
            doc! {"d": {"$elemMatch": {"b": 3}}},
            doc! {"d": {"$not": {"$elemMatch": {"b": 1}}}},
            doc! {"t": {"$elemMatch": {"$gt": "x"}}},
            doc! {"d.b": 3},
            doc! {"$jsonSchema": {"required": ["x"]}},
            doc! {"$nor": [{"$jsonSchema": {"required": ["s"]}}]},
        ] {
            let parsed = check::parse(&filter).unwrap();
            let vars = check::vars();
            assert!(!parsed.matches(bytes.as_doc(), &vars).unwrap(), "{filter}");
            let result = over.watch(|| {
                assert!(interrupt::tick(u32::MAX).is_err());
                parsed.matches(bytes.as_doc(), &vars)
            });
            assert!(result.is_err(), "{filter}");
            let position = over.watch(|| {
                assert!(interrupt::tick(u32::MAX).is_err());
                parsed.position(bytes.as_doc(), &vars)
            });
            assert!(position.is_err(), "{filter}");
        }
    }
}
