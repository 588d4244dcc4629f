//! `$in` and `$nin`: equality with one of many values, or a match of one of many patterns.

use super::{
    FilterNode, Test,
    parse::{OperatorSite, ParseContext, is_operator_document},
};
use crate::{
    error::{Error, Result},
    query::pattern::Pattern,
    value::{self, Type, Value, ValueRef},
};

/// The right side of an `$in`: values in BSON order without duplicates, and patterns.
#[derive(Debug, Clone)]
pub struct Members {
    values: Vec<Value>,
    patterns: Vec<Pattern>,
    /// Null is one of them.
    null: bool,
}

// === impl Members ===

impl Members {
    fn parse(site: &OperatorSite<'_>, arg: ValueRef<'_>) -> Result<Self> {
        let Some(array) = arg.as_array() else {
            return Err(Error::bad_value(format!("{} needs an array", site.name)));
        };
        let mut values = Vec::new();
        let mut patterns = Vec::new();
        for elem in array {
            match elem.value.ty() {
                Type::Regex => patterns.push(Pattern::from_value(elem.value)?),
                Type::Undefined => {
                    return Err(Error::bad_value(
                        "InMatchExpression equality cannot be undefined",
                    ));
                }
                _ if is_operator_document(elem.value, false) => {
                    return Err(Error::bad_value(format!(
                        "cannot nest $ under {}",
                        site.name
                    )));
                }
                _ => values.push(elem.value.to_value()),
            }
        }
        Ok(Self {
            patterns,
            ..Self::of(values)
        })
    }

    /// Builds a set of plain values.
    pub(super) fn of(mut values: Vec<Value>) -> Self {
        values.sort_by(|a, b| value::compare(a.as_ref(), b.as_ref()));
        values.dedup_by(|a, b| value::compare(a.as_ref(), b.as_ref()).is_eq());
        let null = values.iter().any(|value| value.ty() == Type::Null);
        Self {
            values,
            patterns: Vec::new(),
            null,
        }
    }

    /// Returns the index of the member that equals the value. A missing value counts as null.
    pub(super) fn find(&self, value: ValueRef<'_>) -> Option<usize> {
        let value = value.or_null();
        self.values
            .binary_search_by(|member| value::compare(member.as_ref(), value))
            .ok()
    }

    /// Whether null is one of them, which a missing field equals.
    pub fn has_null(&self) -> bool {
        self.null
    }

    /// In BSON order, each once.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// Returns the value if there is exactly one and no pattern.
    pub fn single(&self) -> Option<&Value> {
        match (self.values.as_slice(), self.patterns.is_empty()) {
            ([value], true) => Some(value),
            _ => None,
        }
    }

    pub fn passes(&self, value: ValueRef<'_>) -> bool {
        if value.is_missing() {
            return self.null;
        }
        self.values
            .binary_search_by(|member| value::compare(member.as_ref(), value))
            .is_ok()
            || self.patterns.iter().any(|pattern| pattern.passes(value))
    }
}

fn node(site: &OperatorSite<'_>, arg: ValueRef<'_>) -> Result<FilterNode> {
    Ok(FilterNode::field(
        site.path,
        Test::In(Members::parse(site, arg)?),
    ))
}

pub(super) fn is_in(
    _: &ParseContext<'_>,
    site: &OperatorSite<'_>,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    node(site, arg).map(Some)
}

pub(super) fn not_in(
    _: &ParseContext<'_>,
    site: &OperatorSite<'_>,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    Ok(Some(FilterNode::not(node(site, arg)?)))
}

#[cfg(test)]
mod tests {
    use crate::query::filter::check;
    use bson::{Bson, doc};

    #[test]
    fn membership() {
        let regex = Bson::RegularExpression(bson::Regex {
            pattern: "^x".try_into().unwrap(),
            options: "".try_into().unwrap(),
        });
        check::passes(&[
            (
                doc! {"a": {"$in": [1, "b", Bson::Null]}},
                vec![
                    doc! {"a": 1.0},
                    doc! {"a": "b"},
                    doc! {},
                    doc! {"a": [7, 1]},
                ],
                vec![doc! {"a": 2}, doc! {"a": []}],
            ),
            (
                doc! {"a": {"$in": []}},
                vec![],
                vec![doc! {}, doc! {"a": 1}],
            ),
            (
                doc! {"a": {"$nin": []}},
                vec![doc! {}, doc! {"a": 1}],
                vec![],
            ),
            (
                doc! {"a": {"$in": [[1, 2]]}},
                vec![doc! {"a": [1, 2]}, doc! {"a": [[1, 2]]}],
                vec![doc! {"a": 1}],
            ),
            (
                doc! {"a": {"$in": [regex, 3]}},
                vec![doc! {"a": "xy"}, doc! {"a": ["q", "x"]}, doc! {"a": 3}],
                vec![doc! {"a": "yx"}],
            ),
            (
                doc! {"a": {"$nin": [1, 2]}},
                vec![doc! {}, doc! {"a": 3}, doc! {"a": []}],
                vec![doc! {"a": [3, 1]}],
            ),
            (
                doc! {"a": {"$in": [f64::NAN]}},
                vec![doc! {"a": f64::NAN}],
                vec![doc! {"a": 1}],
            ),
        ]);
        check::refused(&[
            (doc! {"a": {"$in": 1}}, 2, "$in needs an array"),
            (doc! {"a": {"$nin": 1}}, 2, "$nin needs an array"),
            (
                doc! {"a": {"$in": [{"$gt": 1}]}},
                2,
                "cannot nest $ under $in",
            ),
        ]);
    }
}
