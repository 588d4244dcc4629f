//! The order of conditions.
//!
//! MongoDB sorts the conditions of every list by kind and then by path. The kinds that may fail or cost much (`$expr`)
//! come last, so `{$expr: {$gt: [{$divide: [1, "$b"]}, 0]}, b: {$ne: 0}}` never divides by zero. Which error a client
//! sees, which element the positional `$` means, and the order of the fields that an upsert copies depend on this order.
//!
//! A list without an expression cannot fail. It is tested in an order of its own: what is cheap comes first.

use std::cmp::Ordering;

use super::{CompareOp, FieldTest, FilterNode, Test};
use crate::error::Result;
use crate::interrupt;

impl FilterNode {
    /// Flattens nested lists, leaves out constants, and puts the conditions into the order in which they are tested. The
    /// conditions that a constant makes superfluous go to `unused`.
    pub(super) fn normalise(self, unused: &mut Vec<Self>) -> Result<Self> {
        Ok(match self {
            Self::And(nodes) => {
                let mut flat = Vec::with_capacity(nodes.len());
                let mut nodes = nodes.into_iter();
                while let Some(node) = nodes.next() {
                    match node.normalise(unused)? {
                        Self::True => {}
                        Self::False => {
                            unused.extend(flat.into_iter().chain(nodes));
                            return Ok(Self::False);
                        }
                        Self::And(inner) => flat.extend(inner),
                        node => flat.push(node),
                    }
                }
                match flat.len() {
                    0 | 1 => flat.pop().unwrap_or(Self::True),
                    _ => Self::And(sorted(flat)?),
                }
            }
            Self::Or(nodes) => {
                let mut flat = Vec::with_capacity(nodes.len());
                let mut nodes = nodes.into_iter();
                while let Some(node) = nodes.next() {
                    match node.normalise(unused)? {
                        Self::True => {
                            unused.extend(flat.into_iter().chain(nodes));
                            return Ok(Self::True);
                        }
                        Self::False => {}
                        Self::Or(inner) => flat.extend(inner),
                        node => flat.push(node),
                    }
                }
                match flat.len() {
                    0 | 1 => flat.pop().unwrap_or(Self::False),
                    _ => Self::Or(sorted(flat)?),
                }
            }
            Self::Nor(nodes) => {
                let mut inner = Vec::with_capacity(nodes.len());
                let mut nodes = nodes.into_iter();
                while let Some(node) = nodes.next() {
                    match node.normalise(unused)? {
                        Self::True => {
                            unused.extend(inner.into_iter().chain(nodes));
                            return Ok(Self::False);
                        }
                        Self::False => {}
                        node => inner.push(node),
                    }
                }
                match inner.len() {
                    0 | 1 => inner.pop().map_or(Self::True, Self::not),
                    _ => Self::Nor(sorted(inner)?),
                }
            }
            Self::Not(node) => match node.normalise(unused)? {
                Self::True => Self::False,
                Self::False => Self::True,
                node => Self::not(node),
            },
            Self::Field(FieldTest {
                path,
                test: Test::ElemObject(node),
            }) => {
                let of_elements = |node: Self| {
                    Self::Field(FieldTest {
                        path: path.clone(),
                        test: Test::ElemObject(Box::new(node)),
                    })
                };
                let mut unused_inside = Vec::new();
                let node = node.normalise(&mut unused_inside)?;
                unused.extend(unused_inside.into_iter().map(of_elements));
                of_elements(node)
            }
            node => node,
        })
    }

    /// Compares two conditions by MongoDB's order: by kind, by path, then by the conditions inside.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let (left, right) = (self.inside(), other.inside());
        self.kind()
            .cmp(&other.kind())
            .then_with(|| self.path().cmp(other.path()))
            .then_with(|| {
                let pairs = left.iter().zip(right);
                pairs.fold(Ordering::Equal, |order, (a, b)| {
                    order.then_with(|| a.compare(b))
                })
            })
            .then_with(|| left.len().cmp(&right.len()))
    }

    fn path(&self) -> &str {
        match self {
            Self::Field(field) => field.path.as_str(),
            _ => "",
        }
    }

    /// Returns the conditions directly inside.
    fn inside(&self) -> &[Self] {
        match self {
            Self::And(nodes) | Self::Or(nodes) | Self::Nor(nodes) => nodes,
            Self::Not(node) => std::slice::from_ref(node),
            Self::Field(field) => match &field.test {
                Test::ElemObject(node) => std::slice::from_ref(node),
                Test::ElemValue(nodes) => nodes,
                _ => &[],
            },
            _ => &[],
        }
    }

    /// Returns the place of the kind of condition in MongoDB's order.
    fn kind(&self) -> u8 {
        match self {
            Self::And(_) => 0,
            Self::Or(_) => 1,
            Self::Field(field) => match &field.test {
                Test::ElemObject(_) => 2,
                Test::ElemValue(_) => 3,
                Test::Size(_) => 4,
                Test::Compare(comparison) => match comparison.op {
                    CompareOp::Eq => 5,
                    CompareOp::Lte => 6,
                    CompareOp::Lt => 7,
                    CompareOp::Gt => 8,
                    CompareOp::Gte => 9,
                },
                Test::All(_) => 5,
                Test::Regex(_) => 10,
                Test::Mod(_) => 11,
                Test::Exists => 12,
                Test::In(_) => 13,
                Test::Bits(_) => 14,
                Test::Type(_) => 17,
            },
            Self::Not(_) => 15,
            Self::Nor(_) => 16,
            // MongoDB takes a schema apart. It cannot fail, so its place does not show.
            Self::Schema(_) => 18,
            Self::Expr(_) | Self::Sample(_) => 19,
            Self::False | Self::True => 20,
        }
    }

    /// Returns a rough measure of what a test costs.
    fn cost(&self) -> u8 {
        match self {
            Self::True | Self::False => 0,
            Self::Field(field) => match &field.test {
                Test::Regex(_) => 1,
                Test::In(members) if !members.patterns().is_empty() => 1,
                Test::ElemObject(_) | Test::ElemValue(_) | Test::All(_) => 2,
                _ => 0,
            },
            Self::Not(node) => node.cost(),
            Self::And(_) | Self::Or(_) | Self::Nor(_) => 2,
            Self::Schema(_) => 3,
            Self::Expr(_) | Self::Sample(_) => 4,
        }
    }
}

/// Returns the conditions in MongoDB's order.
pub(super) fn in_order<'n>(nodes: impl IntoIterator<Item = &'n FilterNode>) -> Vec<&'n FilterNode> {
    let mut ordered: Vec<&FilterNode> = nodes.into_iter().collect();
    ordered.sort_by(|a, b| a.compare(b));
    ordered
}

/// Sorts a list: in MongoDB's order, and by cost if no condition can fail.
fn sorted(mut nodes: Vec<FilterNode>) -> Result<Vec<FilterNode>> {
    interrupt::tick_each(&nodes)?;
    nodes.sort_by(FilterNode::compare);
    if !nodes.iter().any(FilterNode::has_expression) {
        nodes.sort_by_key(FilterNode::cost);
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use bson::{Document, bson, doc};

    use crate::query::filter::check;
    use crate::value::DocBuf;

    #[test]
    fn explain_shows_conditions_in_order() {
        for (filter, expected) in [
            (
                doc! {"b": {"$ne": 0}, "$expr": "$x", "c": {"$gt": 1}, "a": 1},
                doc! {"$and": [{"a": {"$eq": 1}}, {"c": {"$gt": 1}}, {"b": {"$not": {"$eq": 0}}}, {"$expr": "$x"}]},
            ),
            (
                doc! {"b": 1, "a": 1, "$and": [{"A": 1}, {"$and": [{"c": 1}]}]},
                doc! {"$and": [{"A": {"$eq": 1}}, {"a": {"$eq": 1}}, {"b": {"$eq": 1}}, {"c": {"$eq": 1}}]},
            ),
            (
                doc! {"a": 1, "$or": [{"c": {"$gt": 1}}, {"b": 1}]},
                doc! {"$and": [{"$or": [{"b": {"$eq": 1}}, {"c": {"$gt": 1}}]}, {"a": {"$eq": 1}}]},
            ),
            (doc! {"$nor": [{"b": 1}]}, doc! {"b": {"$not": {"$eq": 1}}}),
            (doc! {"a": 1, "$or": [{}, {"b": 1}]}, doc! {"a": {"$eq": 1}}),
            (doc! {"a": 1, "$alwaysFalse": 1}, doc! {"$alwaysFalse": 1}),
        ] {
            let shown = check::parse(&filter).unwrap().describe().unwrap();
            assert_eq!(shown, DocBuf::from(expected), "{filter}");
        }
    }

    /// Each row has a filter that fails on its document in some order. It must not fail in ours.
    #[test]
    fn what_may_fail_is_tested_last() {
        let fails = || bson!({"$gt": [{"$divide": [1, "$b"]}, 0]});
        let zero = doc! {"b": 0, "a": 1};
        let rows: [(Document, bool); 6] = [
            (doc! {"$expr": fails(), "b": {"$ne": 0}}, false),
            (
                doc! {"$and": [{"$and": [{"$expr": fails()}]}, {"b": 2}]},
                false,
            ),
            (doc! {"$or": [{"$expr": fails()}, {"b": 0}]}, true),
            (doc! {"$nor": [{"$expr": fails()}, {"b": 0}]}, false),
            (doc! {"$expr": fails(), "$nor": [{"b": 0}]}, false),
            (
                doc! {"$expr": fails(), "$jsonSchema": {"required": ["x"]}},
                false,
            ),
        ];
        for (filter, expected) in rows {
            let parsed = check::parse(&filter).unwrap();
            let bytes = DocBuf::from(&zero);
            let passed = parsed.matches(bytes.as_doc(), &check::vars());
            assert_eq!(passed.ok(), Some(expected), "{filter}");
        }
        // mongod tests `$or` before `$not`, so this one fails there, too.
        let filter = doc! {"$or": [{"$expr": fails()}, {"a": 77}], "b": {"$ne": 0}};
        let parsed = check::parse(&filter).unwrap();
        assert!(
            parsed
                .matches(DocBuf::from(&zero).as_doc(), &check::vars())
                .is_err()
        );
    }
}
