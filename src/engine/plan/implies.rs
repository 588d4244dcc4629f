//! Checks that a filter asks for no more than a partial index holds.

use std::cmp::Ordering;

use super::predicates::needs_field;
use crate::{
    error::Result,
    interrupt,
    query::filter::{CompareOp, Comparison, FilterNode, Test},
    value::{self, Type, ValueRef},
};

/// Returns whether every document that passes `filter` also passes `partial`. It may return `false` although this is so.
/// Fails if the command must end.
pub fn implies(filter: &FilterNode, partial: &FilterNode) -> Result<bool> {
    interrupt::tick(1)?;
    match partial {
        FilterNode::True => return Ok(true),
        FilterNode::And(parts) => return all(parts, |part| implies(filter, part)),
        _ => {}
    }
    match filter {
        FilterNode::False => Ok(true),
        FilterNode::And(parts) => {
            Ok(any(parts, |part| implies(part, partial))? || alternative(filter, partial)?)
        }
        FilterNode::Or(parts) => all(parts, |part| implies(part, partial)),
        FilterNode::Field(field) => match partial {
            FilterNode::Field(wanted) => {
                Ok(field.path == wanted.path && test_implies(&field.test, &wanted.test)?)
            }
            _ => alternative(filter, partial),
        },
        _ => Ok(false),
    }
}

fn alternative(filter: &FilterNode, partial: &FilterNode) -> Result<bool> {
    match partial {
        FilterNode::Or(parts) => any(parts, |part| implies(filter, part)),
        _ => Ok(false),
    }
}

fn any(nodes: &[FilterNode], mut holds: impl FnMut(&FilterNode) -> Result<bool>) -> Result<bool> {
    for node in nodes {
        if holds(node)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn all(nodes: &[FilterNode], mut holds: impl FnMut(&FilterNode) -> Result<bool>) -> Result<bool> {
    Ok(!any(nodes, |node| holds(node).map(|holds| !holds))?)
}

fn test_implies(test: &Test, wanted: &Test) -> Result<bool> {
    Ok(match (test, wanted) {
        (test, Test::Exists) => needs_field(test),
        (Test::Compare(known), wanted) if known.op == CompareOp::Eq => {
            value_implies(known.value.as_ref(), wanted)
        }
        (Test::In(members), wanted) => {
            interrupt::tick_each(members.values())?;
            members.patterns().is_empty()
                && members
                    .values()
                    .iter()
                    .all(|value| value_implies(value.as_ref(), wanted))
        }
        (Test::Compare(known), Test::Compare(wanted)) => range_implies(known, wanted),
        (Test::Type(known), Test::Type(wanted)) => known == wanted,
        _ => false,
    })
}

/// Returns whether a document with this value passes `wanted`. An array can match in two ways, and null also means missing,
/// so these imply only themselves.
fn value_implies(value: ValueRef<'_>, wanted: &Test) -> bool {
    match (value.ty(), wanted) {
        (Type::Array | Type::Null, Test::Compare(wanted)) => {
            wanted.op == CompareOp::Eq && value::equal(value, wanted.value.as_ref())
        }
        (Type::Array | Type::Null, _) => false,
        (_, Test::Compare(wanted)) => wanted.passes(value),
        (_, Test::In(members)) => members.passes(value),
        (_, Test::Type(types)) => types.has(value.ty()),
        (_, Test::Regex(pattern)) => pattern.passes(value),
        _ => false,
    }
}

/// Returns whether both comparisons have the same direction within one type, and `known` is at least as narrow.
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
        (CompareOp::Gt, CompareOp::Gt | CompareOp::Gte) | (CompareOp::Gte, CompareOp::Gte) => {
            order != Ordering::Less
        }
        (CompareOp::Gte, CompareOp::Gt) => order == Ordering::Greater,
        (CompareOp::Lt, CompareOp::Lt | CompareOp::Lte) | (CompareOp::Lte, CompareOp::Lte) => {
            order != Ordering::Greater
        }
        (CompareOp::Lte, CompareOp::Lt) => order == Ordering::Less,
        _ => false,
    }
}
