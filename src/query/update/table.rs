//! The table of all update operators.

use super::modify::{UpdateArgument, UpdateLeaf};
use super::path::UpdatePath;
use super::{
    add_to_set, arithmetic, bit, compare, current_date, pop, pull, push, rename, set, unset,
};
use crate::error::Result;
use crate::vocabulary::{Entry, Vocabulary, ready};

/// The parser of an operator's argument for one field.
#[derive(Clone, Copy)]
pub enum UpdateParser {
    Field(ParseField),
    /// Only for `$rename`, which changes a second field.
    TwoFields(ParseTwoFields),
}

pub type ParseField = fn(&UpdateArgument<'_>) -> Result<UpdateLeaf>;
pub type ParseTwoFields = for<'a> fn(&UpdateArgument<'a>) -> Result<TwoLeaves<'a>>;

/// A leaf and the path that it is for.
pub type PathLeaf<'a> = (UpdatePath<'a>, UpdateLeaf);

/// The leaf at the named path, and the one at the path that its argument names.
pub type TwoLeaves<'a> = (PathLeaf<'a>, Result<PathLeaf<'a>>);

pub static UPDATES: Vocabulary<UpdateParser> = Vocabulary::new("", ROWS);

/// Sorted by name.
const ROWS: &[Entry<UpdateParser>] = &[
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

const fn field(name: &'static str, parse: ParseField) -> Entry<UpdateParser> {
    ready(name, UpdateParser::Field(parse))
}

const fn two_fields(name: &'static str, parse: ParseTwoFields) -> Entry<UpdateParser> {
    ready(name, UpdateParser::TwoFields(parse))
}
