//! Every operator of the match language.

use super::parse::{FieldParser, TopParser};
use super::{array, bits, compare, element, evaluation, logic, members, modulo, regex};
use crate::vocabulary::{Entry, Status, Vocabulary};

#[derive(Clone, Copy)]
pub enum FilterParser {
    Top(TopParser),
    Field(FieldParser),
}

/// The place of an operator in a filter. Each place has its own names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// At the level of fields: `$and`.
    Top,
    /// Inside the condition of a field: `$gt`.
    Field,
}

pub static FILTERS: Vocabulary<FilterParser, Level> = Vocabulary::new("", ROWS);

/// Sorted by name.
const ROWS: &[Entry<FilterParser, Level>] = &[
    field("$all", array::all),
    top("$alwaysFalse", logic::always_false),
    top("$alwaysTrue", logic::always_true),
    top("$and", logic::and),
    field("$bitsAllClear", bits::all_clear),
    field("$bitsAllSet", bits::all_set),
    field("$bitsAnyClear", bits::any_clear),
    field("$bitsAnySet", bits::any_set),
    top("$comment", evaluation::comment),
    top("$db", compare::reference),
    field("$elemMatch", array::elem_match),
    field("$eq", compare::eq),
    field("$exists", element::exists),
    top("$expr", evaluation::expr),
    planned("$geoIntersects", Level::Field),
    planned("$geoNear", Level::Field),
    planned("$geoWithin", Level::Field),
    field("$gt", compare::gt),
    field("$gte", compare::gte),
    top("$id", compare::reference),
    field("$in", members::is_in),
    top("$jsonSchema", evaluation::json_schema),
    field("$lt", compare::lt),
    field("$lte", compare::lte),
    planned("$maxDistance", Level::Field),
    planned("$minDistance", Level::Field),
    field("$mod", modulo::modulo),
    field("$ne", compare::ne),
    planned("$near", Level::Field),
    planned("$nearSphere", Level::Field),
    field("$nin", members::not_in),
    top("$nor", logic::nor),
    field("$not", logic::not),
    field("$options", regex::options),
    top("$or", logic::or),
    top("$ref", compare::reference),
    field("$regex", regex::regex),
    top("$sampleRate", evaluation::sample_rate),
    field("$size", array::size),
    planned("$text", Level::Top),
    field("$type", element::is_type),
    planned("$where", Level::Top),
    planned("$within", Level::Field),
];

const fn top(name: &'static str, parse: TopParser) -> Entry<FilterParser, Level> {
    Entry {
        status: Status::Ready(FilterParser::Top(parse)),
        ..planned(name, Level::Top)
    }
}

const fn field(name: &'static str, parse: FieldParser) -> Entry<FilterParser, Level> {
    Entry {
        status: Status::Ready(FilterParser::Field(parse)),
        ..planned(name, Level::Field)
    }
}

const fn planned(name: &'static str, level: Level) -> Entry<FilterParser, Level> {
    Entry {
        name,
        status: Status::Planned,
        facts: level,
    }
}
