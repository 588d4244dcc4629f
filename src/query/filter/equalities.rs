//! The equalities of a filter that an upsert copies into the new document. Every matching document satisfies them.

use std::collections::HashSet;

use super::{CompareOp, FilterNode, Test, order::in_order};
use crate::{
    error::{Code, Error, Result},
    value::Value,
};

const MAX_DEPTH: usize = 200;

/// Checks that no path is there twice, or beside a part of it: no document could be built.
fn check_distinct(pairs: &[(&str, &Value)]) -> Result<()> {
    let mut paths = HashSet::with_capacity(pairs.len());
    for (path, _) in pairs {
        if !paths.insert(*path) {
            return Err(Error::new(
                Code::NotSingleValueField,
                format!("cannot infer query fields to set, path '{path}' is matched twice"),
            ));
        }
    }
    for (path, _) in pairs {
        // No document is deeper than that. A longer path fails when the document is built.
        for (dot, _) in path.match_indices('.').take(MAX_DEPTH) {
            let outer = &path[..dot];
            if paths.contains(outer) {
                return Err(Error::new(
                    Code::NotSingleValueField,
                    format!(
                        "cannot infer query fields to set, both paths '{outer}' and '{path}' are matched"
                    ),
                ));
            }
        }
    }
    Ok(())
}

impl FilterNode {
    /// Returns the (path, value) pairs of the equalities in the conjunction. The same path twice is an error, because no
    /// document could be built.
    pub(super) fn equalities(&self) -> Result<Vec<(&str, &Value)>> {
        let pairs = self.pairs();
        check_distinct(&pairs)?;
        Ok(pairs)
    }

    /// Returns the pair of the `_id`, which must be given as a whole. Other equalities do not matter.
    pub(super) fn id_equality(&self) -> Result<Vec<(&str, &Value)>> {
        let mut pairs = self.pairs();
        pairs.retain(|(path, _)| path.split('.').next() == Some("_id"));
        if let Some((path, _)) = pairs.iter().find(|(path, _)| *path != "_id") {
            return Err(Error::new(
                Code::NotExactValueField,
                format!(
                    "field at '_id' must be exactly specified, field at sub-path '{path}'found"
                ),
            ));
        }
        check_distinct(&pairs)?;
        Ok(pairs)
    }

    fn pairs(&self) -> Vec<(&str, &Value)> {
        let mut pairs = Vec::new();
        if !self.is_never_true() {
            self.collect(&mut pairs);
        }
        pairs
    }

    /// Returns whether the filter is constantly false. mongod copies nothing from such a filter.
    fn is_never_true(&self) -> bool {
        match self {
            Self::False => true,
            Self::And(nodes) => nodes.iter().any(Self::is_never_true),
            Self::Or(nodes) => nodes.iter().all(Self::is_never_true),
            _ => false,
        }
    }

    fn collect<'n>(&'n self, pairs: &mut Vec<(&'n str, &'n Value)>) {
        match self {
            // The new document has the fields in MongoDB's order of conditions.
            Self::And(nodes) => in_order(nodes)
                .into_iter()
                .for_each(|node| node.collect(pairs)),
            // An `$or` with a single alternative is a plain condition.
            Self::Or(nodes) => {
                if let [node] = nodes.as_slice() {
                    node.collect(pairs);
                }
            }
            Self::Field(field) => match &field.test {
                Test::Compare(comparison) if comparison.op == CompareOp::Eq => {
                    pairs.push((field.path.as_str(), &comparison.value));
                }
                Test::In(members) => {
                    if let Some(value) = members.single() {
                        pairs.push((field.path.as_str(), value));
                    }
                }
                Test::All(members) => pairs.extend(
                    members
                        .values()
                        .iter()
                        .map(|value| (field.path.as_str(), value)),
                ),
                _ => {}
            },
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::query::filter::check;
    use bson::{Document, doc};

    #[test]
    fn an_upsert_copies_equalities() {
        let found = |filter: Document| {
            check::parse(&filter)
                .unwrap()
                .equalities()
                .map(|pairs| format!("{pairs:?}"))
                .map_err(|error| error.code().number())
        };
        assert_eq!(
            found(
                doc! {"a": 1, "b": {"$gt": 1}, "$and": [{"c.d": {"$eq": 2}}, {"e": {"$in": [3]}}]}
            ),
            Ok(r#"[("a", Some(1)), ("c.d", Some(2)), ("e", Some(3))]"#.into())
        );
        assert_eq!(found(doc! {"$or": [{"a": 1}, {"b": 1}]}), Ok("[]".into()));
        assert_eq!(found(doc! {"$and": [{"a": 1}, {"a": 2}]}), Err(54));
        assert_eq!(found(doc! {"a": 1, "a.b": 2}), Err(54));
    }
}
