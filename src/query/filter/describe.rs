//! The tree written back as a document, as explain shows a filter: every shorthand spelled out. Fails where the command is
//! to end: a filter may have very many parts.

use super::{CompareOp, FieldTest, FilterNode, Test, order::in_order};
use crate::error::Result;
use crate::interrupt;
use crate::value::{DocBuf, DocBuilder, Type, Value};

const MOST_POSITIONS: usize = 1 << 20;

/// The whole tree, without some parts of the top conjunction (their places, ascending).
pub(super) fn filter(root: &FilterNode, without: &[usize]) -> Result<DocBuf> {
    let parts: &[FilterNode] = match root {
        FilterNode::And(parts) => parts,
        root => std::slice::from_ref(root),
    };
    interrupt::tick_each(parts)?;
    let left: Vec<&FilterNode> = parts
        .iter()
        .enumerate()
        .filter(|(at, _)| without.binary_search(at).is_err())
        .map(|(_, part)| part)
        .collect();
    let mut bytes = Vec::new();
    let mut out = DocBuilder::begin(&mut bytes);
    match left.as_slice() {
        [one] => node(one, &mut out)?,
        [] => {}
        several => list("$and", several.iter().copied(), &mut out)?,
    }
    out.end();
    Ok(DocBuf::from_bytes(bytes))
}

fn list<'n>(
    name: &str,
    nodes: impl IntoIterator<Item = &'n FilterNode>,
    out: &mut DocBuilder<'_>,
) -> Result<()> {
    let mut array = out.array(name);
    for each in in_order(nodes) {
        node(each, &mut array.doc())?;
    }
    Ok(())
}

fn node(what: &FilterNode, out: &mut DocBuilder<'_>) -> Result<()> {
    interrupt::tick(1)?;
    match what {
        FilterNode::True => {}
        FilterNode::False => {
            out.put_i32("$alwaysFalse", 1);
        }
        FilterNode::And(nodes) => list("$and", nodes, out)?,
        FilterNode::Or(nodes) => list("$or", nodes, out)?,
        FilterNode::Nor(nodes) => list("$nor", nodes, out)?,
        FilterNode::Not(inner) => match &**inner {
            FilterNode::Field(field) => {
                let mut condition = out.doc(field.path.as_str());
                test(field, &mut condition.doc("$not"))?;
            }
            inner => list("$nor", [inner], out)?,
        },
        FilterNode::Field(field) => test(field, &mut out.doc(field.path.as_str()))?,
        FilterNode::Expr(expr) => {
            out.put("$expr", expr.written.as_ref());
        }
        FilterNode::Schema(schema) => {
            out.put("$jsonSchema", schema.1.as_ref());
        }
        FilterNode::Sample(rate) => {
            out.put_f64("$sampleRate", *rate);
        }
    }
    Ok(())
}

fn test(field: &FieldTest, out: &mut DocBuilder<'_>) -> Result<()> {
    match &field.test {
        Test::Compare(comparison) => {
            let name = match comparison.op {
                CompareOp::Eq => "$eq",
                CompareOp::Lt => "$lt",
                CompareOp::Lte => "$lte",
                CompareOp::Gt => "$gt",
                CompareOp::Gte => "$gte",
            };
            out.put(name, comparison.value.as_ref());
        }
        Test::In(members) => {
            let mut array = out.array("$in");
            for value in members.values() {
                interrupt::tick(1)?;
                array.push(value.as_ref());
            }
            for pattern in members.patterns() {
                array.push(Value::regex(pattern.source(), pattern.flags()).as_ref());
            }
        }
        Test::All(members) => {
            let mut array = out.array("$all");
            for value in members.values() {
                interrupt::tick(1)?;
                array.push(value.as_ref());
            }
        }
        Test::Regex(pattern) => {
            out.put_str("$regex", pattern.source());
            if !pattern.flags().is_empty() {
                out.put_str("$options", pattern.flags());
            }
        }
        Test::Exists => {
            out.put_bool("$exists", true);
        }
        Test::Type(types) => {
            let mut array = out.array("$type");
            for tag in (1..=u8::MAX).filter_map(Type::from_tag) {
                if types.has(tag) {
                    let code = if tag == Type::MinKey {
                        -1
                    } else {
                        i32::from(tag.tag())
                    };
                    array.push(Value::int32(code).as_ref());
                }
            }
        }
        Test::Mod(modulo) => {
            let mut array = out.array("$mod");
            array.push(Value::int64(modulo.divisor).as_ref());
            array.push(Value::int64(modulo.remainder).as_ref());
        }
        Test::Size(size) => {
            out.put_i32("$size", i32::try_from(*size).unwrap_or(i32::MAX));
        }
        Test::Bits(bits) => {
            let mut positions = out.array(bits.name());
            // The limit is needed because a mask of a few megabytes has more positions than a reply can hold.
            for position in bits.positions().take(MOST_POSITIONS) {
                interrupt::tick(1)?;
                // No position is beyond the range of an int.
                positions.push(Value::int32(position.cast_signed()).as_ref());
            }
        }
        Test::ElemObject(inner) => node(inner, &mut out.doc("$elemMatch"))?,
        Test::ElemValue(nodes) => {
            let mut condition = out.doc("$elemMatch");
            for each in nodes {
                element(each, &mut condition)?;
            }
        }
    }
    Ok(())
}

/// A condition of the value form of `$elemMatch`, which has no path.
fn element(what: &FilterNode, out: &mut DocBuilder<'_>) -> Result<()> {
    interrupt::tick(1)?;
    match what {
        FilterNode::Field(field) => test(field, out),
        FilterNode::And(nodes) => nodes.iter().try_for_each(|node| element(node, out)),
        FilterNode::Not(inner) => element(inner, &mut out.doc("$not")),
        other => node(other, out),
    }
}

#[cfg(test)]
mod tests {
    use crate::query::filter::check;
    use crate::value::DocBuf;
    use bson::{Regex, doc};

    fn regex(pattern: &str) -> Regex {
        Regex {
            pattern: pattern.try_into().unwrap(),
            options: "".try_into().unwrap(),
        }
    }

    #[test]
    fn explain_prints_filters_in_full() {
        for (filter, expected) in [
            (doc! {}, doc! {}),
            (doc! {"a": 1}, doc! {"a": {"$eq": 1}}),
            (
                doc! {"a": 1, "b": {"$ne": 2}},
                doc! {"$and": [{"a": {"$eq": 1}}, {"b": {"$not": {"$eq": 2}}}]},
            ),
            (
                doc! {"a": {"$elemMatch": {"$gt": 1, "$lt": 3}}},
                doc! {"a": {"$elemMatch": {"$gt": 1, "$lt": 3}}},
            ),
            (
                doc! {"$or": [{"a": {"$in": [2, 1]}}, {"a": {"$exists": false}}]},
                doc! {"$or": [{"a": {"$in": [1, 2]}}, {"a": {"$not": {"$exists": true}}}]},
            ),
            // mongod joins them in the same way.
            (
                doc! {"$or": [{"b": 2}, {"c": 1}, {"b": 1}, {"b": bson::Bson::Null}]},
                doc! {"$or": [{"c": {"$eq": 1}}, {"b": {"$in": [bson::Bson::Null, 1, 2]}}]},
            ),
            (
                doc! {"$or": [{"b": 2}, {"b": 1}]},
                doc! {"b": {"$in": [1, 2]}},
            ),
            (
                doc! {"$or": [{"b": {"$eq": regex("x")}}, {"b": {"$eq": regex("y")}}]},
                doc! {"$or": [{"b": {"$eq": regex("x")}}, {"b": {"$eq": regex("y")}}]},
            ),
            (
                doc! {"$or": [{"b": 1}, {"b": 1}, {"b": 1}]},
                doc! {"b": {"$eq": 1}},
            ),
            (
                doc! {"a": {"$bitsAllSet": 5}},
                doc! {"a": {"$bitsAllSet": [0, 2]}},
            ),
        ] {
            let shown = check::parse(&filter).unwrap().describe().unwrap();
            assert_eq!(shown, DocBuf::from(expected), "{filter}");
        }
    }
}
