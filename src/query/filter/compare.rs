//! `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte`, and the bare `{a: value}`.
//!
//! Values of different types do not compare (`{$gt: 5}` finds no string), with two exceptions: a missing field equals null,
//! and MinKey and MaxKey bound everything. NaN equals itself and is neither above nor below anything.

use std::cmp::Ordering;

use super::{
    FilterNode, Test,
    parse::{OperatorSite, ParseContext},
};
use crate::{
    error::{Error, Result},
    value::{self, Type, Value, ValueRef},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompareOp {
    Eq,
    Lt,
    Lte,
    Gt,
    Gte,
}

/// A comparison with a constant.
#[derive(Debug, Clone)]
pub struct Comparison {
    pub op: CompareOp,
    pub value: Value,
    /// Whether equal values of this type have equal bytes.
    plain: bool,
    nan: bool,
}

// === impl Comparison ===

impl Comparison {
    pub(super) fn parse(path: &str, op: CompareOp, value: ValueRef<'_>) -> Result<Self> {
        if value.ty() == Type::Undefined {
            return Err(Error::bad_value("cannot compare to undefined"));
        }
        if value.ty() == Type::Regex && op != CompareOp::Eq {
            return Err(Error::bad_value(format!(
                "Can't have RegEx as arg to predicate over field '{path}'."
            )));
        }
        Ok(Self::new(op, value))
    }

    pub(super) fn new(op: CompareOp, value: ValueRef<'_>) -> Self {
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
        if self.op == CompareOp::Eq && self.plain && value.ty() == constant.ty() {
            return value.data() == constant.data();
        }
        self.compare(value, constant)
    }

    fn compare(&self, value: ValueRef<'_>, constant: ValueRef<'_>) -> bool {
        if value.ty().rank() != constant.ty().rank() || value.is_missing() {
            return match (self.op, constant.ty()) {
                (CompareOp::Eq | CompareOp::Lte | CompareOp::Gte, Type::Null) => value.is_missing(),
                (CompareOp::Lt | CompareOp::Lte, Type::MaxKey) => true,
                (CompareOp::Gt | CompareOp::Gte, Type::MinKey) => true,
                _ => false,
            };
        }
        if self.nan || is_nan(value) {
            return match self.op {
                CompareOp::Lt | CompareOp::Gt => false,
                _ => self.nan && is_nan(value),
            };
        }
        let order = value::compare(value, constant);
        match self.op {
            CompareOp::Eq => order == Ordering::Equal,
            CompareOp::Lt => order == Ordering::Less,
            CompareOp::Lte => order != Ordering::Greater,
            CompareOp::Gt => order == Ordering::Greater,
            CompareOp::Gte => order != Ordering::Less,
        }
    }
}

/// Returns whether two values of this type are equal exactly when their bytes are equal.
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

fn node(site: &OperatorSite<'_>, op: CompareOp, arg: ValueRef<'_>) -> Result<Option<FilterNode>> {
    let comparison = Comparison::parse(site.path, op, arg)?;
    Ok(Some(FilterNode::field(
        site.path,
        Test::Compare(comparison),
    )))
}

pub(super) fn eq(
    _: &ParseContext<'_>,
    site: &OperatorSite<'_>,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    node(site, CompareOp::Eq, arg)
}

pub(super) fn gt(
    _: &ParseContext<'_>,
    site: &OperatorSite<'_>,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    node(site, CompareOp::Gt, arg)
}

pub(super) fn gte(
    _: &ParseContext<'_>,
    site: &OperatorSite<'_>,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    node(site, CompareOp::Gte, arg)
}

pub(super) fn lt(
    _: &ParseContext<'_>,
    site: &OperatorSite<'_>,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    node(site, CompareOp::Lt, arg)
}

pub(super) fn lte(
    _: &ParseContext<'_>,
    site: &OperatorSite<'_>,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    node(site, CompareOp::Lte, arg)
}

pub(super) fn ne(
    _: &ParseContext<'_>,
    site: &OperatorSite<'_>,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    if arg.ty() == Type::Regex {
        return Err(Error::bad_value("Can't have regex as arg to $ne."));
    }
    Ok(node(site, CompareOp::Eq, arg)?.map(FilterNode::not))
}

/// Parses `$ref`, `$id` and `$db` as field names, for an `$elemMatch` whose document is a DBRef.
pub(super) fn reference(
    _: &ParseContext<'_>,
    name: &str,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    let comparison = Comparison::parse(name, CompareOp::Eq, arg)?;
    Ok(Some(FilterNode::field(name, Test::Compare(comparison))))
}

#[cfg(test)]
mod tests {
    use crate::query::filter::check;
    use bson::{Bson, doc};

    #[test]
    fn equality() {
        let nan = f64::NAN;
        check::passes(&[
            (doc! {}, vec![doc! {}, doc! {"a": 1}], vec![]),
            (
                doc! {"a": 1},
                vec![
                    doc! {"a": 1},
                    doc! {"a": 1i64},
                    doc! {"a": 1.0},
                    doc! {"a": check::decimal("1.0")},
                    doc! {"a": [0, 1]},
                ],
                vec![
                    doc! {},
                    doc! {"a": 2},
                    doc! {"a": "1"},
                    doc! {"a": [[1]]},
                    doc! {"a": {"b": 1}},
                ],
            ),
            (
                doc! {"a": Bson::Null},
                vec![doc! {}, doc! {"a": Bson::Null}, doc! {"a": [1, Bson::Null]}],
                vec![
                    doc! {"a": []},
                    doc! {"a": 0},
                    doc! {"a": [1]},
                    doc! {"a": Bson::Undefined},
                ],
            ),
            (
                doc! {"a.b": Bson::Null},
                vec![
                    doc! {},
                    doc! {"a": 1},
                    doc! {"a": {}},
                    doc! {"a": [{}, {"b": 1}]},
                ],
                vec![doc! {"a": []}, doc! {"a": [1]}, doc! {"a": {"b": 1}}],
            ),
            (
                doc! {"a": [1, 2]},
                vec![doc! {"a": [1, 2]}, doc! {"a": [[1, 2], 3]}],
                vec![doc! {"a": [2, 1]}, doc! {"a": [1, 2, 3]}, doc! {"a": 1}],
            ),
            (
                doc! {"a": []},
                vec![doc! {"a": []}, doc! {"a": [[]]}],
                vec![doc! {"a": [1]}, doc! {}],
            ),
            (
                doc! {"a": {"x": 1, "y": 2}},
                vec![doc! {"a": {"x": 1, "y": 2}}, doc! {"a": {"x": 1.0, "y": 2}}],
                vec![doc! {"a": {"y": 2, "x": 1}}, doc! {"a": {"x": 1}}],
            ),
            (
                doc! {"a": nan},
                vec![doc! {"a": nan}, doc! {"a": check::decimal("NaN")}],
                vec![doc! {"a": 0}],
            ),
            (
                doc! {"a": 0},
                vec![doc! {"a": -0.0}],
                vec![doc! {"a": false}],
            ),
            (
                doc! {"a.0": 5},
                vec![doc! {"a": [5, 6]}, doc! {"a": {"0": 5}}],
                vec![doc! {"a": [6, 5]}],
            ),
            (
                doc! {"a": {"$eq": 1}, "b": {"$ne": 2}},
                vec![doc! {"a": 1}],
                vec![doc! {"a": 1, "b": [1, 2]}],
            ),
            (
                doc! {"a": {"$ref": "c", "$id": 1}},
                vec![doc! {"a": {"$ref": "c", "$id": 1}}],
                vec![doc! {"a": {"$ref": "c", "$id": 2}}],
            ),
        ]);
        check::refused(&[
            (
                doc! {"$x": 1},
                2,
                "unknown top level operator: $x. If you have a field name",
            ),
            (doc! {"a": {"$x": 1}}, 2, "unknown operator: $x"),
            (doc! {"a": {"$eq": 1, "b": 1}}, 2, "unknown operator: b"),
            (
                doc! {"a": Bson::Undefined},
                2,
                "cannot compare to undefined",
            ),
            (
                doc! {"a": {"$where": "x"}},
                2,
                "$where cannot be applied to a field",
            ),
            (doc! {"$where": "x"}, 238, "$where is not implemented"),
            (
                doc! {"a": {"$near": [0, 0]}},
                238,
                "$near is not implemented",
            ),
        ]);
    }

    #[test]
    fn order() {
        let nan = f64::NAN;
        check::passes(&[
            (
                doc! {"a": {"$gt": 5}},
                vec![
                    doc! {"a": 6},
                    doc! {"a": 5.1},
                    doc! {"a": [1, 6]},
                    doc! {"a": check::decimal("5.01")},
                ],
                vec![
                    doc! {"a": 5},
                    doc! {"a": "6"},
                    doc! {},
                    doc! {"a": nan},
                    doc! {"a": Bson::Null},
                ],
            ),
            (
                doc! {"a": {"$lt": "b"}},
                vec![doc! {"a": "a"}, doc! {"a": ""}],
                vec![doc! {"a": 1}, doc! {"a": "b"}],
            ),
            (
                doc! {"a": {"$gte": Bson::Null}},
                vec![doc! {}, doc! {"a": Bson::Null}],
                vec![doc! {"a": 1}],
            ),
            (
                doc! {"a": {"$gt": Bson::Null}},
                vec![],
                vec![doc! {}, doc! {"a": Bson::Null}, doc! {"a": 1}],
            ),
            (
                doc! {"a": {"$lte": nan}},
                vec![doc! {"a": nan}],
                vec![doc! {"a": 1}],
            ),
            (
                doc! {"a": {"$lt": nan}},
                vec![],
                vec![doc! {"a": nan}, doc! {"a": 1}],
            ),
            (
                doc! {"a": {"$gt": Bson::MinKey}},
                vec![doc! {"a": 1}, doc! {}],
                vec![doc! {"a": Bson::MinKey}],
            ),
            (
                doc! {"a": {"$lte": Bson::MaxKey}},
                vec![doc! {"a": 1}, doc! {"a": Bson::MaxKey}],
                vec![],
            ),
            (
                doc! {"a": {"$gt": [1, 2]}},
                vec![doc! {"a": [1, 3]}],
                vec![doc! {"a": [1, 2]}, doc! {"a": 5}],
            ),
            (
                doc! {"a": {"$gt": 1, "$lt": 3}},
                vec![doc! {"a": 2}, doc! {"a": [0, 5]}],
                vec![doc! {"a": 3}],
            ),
        ]);
        let regex = Bson::RegularExpression(bson::Regex {
            pattern: "a".try_into().unwrap(),
            options: "".try_into().unwrap(),
        });
        check::refused(&[
            (
                doc! {"a": {"$gt": regex.clone()}},
                2,
                "Can't have RegEx as arg to predicate over field 'a'.",
            ),
            (
                doc! {"a": {"$ne": regex}},
                2,
                "Can't have regex as arg to $ne.",
            ),
        ]);
    }
}
