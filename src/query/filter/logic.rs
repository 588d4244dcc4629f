//! `$and`, `$or`, `$nor`, `$not`, and the two constants.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{
    CompareOp, Comparison, FieldTest, FilterNode, Members, Test, integer,
    parse::{self, OperatorSite, ParseContext},
};
use crate::{
    error::{Error, Result},
    query::pattern::Pattern,
    value::{Type, Value, ValueRef},
};

fn branches(cx: &ParseContext<'_>, name: &str, arg: ValueRef<'_>) -> Result<Vec<FilterNode>> {
    let Some(array) = arg.as_array() else {
        return Err(Error::bad_value(format!("{name} must be an array")));
    };
    if array.is_empty() {
        return Err(Error::bad_value("$and/$or/$nor must be a nonempty array"));
    }
    array
        .iter()
        .enumerate()
        .map(|(at, elem)| {
            parse::many(at)?;
            match elem.value.as_doc() {
                Some(doc) => parse::document(cx, doc),
                None => Err(Error::bad_value(
                    "$or/$and/$nor entries need to be full objects",
                )),
            }
        })
        .collect()
}

pub(super) fn and(
    cx: &ParseContext<'_>,
    name: &str,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    Ok(Some(FilterNode::and(branches(cx, name, arg)?.into())))
}

pub(super) fn or(
    cx: &ParseContext<'_>,
    name: &str,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    let mut nodes = one_of(branches(cx, name, arg)?);
    Ok(Some(if nodes.len() == 1 {
        nodes.remove(0)
    } else {
        FilterNode::Or(nodes)
    }))
}

/// Joins alternatives that are equalities of the same path into one `$in` after the other alternatives, as mongod does. The
/// document is then tested once, however many values there are.
fn one_of(nodes: Vec<FilterNode>) -> Vec<FilterNode> {
    let mut paths: HashMap<&str, usize> = HashMap::new();
    for field in nodes.iter().filter_map(equality) {
        *paths.entry(field.path.as_str()).or_default() += 1;
    }
    paths.retain(|_, count| *count > 1);
    if paths.is_empty() {
        return nodes;
    }
    let joined: HashSet<String> = paths.into_keys().map(str::to_owned).collect();
    let mut values: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut rest = Vec::new();
    for node in nodes {
        match node {
            FilterNode::Field(FieldTest {
                path,
                test: Test::Compare(comparison),
            }) if is_joined(&comparison) && joined.contains(path.as_str()) => values
                .entry(path.as_str().to_owned())
                .or_default()
                .push(comparison.value),
            other => rest.push(other),
        }
    }
    for (path, values) in values {
        let members = Members::of(values);
        match members.single() {
            Some(value) => {
                let same = Comparison::new(CompareOp::Eq, value.as_ref());
                rest.push(FilterNode::field(&path, Test::Compare(same)));
            }
            None => rest.push(FilterNode::field(&path, Test::In(members))),
        }
    }
    rest
}

fn equality(node: &FilterNode) -> Option<&FieldTest> {
    match node {
        FilterNode::Field(field) => match &field.test {
            Test::Compare(comparison) if is_joined(comparison) => Some(field),
            _ => None,
        },
        _ => None,
    }
}

/// Whether it is an equality that an `$in` can hold. There, a pattern would search and no longer equal.
fn is_joined(comparison: &Comparison) -> bool {
    comparison.op == CompareOp::Eq && comparison.value.ty() != Type::Regex
}

pub(super) fn nor(
    cx: &ParseContext<'_>,
    name: &str,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    Ok(Some(FilterNode::Nor(branches(cx, name, arg)?)))
}

pub(super) fn not(
    cx: &ParseContext<'_>,
    site: &OperatorSite<'_>,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    let node = match arg.ty() {
        Type::Regex => FilterNode::field(site.path, Test::Regex(Pattern::from_value(arg)?)),
        Type::Document => {
            let doc = crate::value::Doc::new(arg.data());
            if doc.is_empty() {
                return Err(Error::bad_value("$not cannot be empty"));
            }
            let mut nodes = parse::Nodes::new();
            parse::conditions(cx, site.path, doc, &mut nodes)?;
            FilterNode::and(nodes)
        }
        _ => return Err(Error::bad_value("$not needs a regex or a document")),
    };
    Ok(Some(FilterNode::not(node)))
}

fn constant(name: &str, arg: ValueRef<'_>, node: FilterNode) -> Result<Option<FilterNode>> {
    if integer::long(name, arg)? != 1 {
        return Err(Error::failed_to_parse(format!(
            "{name} must be an integer value of 1"
        )));
    }
    Ok(Some(node))
}

pub(super) fn always_true(
    _: &ParseContext<'_>,
    name: &str,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    constant(name, arg, FilterNode::True)
}

pub(super) fn always_false(
    _: &ParseContext<'_>,
    name: &str,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    constant(name, arg, FilterNode::False)
}

#[cfg(test)]
mod tests {
    use crate::query::filter::check;
    use bson::doc;

    #[test]
    fn logic() {
        check::passes(&[
            (
                doc! {"$or": [{"a": 1}, {"b": 1}]},
                vec![doc! {"a": 1}, doc! {"b": 1}],
                vec![doc! {"a": 2}],
            ),
            (
                doc! {"$nor": [{"a": 1}, {"b": 1}]},
                vec![doc! {"a": 2}, doc! {}],
                vec![doc! {"a": 1}],
            ),
            (
                doc! {"$and": [{"a": {"$gt": 1}}, {"a": {"$lt": 3}}]},
                vec![doc! {"a": 2}],
                vec![doc! {"a": 4}],
            ),
            (
                doc! {"a": {"$not": {"$gt": 1}}},
                vec![doc! {}, doc! {"a": 1}, doc! {"a": "x"}],
                vec![doc! {"a": 2}, doc! {"a": [0, 2]}],
            ),
            (
                doc! {"a": {"$not": {"$not": {"$gt": 1}}}},
                vec![doc! {"a": 2}],
                vec![doc! {}],
            ),
            (doc! {"$alwaysFalse": 1}, vec![], vec![doc! {}]),
            (
                doc! {"$comment": "x", "a": 1},
                vec![doc! {"a": 1}],
                vec![doc! {}],
            ),
            (doc! {"$or": [{}]}, vec![doc! {}], vec![]),
            (
                doc! {"$expr": "$a"},
                vec![doc! {"a": 1}],
                vec![doc! {"a": 0}],
            ),
        ]);
        check::refused(&[
            (
                doc! {"$and": []},
                2,
                "$and/$or/$nor must be a nonempty array",
            ),
            (doc! {"$or": 1}, 2, "$or must be an array"),
            (
                doc! {"$or": [1]},
                2,
                "$or/$and/$nor entries need to be full objects",
            ),
            (
                doc! {"a": {"$not": 1}},
                2,
                "$not needs a regex or a document",
            ),
            (doc! {"a": {"$not": {}}}, 2, "$not cannot be empty"),
            (
                doc! {"$not": {"a": 1}},
                2,
                "unknown top level operator: $not",
            ),
            (
                doc! {"a": {"$elemMatch": {"$expr": true}}},
                2,
                "$expr can only be applied to the top-level document",
            ),
            (
                doc! {"$sampleRate": 2},
                2,
                "numeric argument to $sampleRate must be in [0, 1]",
            ),
        ]);
    }
}
