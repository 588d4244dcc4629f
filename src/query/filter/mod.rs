//! The match language: `{a: 1, b: {$gt: 2}}`.
//!
//! [`Filter::parse`] turns a filter into a typed tree ([`FilterNode`], [`Test`]) once, or returns an error with mongod's
//! code and message. [`Filter::matches`] then tests the bytes of a document and looks at no operator name. [`FILTERS`]
//! lists MongoDB's whole vocabulary; an operator that is not built is refused by name.
//!
//! Conditions are tested in MongoDB's order, which puts what may fail behind what is cheap (`order.rs`).
//!
//! A negation (`$ne`, `$nin`, `$not`, `$exists: false`) is a [`FilterNode::Not`] around the positive test. This is why it
//! also matches documents that lack the field. A short `$all` is a conjunction of tests of the same path; a long one is one
//! [`Test::All`].
//!
//! This module knows no storage and no index. The planner reads the tree to choose an index.

mod array;
mod bits;
mod compare;
mod describe;
mod element;
mod equalities;
mod evaluation;
mod implied;
mod integer;
mod logic;
mod matches;
mod members;
mod modulo;
mod order;
mod parse;
mod position;
mod regex;
mod schema;
mod split;
mod table;
mod tree;
mod types;

pub use bits::Bits;
pub use compare::{CompareOp, Comparison};
pub use implied::{ExprTest, FieldOrder};
pub use members::Members;
pub use modulo::Modulo;
pub use schema::Schema;
pub use table::{FILTERS, FilterParser, Level};
pub use tree::{FieldTest, Filter, FilterNode, Test};
pub use types::TypeSet;

#[cfg(test)]
mod check;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Scope;
    use crate::value::DocBuf;
    use bson::doc;

    #[test]
    fn a_filter_can_be_shared() {
        fn shared<T: Send + Sync>() {}
        shared::<Filter>();
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |levels: usize| {
            (0..levels).fold(DocBuf::from(doc! {"a": 1}), |inner, _| {
                DocBuf::build(|d| {
                    d.array("$and").push_doc(inner.as_doc());
                })
            })
        };
        let parse = |levels| Filter::parse(nested(levels).as_doc(), &Scope::default());
        assert!(parse(90).is_ok());
        assert!(parse(1000).is_err());
    }
}
