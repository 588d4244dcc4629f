//! Finds the array element that made a document pass. The positional `$` of an update or a projection refers to it.

use std::ops::ControlFlow;

use super::{CompareOp, FieldTest, FilterNode, Test, matches::RootDocument, order::in_order};
use crate::value::{ArrayLeaf, Doc};

impl FilterNode {
    /// Returns the index if the document passes. The last condition that passed through an array decides, in MongoDB's
    /// order of conditions. Alternatives give an index only if they are values of one field, which MongoDB treats as an
    /// `$in`. A negation gives none.
    pub(super) fn position(&self, root: RootDocument<'_>) -> Option<usize> {
        match self {
            Self::Field(field) => field.position(root.doc),
            Self::And(nodes) => {
                if !self.matches(root).unwrap_or(false) {
                    return None;
                }
                in_order(nodes)
                    .into_iter()
                    .rev()
                    .find_map(|node| node.position(root))
            }
            Self::Or(nodes) if are_values_of_one_field(nodes) => {
                nodes.iter().filter_map(|node| node.position(root)).min()
            }
            _ => None,
        }
    }
}

fn are_values_of_one_field(nodes: &[FilterNode]) -> bool {
    let mut paths = nodes.iter().map(|node| match node {
        FilterNode::Field(field) => match &field.test {
            Test::Compare(comparison) if comparison.op == CompareOp::Eq => {
                Some(field.path.as_str())
            }
            Test::In(_) | Test::Regex(_) => Some(field.path.as_str()),
            _ => None,
        },
        _ => None,
    });
    match paths.next() {
        Some(Some(first)) => paths.all(|path| path == Some(first)),
        _ => false,
    }
}

impl FieldTest {
    fn position(&self, doc: Doc<'_>) -> Option<usize> {
        if let Test::All(members) = &self.test {
            if !self.matches(doc) {
                return None;
            }
            let found =
                self.path
                    .hits(doc, self.test.leaf(), |hit| match members.find(hit.value) {
                        Some(_) => ControlFlow::Break(hit.index.map(|index| index as usize)),
                        None => ControlFlow::Continue(()),
                    });
            return found.break_value().flatten();
        }
        let leaf = match self.test {
            // Of an array that exists, its first element exists.
            Test::Exists => ArrayLeaf::Elements,
            _ => self.test.leaf(),
        };
        let found = self.path.hits(doc, leaf, |hit| {
            if !self.test.passes(hit.value) {
                return ControlFlow::Continue(());
            }
            // The outermost array takes precedence over the array that `$elemMatch` tests.
            ControlFlow::Break(
                hit.index
                    .map(|index| index as usize)
                    .or_else(|| self.test.element(hit.value)),
            )
        });
        found.break_value().flatten()
    }
}

#[cfg(test)]
mod tests {
    use crate::query::filter::check;
    use crate::value::DocBuf;
    use bson::doc;

    #[test]
    fn the_position_is_that_of_the_outermost_array() {
        for (filter, doc, expected) in [
            (doc! {"a": 2}, doc! {"a": [1, 2]}, Some(1)),
            (doc! {"a": 2}, doc! {"a": 2}, None),
            (doc! {"a": [1, 2]}, doc! {"a": [1, 2]}, None),
            (
                doc! {"a.b": 2},
                doc! {"a": [{"b": 1}, {"b": [7, 2]}]},
                Some(1),
            ),
            (
                doc! {"a": {"$elemMatch": {"b": 2}}},
                doc! {"a": [{"b": 1}, {"b": 2}]},
                Some(1),
            ),
            (
                doc! {"a": {"$gt": 1}, "b": 3},
                doc! {"a": [0, 5], "b": [1, 2, 3]},
                Some(1),
            ),
            (
                doc! {"a": {"$gt": 1, "$lt": 5}},
                doc! {"a": [1, 2, 9]},
                Some(1),
            ),
            (
                doc! {"$or": [{"a": 9}, {"b": 2}]},
                doc! {"a": [1], "b": [1, 2]},
                None,
            ),
            (
                doc! {"$or": [{"b": 9}, {"b": 2}]},
                doc! {"b": [1, 2]},
                Some(1),
            ),
            (doc! {"a": {"$ne": 2}}, doc! {"a": [1]}, None),
        ] {
            let bytes = DocBuf::from(&doc);
            let found = check::parse(&filter)
                .unwrap()
                .position(bytes.as_doc(), &check::vars())
                .unwrap();
            assert_eq!(found, expected, "{filter} on {doc}");
        }
    }
}
