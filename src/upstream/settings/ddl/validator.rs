//! Validators that must not mind the two fields that Sundown adds to documents.
//!
//! A schema of the whole document that forbids unknown fields gets the two fields among its `properties`, and its limits on
//! the number of fields are raised by two. Every write that is validated carries both fields, so this is exact. When the
//! validator is shown, the additions are taken away again.

use bson::{Bson, Document, doc};

use crate::error::{Error, Result};
use crate::ttl::TS_FIELD;
use crate::upstream::HIDDEN_FIELD;

const FIELDS: [&str; 2] = [HIDDEN_FIELD, TS_FIELD];
const LIMITS: [&str; 2] = ["maxProperties", "minProperties"];
/// Parts that are about the same document as the whole.
const PARTS: [&str; 6] = ["$and", "$or", "$nor", "allOf", "anyOf", "oneOf"];

/// Returns the validator that also accepts Sundown's fields.
pub fn widen(validator: &Document) -> Result<Document> {
    if names_root(&Bson::Document(validator.clone())) {
        return Err(Error::bad_value(
            "a validator of a collection with a default TTL cannot use $$ROOT, because it would see Sundown's own fields",
        ));
    }
    Ok(change(validator, true))
}

/// Returns the validator as the client gave it.
pub fn narrow(validator: &Document) -> Document {
    change(validator, false)
}

fn names_root(value: &Bson) -> bool {
    match value {
        Bson::String(text) => text == "$$ROOT" || text.starts_with("$$ROOT."),
        Bson::Array(values) => values.iter().any(names_root),
        Bson::Document(document) => document.values().any(names_root),
        _ => false,
    }
}

fn change(document: &Document, add: bool) -> Document {
    let mut out = Document::new();
    let has_fields = document.get_document("properties");
    let has_fields = has_fields.is_ok_and(|known| known.contains_key(HIDDEN_FIELD));
    let is_strict = document.contains_key("additionalProperties");
    for (name, value) in document {
        let value = match (name.as_str(), value) {
            ("$jsonSchema" | "not", Bson::Document(part)) => Bson::Document(change(part, add)),
            (name, Bson::Array(parts)) if PARTS.contains(&name) => {
                Bson::Array(parts.iter().map(|part| change_part(part, add)).collect())
            }
            (name, limit) if LIMITS.contains(&name) => changed_limit(limit, add),
            ("properties", Bson::Document(known)) if has_fields != add && is_strict => {
                Bson::Document(change_fields(known, add))
            }
            (_, other) => other.clone(),
        };
        // Without properties of its own, the additions were all of them.
        let is_empty = value.as_document().is_some_and(Document::is_empty);
        if !(name == "properties" && !add && has_fields && is_empty) {
            out.insert(name.clone(), value);
        }
    }
    if add && is_strict && !document.contains_key("properties") {
        out.insert("properties", change_fields(&Document::new(), true));
    }
    out
}

fn change_part(part: &Bson, add: bool) -> Bson {
    match part {
        Bson::Document(part) => Bson::Document(change(part, add)),
        other => other.clone(),
    }
}

fn change_fields(known: &Document, add: bool) -> Document {
    let mut fields = known.clone();
    for field in FIELDS {
        match add {
            true => drop(fields.insert(field, doc! {})),
            false => drop(fields.remove(field)),
        }
    }
    fields
}

fn changed_limit(limit: &Bson, add: bool) -> Bson {
    let by = if add { 2 } else { -2 };
    match limit {
        Bson::Int32(n) => Bson::Int32(n.saturating_add(by)),
        Bson::Int64(n) => Bson::Int64(n.saturating_add(by.into())),
        Bson::Double(n) => Bson::Double(n + f64::from(by)),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_taken_away_again() {
        let nested = doc! {"a": {"additionalProperties": false, "maxProperties": 1}};
        let rows = [
            (doc! {"a": {"$gt": 1}}, doc! {"a": {"$gt": 1}}),
            (
                doc! {"$jsonSchema": {"maxProperties": 3, "properties": nested.clone()}},
                doc! {"$jsonSchema": {"maxProperties": 5, "properties": nested.clone()}},
            ),
            (
                doc! {"$jsonSchema": {"additionalProperties": false}},
                doc! {"$jsonSchema": {"additionalProperties": false, "properties": {"_sundown": {}, "_ts": {}}}},
            ),
            (
                doc! {"$and": [{"$jsonSchema": {"allOf": [{"properties": {"a": {}}, "additionalProperties": false}]}}]},
                doc! {"$and": [{"$jsonSchema": {"allOf": [
                    {"properties": {"a": {}, "_sundown": {}, "_ts": {}}, "additionalProperties": false},
                ]}}]},
            ),
        ];
        for (given, wide) in rows {
            assert_eq!(widen(&given).unwrap(), wide);
            assert_eq!(narrow(&wide), given);
        }
        let root = doc! {"$expr": {"$eq": [{"$size": {"$objectToArray": "$$ROOT"}}, 3]}};
        assert_eq!(widen(&root).unwrap_err().code().number(), 2);
    }
}
