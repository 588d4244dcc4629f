//! `$jsonSchema`: draft 4 as far as MongoDB goes, with `bsonType`.
//!
//! A keyword restrains only values of its own type: `minLength` says nothing about a number.

mod check;
mod parse;

use std::collections::HashSet;

use super::{Comparison, Pattern, TypeSet};
use crate::value::Decimal;

/// One schema: what a value must satisfy.
#[derive(Debug, Default)]
pub struct Schema {
    types: Option<TypeSet>,
    // Numbers.
    maximum: Option<Comparison>,
    minimum: Option<Comparison>,
    multiple_of: Option<Decimal>,
    // Strings.
    max_length: Option<i64>,
    min_length: Option<i64>,
    pattern: Option<Pattern>,
    // Arrays.
    min_items: Option<i64>,
    max_items: Option<i64>,
    unique_items: bool,
    items: Option<Items>,
    additional_items: Option<Additional>,
    // Documents.
    required: Vec<Box<str>>,
    /// Sorted by name.
    properties: Vec<(Box<str>, Schema)>,
    pattern_properties: Vec<(Pattern, Schema)>,
    additional_properties: Option<Additional>,
    min_properties: Option<i64>,
    max_properties: Option<i64>,
    dependencies: Vec<(Box<str>, Dependency)>,
    // Logic.
    all_of: Vec<Schema>,
    any_of: Vec<Schema>,
    one_of: Vec<Schema>,
    not: Option<Box<Schema>>,
    /// `enum`, in canonical bytes.
    values: Option<HashSet<Vec<u8>>>,
}

#[derive(Debug)]
enum Items {
    Every(Box<Schema>),
    ByIndex(Vec<Schema>),
}

/// What is not named elsewhere: allowed or not, or allowed if it satisfies a schema.
#[derive(Debug)]
enum Additional {
    Allowed(bool),
    Schema(Box<Schema>),
}

/// What must hold when a property is present.
#[derive(Debug)]
enum Dependency {
    Present(Vec<Box<str>>),
    Schema(Box<Schema>),
}
