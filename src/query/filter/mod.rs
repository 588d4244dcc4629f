//! The match language: `{a: 1, b: {$gt: 2}}`.
//!
//! A filter is parsed once ([`Filter::parse`]) into a typed tree ([`Node`], [`Test`]) or an error in mongod's words; matching
//! ([`Filter::matches`]) then reads a document's bytes and meets no operator name. [`FILTERS`] is the whole vocabulary: what
//! stands there as planned is refused by name, what does not stand there is unknown, as it is to mongod.
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
mod tree;
mod types;

pub use bits::Bits;
pub use compare::{Comparison, Op};
pub use members::Members;
pub use modulo::Modulo;
pub use schema::Schema;
pub use tree::{Field, Filter, Node, Test};
pub use types::TypeSet;

use parse::{FieldParser, TopParser};

/// A row of the vocabulary.
pub struct Operator {
    pub name: &'static str,
    pub status: Status,
}

/// Where an operator stands and whether it is built. The two places have names of their own: `$and` stands where a field
/// could, `$gt` inside a field's condition.
#[derive(Clone, Copy)]
pub enum Status {
    Top(TopParser),
    Field(FieldParser),
    /// Known to MongoDB, refused here by name.
    PlannedTop,
    PlannedField,
}

use Status::{Field as F, PlannedField, PlannedTop, Top as T};

macro_rules! filters {
    ($($name:literal $status:expr,)*) => {
        /// Every operator of the match language, sorted by name.
        pub static FILTERS: &[Operator] = &[$(Operator { name: $name, status: $status },)*];
    };
}

filters! {
    "$all" F(array::all),
    "$alwaysFalse" T(logic::always_false),
    "$alwaysTrue" T(logic::always_true),
    "$and" T(logic::and),
    "$bitsAllClear" F(bits::all_clear),
    "$bitsAllSet" F(bits::all_set),
    "$bitsAnyClear" F(bits::any_clear),
    "$bitsAnySet" F(bits::any_set),
    "$comment" T(evaluation::comment),
    "$db" T(compare::reference),
    "$elemMatch" F(array::elem_match),
    "$eq" F(compare::eq),
    "$exists" F(element::exists),
    "$expr" T(evaluation::expr),
    "$geoIntersects" PlannedField,
    "$geoNear" PlannedField,
    "$geoWithin" PlannedField,
    "$gt" F(compare::gt),
    "$gte" F(compare::gte),
    "$id" T(compare::reference),
    "$in" F(members::is_in),
    "$jsonSchema" T(evaluation::json_schema),
    "$lt" F(compare::lt),
    "$lte" F(compare::lte),
    "$maxDistance" PlannedField,
    "$minDistance" PlannedField,
    "$mod" F(modulo::modulo),
    "$ne" F(compare::ne),
    "$near" PlannedField,
    "$nearSphere" PlannedField,
    "$nin" F(members::not_in),
    "$nor" T(logic::nor),
    "$not" F(logic::not),
    "$options" F(regex::options),
    "$or" T(logic::or),
    "$ref" T(compare::reference),
    "$regex" F(regex::regex),
    "$sampleRate" T(evaluation::sample_rate),
    "$size" F(array::size),
    "$text" PlannedTop,
    "$type" F(element::is_type),
    "$where" PlannedTop,
    "$within" PlannedField,
}

/// The row of a name.
pub(super) fn find(name: &str) -> Option<&'static Operator> {
    let at = FILTERS.binary_search_by(|row| row.name.cmp(name)).ok()?;
    FILTERS.get(at)
}

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
