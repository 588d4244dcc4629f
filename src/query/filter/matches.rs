//! Whether a document passes.

use std::ops::ControlFlow;

use super::{Field, Members, Node, Test, evaluation};
use crate::{
    aside,
    error::Result,
    query::{Vars, expr::is_true},
    value::{Doc, Leaf, Type, ValueRef},
};

impl Node {
    /// Asks a document.
    pub(super) fn matches(&self, doc: Doc<'_>, vars: &Vars) -> Result<bool> {
        Ok(match self {
            Self::Field(field) => field.matches(doc),
            Self::And(nodes) => {
                for node in nodes {
                    if !node.matches(doc, vars)? {
                        return Ok(false);
                    }
                    count(nodes)?;
                }
                true
            }
            Self::Or(nodes) => return any(nodes, doc, vars),
            Self::Nor(nodes) => !any(nodes, doc, vars)?,
            Self::Not(node) => !node.matches(doc, vars)?,
            Self::True => true,
            Self::False => false,
            Self::Expr(expr) => is_true(expr.0.eval(doc, vars)?.as_ref()),
            Self::Schema(schema) => schema.0.matches(ValueRef::document(doc)),
            Self::Sample(rate) => evaluation::sample(*rate),
        })
    }

    /// Asks one value, inside the value form of `$elemMatch`: every path below is empty.
    pub(super) fn passes(&self, value: ValueRef<'_>) -> bool {
        match self {
            Self::Field(field) => field.test.passes(value),
            Self::And(nodes) => nodes.iter().all(|node| node.passes(value)),
            Self::Or(nodes) => nodes.iter().any(|node| node.passes(value)),
            Self::Nor(nodes) => !nodes.iter().any(|node| node.passes(value)),
            Self::Not(node) => !node.passes(value),
            Self::True => true,
            // The others cannot be parsed there.
            Self::False | Self::Expr(_) | Self::Schema(_) | Self::Sample(_) => false,
        }
    }

    /// Asks a document in a place where no expression can stand (`$elemMatch`).
    pub(super) fn matches_inner(&self, doc: Doc<'_>) -> bool {
        match self {
            Self::Field(field) => field.matches(doc),
            Self::And(nodes) => nodes.iter().all(|node| node.matches_inner(doc)),
            Self::Or(nodes) => nodes.iter().any(|node| node.matches_inner(doc)),
            Self::Nor(nodes) => !nodes.iter().any(|node| node.matches_inner(doc)),
            Self::Not(node) => !node.matches_inner(doc),
            Self::True => true,
            Self::False | Self::Expr(_) => false,
            Self::Schema(schema) => schema.0.matches(ValueRef::document(doc)),
            Self::Sample(rate) => evaluation::sample(*rate),
        }
    }
}

fn any(nodes: &[Node], doc: Doc<'_>, vars: &Vars) -> Result<bool> {
    for node in nodes {
        if node.matches(doc, vars)? {
            return Ok(true);
        }
        count(nodes)?;
    }
    Ok(false)
}

/// A long list of conditions on a large document may take long: between two of them the command can be ended.
#[inline]
fn count(nodes: &[Node]) -> Result<()> {
    const MANY: usize = 16;
    if nodes.len() < MANY {
        return Ok(());
    }
    aside::tick(1)
}

impl Field {
    #[inline]
    pub(super) fn matches(&self, doc: Doc<'_>) -> bool {
        if let Test::All(members) = &self.test {
            return self.finds_all(members, doc);
        }
        // One name and no array is the usual case: one walk over the document, nothing else.
        if self.path.len() == 1 {
            let value = doc.get(self.path.as_str());
            if value.ty() != Type::Array {
                return self.test.passes(value);
            }
        }
        self.path
            .hits(doc, self.test.leaf(), |hit| {
                let _ = aside::tick(1);
                if self.test.passes(hit.value) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .is_break()
    }
}

impl Field {
    /// Whether each member is among the values there.
    fn finds_all(&self, members: &Members, doc: Doc<'_>) -> bool {
        let mut found = vec![false; members.values().len()];
        let mut left = found.len();
        self.path
            .hits(doc, Leaf::Elements, |hit| {
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

impl Test {
    /// Whether an array at the end of the path is tested element by element too.
    #[inline]
    pub(super) fn leaf(&self) -> Leaf {
        match self {
            Self::Exists | Self::Size(_) | Self::ElemObject(_) | Self::ElemValue(_) => Leaf::Whole,
            _ => Leaf::Elements,
        }
    }

    #[inline]
    pub(super) fn passes(&self, value: ValueRef<'_>) -> bool {
        match self {
            Self::Compare(comparison) => comparison.passes(value),
            Self::In(members) => members.passes(value),
            // Of a whole field `finds_all` decides; one value alone can only be one member.
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

    /// The index of the first element that an `$elemMatch` accepts.
    pub(super) fn element(&self, value: ValueRef<'_>) -> Option<usize> {
        let mut elements = value.as_array()?.iter().map(|elem| elem.value);
        match self {
            Self::ElemObject(node) => elements.position(|value| match value.ty() {
                // An array inside the array counts as a document with the names "0", "1", ...
                Type::Document | Type::Array => node.matches_inner(Doc::new(value.data())),
                _ => false,
            }),
            Self::ElemValue(nodes) => {
                elements.position(|value| nodes.iter().all(|node| node.passes(value)))
            }
            _ => None,
        }
    }
}
