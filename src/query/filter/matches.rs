//! Whether a document passes.
//!
//! Most tests answer without a way to fail. Where the command is to end they stop half-way and say anything: all that is asked
//! from outside goes through [`sure`], at the two doors [`Filter::matches`](super::Filter::matches) and
//! [`Filter::position`](super::Filter::position), and nobody further in has to think of it. (But for one comparison with one
//! value, which never stops.)

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
                    count(nodes, node, doc.bytes().len())?;
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

    /// Asks a document, where that is to compare one value: what nearly all scans do, and what stops nowhere.
    #[inline]
    pub(super) fn compares(&self, doc: Doc<'_>) -> Option<bool> {
        match self {
            Self::Field(field) if matches!(field.test, Test::Compare(_)) => {
                field.matches_plain(doc)
            }
            _ => None,
        }
    }

    /// Asks one value, inside the value form of `$elemMatch`: every path below is empty.
    pub(super) fn passes(&self, value: ValueRef<'_>) -> bool {
        let size = value.data().len();
        let asked =
            |nodes: &[Node], node: &Node| count(nodes, node, size).is_ok() && node.passes(value);
        match self {
            Self::Field(field) => field.test.passes(value),
            Self::And(nodes) => nodes.iter().all(|node| asked(nodes, node)),
            Self::Or(nodes) => nodes.iter().any(|node| asked(nodes, node)),
            Self::Nor(nodes) => !nodes.iter().any(|node| asked(nodes, node)),
            Self::Not(node) => !node.passes(value),
            Self::True => true,
            // The others cannot be parsed there.
            Self::False | Self::Expr(_) | Self::Schema(_) | Self::Sample(_) => false,
        }
    }

    /// Asks a document in a place where no expression can stand (`$elemMatch`).
    pub(super) fn matches_inner(&self, doc: Doc<'_>) -> bool {
        let size = doc.bytes().len();
        let asked = |nodes: &[Node], node: &Node| {
            count(nodes, node, size).is_ok() && node.matches_inner(doc)
        };
        match self {
            Self::Field(field) => field.matches(doc),
            Self::And(nodes) => nodes.iter().all(|node| asked(nodes, node)),
            Self::Or(nodes) => nodes.iter().any(|node| asked(nodes, node)),
            Self::Nor(nodes) => !nodes.iter().any(|node| asked(nodes, node)),
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
        count(nodes, node, doc.bytes().len())?;
    }
    Ok(false)
}

/// A long list of conditions on a large document may take long: between two of them the command can be ended. So may short
/// lists in each other.
#[inline]
fn count(nodes: &[Node], node: &Node, size: usize) -> Result<()> {
    const MANY: usize = 16;
    if nodes.len() < MANY && !matches!(node, Node::And(_) | Node::Or(_) | Node::Nor(_)) {
        return Ok(());
    }
    aside::tick(1)?;
    aside::tick_read(size)
}

/// The answer, if the command is not to end: whoever stopped half-way has left the counter where this looks again.
#[inline]
pub(super) fn sure<T>(answer: T) -> Result<T> {
    aside::tick(1)?;
    Ok(answer)
}

impl Field {
    #[inline]
    pub(super) fn matches(&self, doc: Doc<'_>) -> bool {
        self.matches_plain(doc)
            .unwrap_or_else(|| self.matches_walking(doc))
    }

    /// One name and no array is the usual case: one walk over the document, nothing else.
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
                if aside::tick(1).is_err() || self.test.passes(hit.value) {
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
                Type::Document | Type::Array => {
                    aside::tick(1).is_err() || node.matches_inner(Doc::new(value.data()))
                }
                _ => false,
            }),
            Self::ElemValue(nodes) => elements.position(|value| {
                aside::tick(1).is_err()
                    || nodes.iter().all(|node| {
                        count(nodes, node, value.data().len()).is_ok() && node.passes(value)
                    })
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, doc};

    use crate::aside::{self, Limit};
    use crate::query::filter::check;
    use crate::value::DocBuf;

    #[test]
    fn nothing_wrong_is_said_of_a_command_that_is_to_end() {
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
            let said = over.watch(|| {
                assert!(aside::tick(u32::MAX).is_err());
                parsed.matches(bytes.as_doc(), &vars)
            });
            assert!(said.is_err(), "{filter}");
            let position = over.watch(|| {
                assert!(aside::tick(u32::MAX).is_err());
                parsed.position(bytes.as_doc(), &vars)
            });
            assert!(position.is_err(), "{filter}");
        }
    }
}
