//! What an upsert takes over from its filter: the equalities that every matching document would have to satisfy.

use super::{Node, Op, Test};
use crate::{
    error::{Code, Error, Result},
    value::Value,
};

impl Node {
    /// The (path, value) pairs of the conjunctive equalities. The same path twice is refused, since no document could be built.
    pub(super) fn equalities(&self) -> Result<Vec<(&str, &Value)>> {
        let mut pairs = Vec::new();
        self.collect(&mut pairs);
        for (at, (path, _)) in pairs.iter().enumerate() {
            for (other, _) in pairs.iter().take(at) {
                if path == other {
                    return Err(Error::new(
                        Code::NotSingleValueField,
                        format!("cannot infer query fields to set, path '{path}' is matched twice"),
                    ));
                }
                let (short, long) = if path.len() < other.len() {
                    (path, other)
                } else {
                    (other, path)
                };
                if long
                    .strip_prefix(*short)
                    .is_some_and(|rest| rest.starts_with('.'))
                {
                    return Err(Error::new(
                        Code::NotSingleValueField,
                        format!(
                            "cannot infer query fields to set, both paths '{other}' and '{path}' are matched"
                        ),
                    ));
                }
            }
        }
        Ok(pairs)
    }

    fn collect<'n>(&'n self, pairs: &mut Vec<(&'n str, &'n Value)>) {
        match self {
            Self::And(nodes) => nodes.iter().for_each(|node| node.collect(pairs)),
            // An alternative that is none.
            Self::Or(nodes) => {
                if let [node] = nodes.as_slice() {
                    node.collect(pairs);
                }
            }
            Self::Field(field) => match &field.test {
                Test::Compare(comparison) if comparison.op == Op::Eq => {
                    pairs.push((field.path.as_str(), &comparison.value));
                }
                Test::In(members) => {
                    if let Some(value) = members.single() {
                        pairs.push((field.path.as_str(), value));
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }
}
