//! `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`, and the bare `{a: value}`.
//!
//! Values of different types do not compare (`{$gt: 5}` finds no string), with two exceptions: a missing field equals null, and
//! MinKey and MaxKey bound everything. NaN equals itself and is neither above nor below anything.

use std::cmp::Ordering;

use super::{
    Node, Test,
    parse::{Cx, Site},
};
use crate::{
    error::{Error, Result},
    value::{self, Type, Value, ValueRef},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    Eq,
    Lt,
    Lte,
    Gt,
    Gte,
}

/// A comparison with a constant.
#[derive(Debug)]
pub struct Comparison {
    pub op: Op,
    pub value: Value,
    /// Equal values of this type have equal bytes.
    plain: bool,
    nan: bool,
}

// === impl Comparison ===

impl Comparison {
    pub(super) fn parse(path: &str, op: Op, value: ValueRef<'_>) -> Result<Self> {
        if value.ty() == Type::Undefined {
            return Err(Error::bad_value("cannot compare to undefined"));
        }
        if value.ty() == Type::Regex && op != Op::Eq {
            return Err(Error::bad_value(format!(
                "Can't have RegEx as arg to predicate over field '{path}'."
            )));
        }
        Ok(Self::new(op, value))
    }

    pub(super) fn new(op: Op, value: ValueRef<'_>) -> Self {
        Self {
            op,
            plain: has_plain_equality(value.ty()),
            nan: is_nan(value),
            value: value.to_value(),
        }
    }

    #[inline]
    pub fn passes(&self, value: ValueRef<'_>) -> bool {
        let constant = self.value.as_ref();
        if self.op == Op::Eq && self.plain && value.ty() == constant.ty() {
            return value.data() == constant.data();
        }
        self.compare(value, constant)
    }

    fn compare(&self, value: ValueRef<'_>, constant: ValueRef<'_>) -> bool {
        if value.ty().rank() != constant.ty().rank() || value.is_missing() {
            return match (self.op, constant.ty()) {
                (Op::Eq | Op::Lte | Op::Gte, Type::Null) => value.is_missing(),
                (Op::Lt | Op::Lte, Type::MaxKey) => true,
                (Op::Gt | Op::Gte, Type::MinKey) => true,
                _ => false,
            };
        }
        if self.nan || is_nan(value) {
            return match self.op {
                Op::Lt | Op::Gt => false,
                _ => self.nan && is_nan(value),
            };
        }
        let order = value::compare(value, constant);
        match self.op {
            Op::Eq => order == Ordering::Equal,
            Op::Lt => order == Ordering::Less,
            Op::Lte => order != Ordering::Greater,
            Op::Gt => order == Ordering::Greater,
            Op::Gte => order != Ordering::Less,
        }
    }
}

/// Types whose values are equal exactly when their bytes are (within the one type).
pub(super) fn has_plain_equality(ty: Type) -> bool {
    matches!(
        ty,
        Type::String
            | Type::Int32
            | Type::Int64
            | Type::ObjectId
            | Type::Date
            | Type::Timestamp
            | Type::Binary
            | Type::Null
    )
}

pub(super) fn is_nan(value: ValueRef<'_>) -> bool {
    match value.ty() {
        Type::Double => value.as_f64().is_some_and(f64::is_nan),
        Type::Decimal => value.as_num().is_some_and(|num| num.is_nan()),
        _ => false,
    }
}

fn node(site: &Site<'_>, op: Op, arg: ValueRef<'_>) -> Result<Option<Node>> {
    let comparison = Comparison::parse(site.path, op, arg)?;
    Ok(Some(Node::field(site.path, Test::Compare(comparison))))
}

pub(super) fn eq(_: &Cx<'_>, site: &Site<'_>, arg: ValueRef<'_>) -> Result<Option<Node>> {
    node(site, Op::Eq, arg)
}

pub(super) fn gt(_: &Cx<'_>, site: &Site<'_>, arg: ValueRef<'_>) -> Result<Option<Node>> {
    node(site, Op::Gt, arg)
}

pub(super) fn gte(_: &Cx<'_>, site: &Site<'_>, arg: ValueRef<'_>) -> Result<Option<Node>> {
    node(site, Op::Gte, arg)
}

pub(super) fn lt(_: &Cx<'_>, site: &Site<'_>, arg: ValueRef<'_>) -> Result<Option<Node>> {
    node(site, Op::Lt, arg)
}

pub(super) fn lte(_: &Cx<'_>, site: &Site<'_>, arg: ValueRef<'_>) -> Result<Option<Node>> {
    node(site, Op::Lte, arg)
}

pub(super) fn ne(_: &Cx<'_>, site: &Site<'_>, arg: ValueRef<'_>) -> Result<Option<Node>> {
    if arg.ty() == Type::Regex {
        return Err(Error::bad_value("Can't have regex as arg to $ne."));
    }
    Ok(node(site, Op::Eq, arg)?.map(Node::not))
}

/// `$ref`, `$id` and `$db` as names of fields, where the document of an `$elemMatch` is a DBRef.
pub(super) fn reference(_: &Cx<'_>, name: &str, arg: ValueRef<'_>) -> Result<Option<Node>> {
    let comparison = Comparison::parse(name, Op::Eq, arg)?;
    Ok(Some(Node::field(name, Test::Compare(comparison))))
}
