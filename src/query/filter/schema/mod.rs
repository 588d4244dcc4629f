//! `$jsonSchema`: JSON Schema draft 4 as far as MongoDB supports it, with `bsonType`.
//!
//! `parse.rs` turns the schema document into a [`Schema`], and `check.rs` tests values with it. A keyword only restricts values
//! of its own type: `minLength` accepts every number.

mod check;
mod parse;

use std::collections::HashSet;

use super::{Comparison, TypeSet};
use crate::query::{Survey, pattern::Pattern};
use crate::value::Decimal;

/// A parsed schema that values must satisfy.
#[derive(Debug, Default)]
pub struct Schema {
    /// It describes the whole document, not a value inside.
    of_root: bool,
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
    /// `enum`, as canonical bytes.
    values: Option<HashSet<Vec<u8>>>,
}

#[derive(Debug)]
enum Items {
    Every(Box<Schema>),
    ByIndex(Vec<Schema>),
}

/// The rule for properties or items that no other keyword names: allowed, not allowed, or allowed if they satisfy a schema.
#[derive(Debug)]
enum Additional {
    Allowed(bool),
    Schema(Box<Schema>),
}

/// The condition that applies when a property is present.
#[derive(Debug)]
enum Dependency {
    Present(Vec<Box<str>>),
    Schema(Box<Schema>),
}

// === impl Schema ===

impl Schema {
    /// Reports the fields that the schema names. A pattern is not a name: a schema that allows `^n_` and nothing else names no
    /// further field.
    pub(super) fn survey(&self, survey: &mut Survey<'_>, at_root: bool) {
        for name in &self.required {
            survey.name(name, at_root);
        }
        for (name, schema) in &self.properties {
            survey.name(name, at_root);
            schema.survey(survey, false);
        }
        for (name, dependency) in &self.dependencies {
            survey.name(name, at_root);
            match dependency {
                Dependency::Present(names) => {
                    names.iter().for_each(|name| survey.name(name, at_root));
                }
                Dependency::Schema(schema) => schema.survey(survey, at_root),
            }
        }
        let same = self.all_of.iter().chain(&self.any_of).chain(&self.one_of);
        for schema in same.chain(self.not.as_deref()) {
            schema.survey(survey, at_root);
        }
        let patterns = self.pattern_properties.iter().map(|(_, schema)| schema);
        let items: &[Schema] = match &self.items {
            None => &[],
            Some(Items::Every(schema)) => std::slice::from_ref(schema),
            Some(Items::ByIndex(schemas)) => schemas,
        };
        let others = [&self.additional_items, &self.additional_properties];
        let others = others
            .into_iter()
            .flatten()
            .filter_map(|other| match other {
                Additional::Allowed(_) => None,
                Additional::Schema(schema) => Some(&**schema),
            });
        for schema in patterns.chain(items).chain(others) {
            schema.survey(survey, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::query::filter::check;
    use bson::doc;

    #[test]
    fn schemas() {
        check::passes(&[
            (
                doc! {"$jsonSchema": {"required": ["a"], "properties": {"a": {"bsonType": "int", "minimum": 3}}}},
                vec![doc! {"a": 3}],
                vec![doc! {}, doc! {"a": 2}, doc! {"a": 3.0}, doc! {"a": [3]}],
            ),
            (
                doc! {"$jsonSchema": {"properties": {"a": {"minLength": 2, "pattern": "^x"}}}},
                vec![doc! {}, doc! {"a": 1}, doc! {"a": "xé"}],
                vec![doc! {"a": "x"}, doc! {"a": "yy"}],
            ),
            (
                doc! {"$jsonSchema": {"properties": {"_id": {}, "a": {}}, "patternProperties": {"^n_": {"type": "number"}}, "additionalProperties": false}},
                vec![doc! {"a": 1}, doc! {"n_x": 1}],
                vec![doc! {"b": 1}, doc! {"n_x": "s"}],
            ),
            (
                doc! {"$jsonSchema": {"properties": {"a": {"items": [{"type": "string"}], "additionalItems": {"type": "number"}, "uniqueItems": true}}}},
                vec![doc! {"a": ["x", 1, 2]}, doc! {"a": "z"}],
                vec![doc! {"a": ["x", "y"]}, doc! {"a": ["x", 1, 1.0]}],
            ),
            (
                doc! {"$jsonSchema": {"dependencies": {"a": ["b"]}, "oneOf": [{"required": ["a"]}, {"required": ["c"]}]}},
                vec![doc! {"a": 1, "b": 1}, doc! {"c": 1}],
                vec![doc! {"a": 1}, doc! {"a": 1, "b": 1, "c": 1}, doc! {}],
            ),
            (
                doc! {"$jsonSchema": {"properties": {"a": {"enum": [1, {"x": 1, "y": 2}]}}}},
                vec![doc! {"a": 1}, doc! {"a": {"y": 2, "x": 1}}],
                vec![doc! {"a": 2}],
            ),
            (
                doc! {"$jsonSchema": {"properties": {"a": {"multipleOf": 0.5}}}},
                vec![doc! {"a": 1.5}],
                vec![doc! {"a": 1.2}],
            ),
        ]);
        check::refused(&[
            (doc! {"$jsonSchema": 1}, 14, "$jsonSchema must be an object"),
            (
                doc! {"$jsonSchema": {"x": 1}},
                9,
                "Unknown $jsonSchema keyword: x",
            ),
            (
                doc! {"$jsonSchema": {"format": 1}},
                9,
                "$jsonSchema keyword 'format' is not currently supported",
            ),
            (
                doc! {"$jsonSchema": {"type": "integer"}},
                9,
                "$jsonSchema type 'integer' is not currently supported.",
            ),
        ]);
    }
}
