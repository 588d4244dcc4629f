//! The table of all update operators.

use super::modify::{Argument, Leaf};
use super::path::UpdatePath;
use super::{
    add_to_set, arithmetic, bit, compare, current_date, pop, pull, push, rename, set, unset,
};
use crate::error::Result;
use crate::vocabulary::{Entry, Vocabulary, ready};

/// The parser of an operator's argument for one field.
#[derive(Clone, Copy)]
pub enum Parse {
    Field(ParseField),
    /// Only for `$rename`, which changes a second field.
    TwoFields(ParseTwoFields),
}

pub type ParseField = fn(&Argument<'_>) -> Result<Leaf>;
pub type ParseTwoFields = for<'a> fn(&Argument<'a>) -> Result<[(UpdatePath<'a>, Leaf); 2]>;

pub static UPDATES: Vocabulary<Parse> = Vocabulary::new("", ROWS);

/// Sorted by name.
const ROWS: &[Entry<Parse>] = &[
    field("$addToSet", add_to_set::parse),
    field("$bit", bit::parse),
    field("$currentDate", current_date::parse),
    field("$inc", arithmetic::parse_inc),
    field("$max", compare::parse_max),
    field("$min", compare::parse_min),
    field("$mul", arithmetic::parse_mul),
    field("$pop", pop::parse),
    field("$pull", pull::parse_pull),
    field("$pullAll", pull::parse_pull_all),
    field("$push", push::parse),
    two_fields("$rename", rename::parse),
    field("$set", set::parse_set),
    field("$setOnInsert", set::parse_set_on_insert),
    field("$unset", unset::parse),
];

const fn field(name: &'static str, parse: ParseField) -> Entry<Parse> {
    ready(name, Parse::Field(parse))
}

const fn two_fields(name: &'static str, parse: ParseTwoFields) -> Entry<Parse> {
    ready(name, Parse::TwoFields(parse))
}
