//! Whether a filter asks for no more than a partial index holds.

use std::cmp::Ordering;

use super::predicates::needs_field;
use crate::{
    query::filter::{Comparison, Node, Op, Test},
    value::{self, Type, ValueRef},
};

/// Whether every document that passes `filter` also passes `partial`. May say no where the answer is yes.
pub fn implies(filter: &Node, partial: &Node) -> bool {
    match partial {
        Node::True => return true,
        Node::And(parts) => return parts.iter().all(|part| implies(filter, part)),
        _ => {}
    }
    match filter {
        Node::False => true,
        Node::And(parts) => {
            parts.iter().any(|part| implies(part, partial)) || alternative(filter, partial)
        }
        Node::Or(parts) => parts.iter().all(|part| implies(part, partial)),
        Node::Field(field) => match partial {
            Node::Field(wanted) => {
                field.path == wanted.path && test_implies(&field.test, &wanted.test)
            }
            _ => alternative(filter, partial),
        },
        _ => false,
    }
}

fn alternative(filter: &Node, partial: &Node) -> bool {
    match partial {
        Node::Or(parts) => parts.iter().any(|part| implies(filter, part)),
        _ => false,
    }
}

fn test_implies(test: &Test, wanted: &Test) -> bool {
    match (test, wanted) {
        (test, Test::Exists) => needs_field(test),
        (Test::Compare(known), wanted) if known.op == Op::Eq => {
            value_implies(known.value.as_ref(), wanted)
        }
        (Test::In(members), wanted) => {
            members.patterns().is_empty()
                && members
                    .values()
                    .iter()
                    .all(|value| value_implies(value.as_ref(), wanted))
        }
        (Test::Compare(known), Test::Compare(wanted)) => range_implies(known, wanted),
        (Test::Type(known), Test::Type(wanted)) => known == wanted,
        _ => false,
    }
}

/// Whether a document that has this value there passes. An array can be met in two ways, and null also means missing: these
/// imply only themselves.
fn value_implies(value: ValueRef<'_>, wanted: &Test) -> bool {
    match (value.ty(), wanted) {
        (Type::Array | Type::Null, Test::Compare(wanted)) => {
            wanted.op == Op::Eq && value::equal(value, wanted.value.as_ref())
        }
        (Type::Array | Type::Null, _) => false,
        (_, Test::Compare(wanted)) => wanted.passes(value),
        (_, Test::In(members)) => members.passes(value),
        (_, Test::Type(types)) => types.has(value.ty()),
        (_, Test::Regex(pattern)) => pattern.passes(value),
        _ => false,
    }
}

/// Both look in the same direction within one type, and the known end is at least as far.
fn range_implies(known: &Comparison, wanted: &Comparison) -> bool {
    let (a, b) = (known.value.as_ref(), wanted.value.as_ref());
    let plain = |value: ValueRef<'_>| {
        !matches!(
            value.ty(),
            Type::Array | Type::Null | Type::MinKey | Type::MaxKey
        ) && !value.as_num().is_some_and(|num| num.is_nan())
    };
    if a.ty().rank() != b.ty().rank() || !plain(a) || !plain(b) {
        return false;
    }
    let order = value::compare(a, b);
    match (known.op, wanted.op) {
        (Op::Gt, Op::Gt | Op::Gte) | (Op::Gte, Op::Gte) => order != Ordering::Less,
        (Op::Gte, Op::Gt) => order == Ordering::Greater,
        (Op::Lt, Op::Lt | Op::Lte) | (Op::Lte, Op::Lte) => order != Ordering::Greater,
        (Op::Lte, Op::Lt) => order == Ordering::Less,
        _ => false,
    }
}
