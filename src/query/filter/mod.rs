//! The match language: `{a: 1, b: {$gt: 2}}`.
//!
//! A filter is parsed once ([`Filter::parse`]) into a typed tree ([`Node`], [`Test`]) or an error in mongod's words; matching
//! ([`Filter::matches`]) then reads a document's bytes and meets no operator name. [`FILTERS`] lists MongoDB's whole vocabulary; what
//! is not built is refused by name.
//!
//! Negations (`$ne`, `$nin`, `$not`, `$exists: false`) are a [`Node::Not`] around the positive test, which is why they
//! also match documents that lack the field. `$all` is a conjunction of tests of the same path.

mod array;
mod bits;
mod compare;
mod describe;
mod element;
mod equalities;
mod evaluation;
mod integer;
mod logic;
mod matches;
mod members;
mod modulo;
mod parse;
mod position;
mod regex;
mod schema;
mod table;
mod tree;
mod types;

pub use bits::Bits;
pub use compare::{Comparison, Op};
pub use members::Members;
pub use modulo::Modulo;
pub use schema::Schema;
pub use table::{FILTERS, Level, Parse};
pub use tree::{Field, Filter, Node, Test};
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
