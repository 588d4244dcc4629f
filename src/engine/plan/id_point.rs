//! Detection of queries that ask for one document by its `_id`.
//!
//! There are three forms of the question: for the bytes of a filter ([`plain_id`], before anything is parsed), for its tree
//! ([`id_equality`]), and for one of its predicates ([`id_values`], in the planner). All of them use [`has_one_key`].

use super::predicates::{Predicate, PredicateTest};
use crate::{
    error::Result,
    interrupt,
    query::filter::{CompareOp, Filter, FilterNode, Test},
    value::{Doc, Type, Value, ValueRef},
};

pub(super) const ID_FIELD: &str = "_id";

/// Returns whether equality with this value is equality of keys. For values of some types it matches more.
pub fn has_one_key(value: ValueRef<'_>) -> bool {
    !matches!(value.ty(), Type::Array | Type::Regex | Type::Undefined)
}

/// Returns the `_id` that the filter asks for, if it asks for nothing else.
pub fn id_equality(filter: &Filter) -> Option<ValueRef<'_>> {
    let FilterNode::Field(field) = filter.root() else {
        return None;
    };
    let Test::Compare(comparison) = &field.test else {
        return None;
    };
    if field.path.len() != 1 || field.path.first() != ID_FIELD || comparison.op != CompareOp::Eq {
        return None;
    }
    let value = comparison.value.as_ref();
    has_one_key(value).then_some(value)
}

/// Returns the `_id` that an unparsed filter asks for, if it asks for nothing else. Most filters are just `{_id: value}`.
pub fn plain_id(filter: Doc<'_>) -> Option<ValueRef<'_>> {
    let mut fields = filter.iter();
    let only = fields
        .next()
        .filter(|elem| elem.name_bytes() == ID_FIELD.as_bytes())?;
    // A document may hold operators.
    if fields.next().is_some() || only.value.ty() == Type::Document {
        return None;
    }
    has_one_key(only.value).then_some(only.value)
}

/// Returns the `_id`s that a predicate on `_id` allows, in order and each once, if it lists them.
pub(super) fn id_values<'f>(predicate: &Predicate<'f>) -> Result<Option<&'f [Value]>> {
    let values = match predicate.test {
        PredicateTest::Is(Test::Compare(comparison)) if comparison.op == CompareOp::Eq => {
            std::slice::from_ref(&comparison.value)
        }
        PredicateTest::Is(Test::In(members)) if members.patterns().is_empty() => members.values(),
        _ => return Ok(None),
    };
    interrupt::tick_each(values)?;
    let each_has_one = values.iter().all(|value| has_one_key(value.as_ref()));
    Ok(each_has_one.then_some(values))
}

#[cfg(test)]
mod tests {
    use bson::{Bson, doc};

    use super::super::{AccessPath, Facts, plan};
    use super::*;
    use crate::query::Scope;
    use crate::value::DocBuf;

    /// Returns whether the planner looks up one `_id` for the filter.
    fn planned(filter: &Filter) -> bool {
        let plan = plan(filter, &[], None, &Facts::default()).unwrap();
        matches!(plan.access, AccessPath::Ids(keys) if keys.len() == 1) && plan.exact
    }

    #[test]
    fn bytes_tree_and_planner_find_the_same_id() {
        let values: Vec<(Bson, bool)> = vec![
            (Bson::Int32(5), true),
            (Bson::Double(f64::NAN), true),
            (Bson::Null, true),
            (Bson::from("a"), true),
            (
                Bson::ObjectId(bson::oid::ObjectId::from_bytes([7; 12])),
                true,
            ),
            (Bson::MaxKey, true),
            // Values of these types are recognized only after parsing, or not at all.
            (Bson::from(doc! {"a": 1}), false),
            (Bson::from(doc! {"$gt": 1}), false),
            (Bson::from(vec![1, 2]), false),
            (Bson::Undefined, false),
            (
                Bson::RegularExpression(bson::Regex {
                    pattern: bson::cstr!("a").into(),
                    options: bson::cstr!("").into(),
                }),
                false,
            ),
        ];
        for (value, plain) in values {
            let filter = DocBuf::from(doc! {"_id": value});
            let seen = plain_id(filter.as_doc());
            assert_eq!(seen.is_some(), plain, "{filter:?}");
            let Ok(parsed) = Filter::parse(filter.as_doc(), &Scope::new()) else {
                assert!(!plain, "{filter:?}");
                continue;
            };
            if plain {
                assert_eq!(seen, id_equality(&parsed), "{filter:?}");
            }
            let equality = id_equality(&parsed).is_some();
            assert_eq!(equality, planned(&parsed), "{filter:?}");
        }
        for other in [
            doc! {},
            doc! {"a": 1},
            doc! {"_id": 1, "a": 1},
            doc! {"_id": 1, "_id.a": 1},
            doc! {"_id.a": 1},
        ] {
            let bytes = DocBuf::from(other.clone());
            assert_eq!(plain_id(bytes.as_doc()), None, "{other}");
            let parsed = Filter::parse(bytes.as_doc(), &Scope::new()).unwrap();
            assert_eq!(id_equality(&parsed), None, "{other}");
            assert!(!planned(&parsed), "{other}");
        }
    }
}
