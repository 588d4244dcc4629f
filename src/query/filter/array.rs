//! `$all`, `$elemMatch`, `$size`.

use super::{
    CompareOp, Comparison, FilterNode, Members, Test, integer,
    parse::{self, OperatorSite, ParseContext, is_operator_document},
};
use crate::{
    error::{Error, Result},
    query::pattern::Pattern,
    value::{Doc, Type, ValueRef},
};

/// The number of plain values from which `$all` looks values up in a sorted set instead of testing them one by one.
const MANY: usize = 16;
const ELEM_MATCH: &str = "$elemMatch";

/// Parses `$all`, which tests each entry separately: `{$all: [1, 2]}` is an equality with 1 and an equality with 2.
pub(super) fn all(
    cx: &ParseContext<'_>,
    site: &OperatorSite<'_>,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    let Some(array) = arg.as_array() else {
        return Err(Error::bad_value("$all needs an array"));
    };
    if array.is_empty() {
        return Ok(Some(FilterNode::False));
    }
    let first_is_elem_match = array
        .first()
        .is_some_and(|elem| elem_match_argument(elem.value).is_some());
    let plain = |value: ValueRef<'_>| match value.ty() {
        Type::Regex | Type::Undefined => false,
        Type::Document => !starts_with_field_operator(value),
        _ => true,
    };
    if array.count() >= MANY && array.iter().all(|elem| plain(elem.value)) {
        let values = array.iter().map(|elem| elem.value.to_value()).collect();
        return Ok(Some(FilterNode::field(
            site.path,
            Test::All(Members::of(values)),
        )));
    }
    let nodes = array
        .iter()
        .map(|elem| {
            if first_is_elem_match {
                let arg = elem_match_argument(elem.value)
                    .ok_or_else(|| Error::bad_value("$all/$elemMatch has to be consistent"))?;
                return elem_match_node(cx, site.path, arg);
            }
            let test = match elem.value.ty() {
                Type::Regex => Test::Regex(Pattern::from_value(elem.value)?),
                Type::Document if starts_with_field_operator(elem.value) => {
                    return Err(Error::bad_value("no $ expressions in $all"));
                }
                _ => Test::Compare(Comparison::parse(site.path, CompareOp::Eq, elem.value)?),
            };
            Ok(FilterNode::field(site.path, test))
        })
        .collect::<Result<_>>()?;
    Ok(Some(FilterNode::and(nodes)))
}

fn elem_match_argument(value: ValueRef<'_>) -> Option<ValueRef<'_>> {
    let first = value.as_doc()?.first()?;
    (first.name() == ELEM_MATCH).then_some(first.value)
}

fn starts_with_field_operator(value: ValueRef<'_>) -> bool {
    value
        .as_doc()
        .and_then(Doc::first)
        .is_some_and(|elem| parse::is_field(elem.name()))
}

pub(super) fn elem_match(
    cx: &ParseContext<'_>,
    site: &OperatorSite<'_>,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    elem_match_node(cx, site.path, arg).map(Some)
}

fn elem_match_node(cx: &ParseContext<'_>, path: &str, arg: ValueRef<'_>) -> Result<FilterNode> {
    let Some(doc) = arg.as_doc() else {
        return Err(Error::bad_value("$elemMatch needs an Object"));
    };
    let cx = &ParseContext { inner: true, ..*cx };
    // `{$gt: 1}` tests the elements themselves. `{$or: [...]}` and `{a: 1}` test fields of elements that are documents.
    let of_values = is_operator_document(arg, true)
        && doc
            .first()
            .is_some_and(|first| !parse::is_top(first.name()));
    let test = if of_values {
        let mut nodes = parse::Nodes::new();
        parse::conditions(cx, "", doc, &mut nodes)?;
        Test::ElemValue(nodes.into_vec())
    } else {
        Test::ElemObject(Box::new(parse::document(cx, doc)?))
    };
    Ok(FilterNode::field(path, test))
}

pub(super) fn size(
    _: &ParseContext<'_>,
    site: &OperatorSite<'_>,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    let size = integer::non_negative_int(site.name, arg)
        .map_err(|error| Error::bad_value(format!("Failed to parse $size. {}", error.message())))?;
    Ok(Some(FilterNode::field(site.path, Test::Size(size))))
}

#[cfg(test)]
mod tests {
    use crate::query::filter::check;
    use bson::doc;

    #[test]
    fn arrays() {
        check::passes(&[
            (
                doc! {"a": {"$all": [1, 2]}},
                vec![doc! {"a": [2, 3, 1]}],
                vec![doc! {"a": [1]}, doc! {"a": 1}],
            ),
            (
                doc! {"a": {"$all": [1]}},
                vec![doc! {"a": 1}, doc! {"a": [1]}],
                vec![doc! {"a": 2}],
            ),
            (
                doc! {"a": {"$all": []}},
                vec![],
                vec![doc! {"a": []}, doc! {}],
            ),
            (
                doc! {"a": {"$all": [[1, 2]]}},
                vec![doc! {"a": [1, 2]}, doc! {"a": [[1, 2]]}],
                vec![doc! {"a": [2, 1]}],
            ),
            (
                doc! {"a": {"$all": [{"$elemMatch": {"x": 1}}, {"$elemMatch": {"y": 2}}]}},
                vec![doc! {"a": [{"x": 1}, {"y": 2}]}],
                vec![doc! {"a": [{"x": 1}]}],
            ),
            (
                doc! {"a": {"$elemMatch": {"$gt": 1, "$lt": 3}}},
                vec![doc! {"a": [0, 2]}],
                vec![doc! {"a": [0, 5]}, doc! {"a": 2}, doc! {"a": [[2]]}],
            ),
            (
                doc! {"a": {"$elemMatch": {"x": 1, "y": 2}}},
                vec![doc! {"a": [{"x": 1, "y": 2}]}],
                vec![
                    doc! {"a": [{"x": 1}, {"y": 2}]},
                    doc! {"a": {"x": 1, "y": 2}},
                ],
            ),
            (
                doc! {"a": {"$elemMatch": {"$or": [{"x": 1}, {"y": 1}]}}},
                vec![doc! {"a": [{"y": 1}]}],
                vec![doc! {"a": [{"y": 2}]}],
            ),
            (
                doc! {"a": {"$elemMatch": {"$elemMatch": {"$gt": 1}}}},
                vec![doc! {"a": [[0, 2]]}],
                vec![doc! {"a": [2]}],
            ),
            (
                doc! {"a": {"$elemMatch": {"0": 5}}},
                vec![doc! {"a": [[5]]}],
                vec![doc! {"a": [5]}],
            ),
            (
                doc! {"a": {"$elemMatch": {"$not": {"$gt": 1}}}},
                vec![doc! {"a": [0, 5]}],
                vec![doc! {"a": [5]}, doc! {"a": []}],
            ),
            (
                doc! {"a": {"$size": 2}},
                vec![doc! {"a": [1, 2]}],
                vec![doc! {"a": [1]}, doc! {"a": 2}, doc! {}],
            ),
            (
                doc! {"a.b": {"$size": 1}},
                vec![doc! {"a": [{"b": [1]}]}],
                vec![doc! {"a": [{"b": 1}]}],
            ),
        ]);
        let many = |n: i32| (0..n).collect::<Vec<_>>();
        check::passes(&[(
            doc! {"a": {"$all": many(40)}},
            vec![doc! {"a": many(50)}],
            vec![doc! {"a": many(39)}, doc! {"a": 1}, doc! {}],
        )]);
        check::refused(&[
            (doc! {"a": {"$all": 1}}, 2, "$all needs an array"),
            (
                doc! {"a": {"$all": [{"$gt": 1}]}},
                2,
                "no $ expressions in $all",
            ),
            (
                doc! {"a": {"$all": [{"$elemMatch": {}}, 1]}},
                2,
                "$all/$elemMatch has to be consistent",
            ),
            (
                doc! {"a": {"$elemMatch": 1}},
                2,
                "$elemMatch needs an Object",
            ),
            (
                doc! {"a": {"$size": -1}},
                2,
                "Failed to parse $size. Expected a non-negative number in: $size: -1",
            ),
            (
                doc! {"a": {"$size": 1.5}},
                2,
                "Failed to parse $size. Expected an integer: $size: 1.5",
            ),
            (
                doc! {"a": {"$size": "1"}},
                2,
                "Failed to parse $size. Expected a number in: $size: \"1\"",
            ),
        ]);
    }
}
