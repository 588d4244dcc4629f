//! Parses a schema document into a [`Schema`], with mongod's errors.

use std::collections::HashSet;

use super::{Additional, Dependency, Items, Schema};
use crate::{
    error::{Code, Error, Result},
    query::{
        filter::{CompareOp, Comparison, TypeSet, integer},
        pattern::Pattern,
    },
    value::{Doc, Type, ValueRef},
};

/// The name of a keyword, and the function that stores its value in the schema.
type Keyword = (
    &'static str,
    fn(&mut Schema, &'static str, ValueRef<'_>, Doc<'_>) -> Result<()>,
);

/// Every keyword, sorted by name. Names in [`UNSUPPORTED`] have their own error.
static KEYWORDS: &[Keyword] = &[
    ("additionalItems", |s, key, v, _| {
        s.additional_items = Some(additional(v).unwrap_or_else(|| {
            Err(Error::type_mismatch(format!(
                "$jsonSchema keyword '{key}' must be either an object or a boolean, but got a {}",
                v.ty().alias()
            )))
        })?);
        Ok(())
    }),
    ("additionalProperties", |s, key, v, _| {
        s.additional_properties = Some(additional(v).unwrap_or_else(|| {
            Err(Error::type_mismatch(format!(
                "$jsonSchema keyword '{key}' must be an object or a boolean"
            )))
        })?);
        Ok(())
    }),
    ("allOf", |s, key, v, _| {
        s.all_of = schemas(key, v, s.of_root)?;
        Ok(())
    }),
    ("anyOf", |s, key, v, _| {
        s.any_of = schemas(key, v, s.of_root)?;
        Ok(())
    }),
    ("bsonType", |s, key, v, schema| {
        if schema.has("type") {
            return Err(Error::failed_to_parse(
                "Cannot specify both $jsonSchema keywords 'type' and 'bsonType'",
            ));
        }
        s.types = Some(types(key, v, Type::from_alias)?);
        Ok(())
    }),
    ("dependencies", |s, key, v, _| {
        s.dependencies = dependencies(key, v, s.of_root)?;
        Ok(())
    }),
    ("description", |_, key, v, _| text(key, v).map(drop)),
    ("encrypt", |_, key, _, _| {
        Err(Error::not_implemented(format_args!(
            "$jsonSchema keyword '{key}'"
        )))
    }),
    ("encryptMetadata", |_, key, _, _| {
        Err(Error::not_implemented(format_args!(
            "$jsonSchema keyword '{key}'"
        )))
    }),
    ("enum", |s, key, v, _| {
        s.values = Some(values(key, v)?);
        Ok(())
    }),
    ("exclusiveMaximum", |_, key, v, schema| {
        exclusive(key, v, schema, "maximum")
    }),
    ("exclusiveMinimum", |_, key, v, schema| {
        exclusive(key, v, schema, "minimum")
    }),
    ("items", |s, key, v, _| {
        s.items = Some(items(key, v)?);
        Ok(())
    }),
    ("maxItems", |s, key, v, _| {
        s.max_items = Some(integer::non_negative_long(key, v)?);
        Ok(())
    }),
    ("maxLength", |s, key, v, _| {
        s.max_length = Some(integer::non_negative_long(key, v)?);
        Ok(())
    }),
    ("maxProperties", |s, key, v, _| {
        s.max_properties = Some(integer::non_negative_long(key, v)?);
        Ok(())
    }),
    ("maximum", |s, key, v, schema| {
        let strict = schema.get("exclusiveMaximum").as_bool() == Some(true);
        s.maximum = Some(bound(
            key,
            v,
            if strict {
                CompareOp::Lt
            } else {
                CompareOp::Lte
            },
        )?);
        Ok(())
    }),
    ("minItems", |s, key, v, _| {
        s.min_items = Some(integer::non_negative_long(key, v)?);
        Ok(())
    }),
    ("minLength", |s, key, v, _| {
        s.min_length = Some(integer::non_negative_long(key, v)?);
        Ok(())
    }),
    ("minProperties", |s, key, v, _| {
        s.min_properties = Some(integer::non_negative_long(key, v)?);
        Ok(())
    }),
    ("minimum", |s, key, v, schema| {
        let strict = schema.get("exclusiveMinimum").as_bool() == Some(true);
        s.minimum = Some(bound(
            key,
            v,
            if strict {
                CompareOp::Gt
            } else {
                CompareOp::Gte
            },
        )?);
        Ok(())
    }),
    ("multipleOf", |s, key, v, _| {
        let divisor = number(key, v)?.to_decimal();
        if divisor.is_negative() || divisor.is_zero() {
            return Err(Error::failed_to_parse(format!(
                "$jsonSchema keyword '{key}' must have a positive value"
            )));
        }
        if s.of_root {
            return Ok(());
        }
        if divisor.is_nan() {
            return Err(Error::bad_value("divisor cannot be NaN"));
        }
        if divisor.is_infinite() {
            return Err(Error::bad_value("divisor cannot be infinite"));
        }
        s.multiple_of = Some(divisor);
        Ok(())
    }),
    ("not", |s, key, v, _| {
        let doc = v.as_doc().ok_or_else(|| {
            Error::type_mismatch(format!(
                "$jsonSchema keyword '{key}' must be an object, but found an element of type {}",
                v.ty().alias()
            ))
        })?;
        s.not = Some(Box::new(Schema::of(doc, s.of_root)?));
        Ok(())
    }),
    ("oneOf", |s, key, v, _| {
        s.one_of = schemas(key, v, s.of_root)?;
        Ok(())
    }),
    ("pattern", |s, key, v, _| {
        let source = v.as_str().ok_or_else(|| must_be(key, "a string"))?;
        // The root is no string, so nobody reads its pattern.
        if !s.of_root {
            s.pattern = Some(Pattern::new(source, "")?);
        }
        Ok(())
    }),
    ("patternProperties", |s, key, v, _| {
        for elem in v.as_doc().ok_or_else(|| must_be(key, "an object"))? {
            let name = elem.name();
            let doc = elem.value.as_doc().ok_or_else(|| {
                Error::type_mismatch(format!(
                    "$jsonSchema keyword '{key}' has property '{name}' which is not an object"
                ))
            })?;
            let schema = Schema::of(doc, false)?;
            let pattern = Pattern::new(name, "").map_err(|error| {
                Error::bad_value(format!(
                    "Invalid regular expression in '{key}': {}",
                    error.message()
                ))
            })?;
            s.pattern_properties.push((pattern, schema));
        }
        Ok(())
    }),
    ("properties", |s, key, v, _| {
        for elem in v.as_doc().ok_or_else(|| must_be(key, "an object"))? {
            let name = elem.name();
            let doc = elem.value.as_doc().ok_or_else(|| {
                Error::type_mismatch(format!(
                    "Nested schema for $jsonSchema property '{name}' must be an object"
                ))
            })?;
            s.properties.push((name.into(), Schema::of(doc, false)?));
        }
        s.properties.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(())
    }),
    ("required", |s, key, v, _| {
        s.required = required(key, v)?;
        Ok(())
    }),
    ("title", |_, key, v, _| text(key, v).map(drop)),
    ("type", |s, key, v, _| {
        s.types = Some(types(key, v, json_type)?);
        Ok(())
    }),
    ("uniqueItems", |s, key, v, _| {
        s.unique_items = v.as_bool().ok_or_else(|| must_be(key, "a boolean"))?;
        Ok(())
    }),
];

/// The order in which MongoDB reads the keywords, behind all their names.
const ORDER: &[&str] = &[
    "description",
    "title",
    "type",
    "bsonType",
    "pattern",
    "maxLength",
    "minLength",
    "multipleOf",
    "exclusiveMaximum",
    "maximum",
    "exclusiveMinimum",
    "minimum",
    "minItems",
    "maxItems",
    "uniqueItems",
    "items",
    "additionalItems",
    "encrypt",
    "encryptMetadata",
    "required",
    "properties",
    "patternProperties",
    "additionalProperties",
    "minProperties",
    "maxProperties",
    "dependencies",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "enum",
];

/// Keywords of draft 4 that MongoDB does not support.
const UNSUPPORTED: &[&str] = &["$ref", "$schema", "default", "definitions", "format", "id"];

// === impl Schema ===

impl Schema {
    /// Parses the schema of a whole document.
    pub(in crate::query::filter) fn parse(doc: Doc<'_>) -> Result<Self> {
        Self::of(doc, true)
    }

    fn of(doc: Doc<'_>, of_root: bool) -> Result<Self> {
        let mut schema = Self {
            of_root,
            ..Self::default()
        };
        let mut given: Vec<(usize, &Keyword, ValueRef<'_>)> = Vec::new();
        for elem in doc {
            let name = elem.name();
            let Ok(at) = KEYWORDS.binary_search_by(|(key, _)| (*key).cmp(name)) else {
                return Err(Error::failed_to_parse(if UNSUPPORTED.contains(&name) {
                    format!("$jsonSchema keyword '{name}' is not currently supported")
                } else {
                    format!("Unknown $jsonSchema keyword: {name}")
                }));
            };
            if given.iter().any(|(_, (key, _), _)| *key == name) {
                return Err(Error::failed_to_parse(format!(
                    "Duplicate $jsonSchema keyword: {name}"
                )));
            }
            let order = ORDER.iter().position(|key| *key == name);
            given.push((order.unwrap_or(ORDER.len()), &KEYWORDS[at], elem.value));
        }
        given.sort_by_key(|(order, ..)| *order);
        for (_, (key, set), value) in given {
            set(&mut schema, key, value, doc)?;
        }
        Ok(schema)
    }
}

fn must_be(key: &str, what: &str) -> Error {
    Error::type_mismatch(format!("$jsonSchema keyword '{key}' must be {what}"))
}

fn text<'a>(key: &str, value: ValueRef<'a>) -> Result<&'a str> {
    value.as_str().ok_or_else(|| must_be(key, "of type string"))
}

fn number(key: &str, value: ValueRef<'_>) -> Result<crate::value::Num> {
    value.as_num().ok_or_else(|| must_be(key, "a number"))
}

fn bound(key: &str, value: ValueRef<'_>, op: CompareOp) -> Result<Comparison> {
    number(key, value)?;
    Ok(Comparison::new(op, value))
}

fn exclusive(key: &str, value: ValueRef<'_>, schema: Doc<'_>, bound: &str) -> Result<()> {
    if !schema.has(bound) {
        return Err(Error::failed_to_parse(format!(
            "$jsonSchema keyword '{bound}' must be a present if {key} is present"
        )));
    }
    value
        .as_bool()
        .map(drop)
        .ok_or_else(|| must_be(key, "a boolean"))
}

fn additional(value: ValueRef<'_>) -> Option<Result<Additional>> {
    if let Some(allowed) = value.as_bool() {
        return Some(Ok(Additional::Allowed(allowed)));
    }
    let doc = value.as_doc()?;
    Some(Schema::of(doc, false).map(|schema| Additional::Schema(Box::new(schema))))
}

fn schemas(key: &str, value: ValueRef<'_>, of_root: bool) -> Result<Vec<Schema>> {
    let array = value.as_array().ok_or_else(|| must_be(key, "an array"))?;
    if array.is_empty() {
        return Err(Error::bad_value(format!(
            "$jsonSchema keyword '{key}' must be a non-empty array"
        )));
    }
    array
        .iter()
        .map(|elem| match elem.value.as_doc() {
            Some(doc) => Schema::of(doc, of_root),
            None => Err(must_be(
                key,
                &format!(
                    "an array of objects, but found an element of type {}",
                    elem.value.ty().alias()
                ),
            )),
        })
        .collect()
}

fn items(key: &str, value: ValueRef<'_>) -> Result<Items> {
    if let Some(doc) = value.as_doc() {
        return Ok(Items::Every(Box::new(Schema::of(doc, false)?)));
    }
    let Some(array) = value.as_array() else {
        return Err(must_be(
            key,
            &format!("an array or an object, not {}", value.ty().alias()),
        ));
    };
    array
        .iter()
        .map(|elem| match elem.value.as_doc() {
            Some(doc) => Schema::of(doc, false),
            None => Err(Error::type_mismatch(format!(
                "$jsonSchema keyword '{key}' requires that each element of the array is an object, but found a {}",
                elem.value.ty().alias()
            ))),
        })
        .collect::<Result<_>>()
        .map(Items::ByIndex)
}

fn required(key: &str, value: ValueRef<'_>) -> Result<Vec<Box<str>>> {
    let found = |ty: Type| format!("found an element of type {}", ty.alias());
    let array = value
        .as_array()
        .ok_or_else(|| must_be(key, &format!("an array, but {}", found(value.ty()))))?;
    let mut names: Vec<Box<str>> = Vec::new();
    for elem in array {
        let name = elem.value.as_str().ok_or_else(|| {
            let ty = elem.value.ty().alias();
            must_be(
                key,
                &format!("an array of strings, but found an element of type: {ty}"),
            )
        })?;
        names.push(name.into());
    }
    if names.is_empty() {
        return Err(Error::failed_to_parse(format!(
            "$jsonSchema keyword '{key}' cannot be an empty array"
        )));
    }
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Error::failed_to_parse(format!(
            "$jsonSchema keyword '{key}' array cannot contain duplicate values"
        )));
    }
    if names.iter().any(|name| name.contains('\0')) {
        return Err(Error::location(
            9867600,
            "Field name can't contain null bytes",
        ));
    }
    Ok(names)
}

fn values(key: &str, value: ValueRef<'_>) -> Result<HashSet<Vec<u8>>> {
    let array = value.as_array().ok_or_else(|| {
        must_be(
            key,
            &format!(
                "an array, but found an element of type {}",
                value.ty().alias()
            ),
        )
    })?;
    if array.is_empty() {
        return Err(Error::failed_to_parse(format!(
            "$jsonSchema keyword '{key}' cannot be an empty array"
        )));
    }
    let mut values = HashSet::new();
    for elem in array {
        if !values.insert(super::check::canonical(elem.value)) {
            return Err(Error::failed_to_parse(format!(
                "$jsonSchema keyword '{key}' array cannot contain duplicate values."
            )));
        }
    }
    Ok(values)
}

fn dependencies(
    key: &str,
    value: ValueRef<'_>,
    of_root: bool,
) -> Result<Vec<(Box<str>, Dependency)>> {
    let doc = value.as_doc().ok_or_else(|| must_be(key, "an object"))?;
    doc.iter()
        .map(|elem| {
            let name = elem.name();
            let dependency = if let Some(doc) = elem.value.as_doc() {
                Dependency::Schema(Box::new(Schema::of(doc, of_root)?))
            } else if let Some(array) = elem.value.as_array() {
                Dependency::Present(present(key, name, array)?)
            } else {
                return Err(Error::type_mismatch(format!(
                    "property '{name}' in $jsonSchema keyword '{key}' must be either an object or an array"
                )));
            };
            Ok((name.into(), dependency))
        })
        .collect()
}

fn present(key: &str, property: &str, array: Doc<'_>) -> Result<Vec<Box<str>>> {
    if array.is_empty() {
        return Err(Error::failed_to_parse(format!(
            "property '{property}' in $jsonSchema keyword '{key}' cannot be an empty array"
        )));
    }
    let mut names: Vec<Box<str>> = Vec::new();
    let mut seen = HashSet::new();
    for elem in array {
        let name = elem.value.as_str().ok_or_else(|| {
            Error::type_mismatch(format!(
                "array '{property}' in $jsonSchema keyword '{key}' can only contain strings, but found element of type: {}",
                elem.value.ty().alias()
            ))
        })?;
        if !seen.insert(name) {
            return Err(Error::new(
                Code::FailedToParse,
                format!(
                    "array '{property}' in $jsonSchema keyword '{key}' contains duplicate element: {name}"
                ),
            ));
        }
        names.push(name.into());
    }
    Ok(names)
}

fn types(
    key: &str,
    value: ValueRef<'_>,
    vocabulary: impl Fn(&str) -> Option<Type> + Copy,
) -> Result<TypeSet> {
    let mut set = TypeSet::default();
    let mut add = |alias: &str| {
        if alias == "integer" {
            return Err(Error::failed_to_parse(
                "$jsonSchema type 'integer' is not currently supported.",
            ));
        }
        set.add_alias(alias, vocabulary)
    };
    if let Some(alias) = value.as_str() {
        add(alias)?;
    } else if let Some(array) = value.as_array() {
        let mut seen = Vec::new();
        for elem in array {
            let alias = elem.value.as_str().ok_or_else(|| {
                Error::type_mismatch(format!(
                    "$jsonSchema keyword '{key}' array elements must be strings"
                ))
            })?;
            if seen.contains(&alias) {
                return Err(Error::failed_to_parse(format!(
                    "$jsonSchema keyword '{key}' has duplicate value: {alias}"
                )));
            }
            seen.push(alias);
            add(alias)?;
        }
    } else {
        return Err(must_be(key, "either a string or an array of strings"));
    }
    if set.is_empty() {
        return Err(Error::failed_to_parse(format!(
            "$jsonSchema keyword '{key}' must name at least one type"
        )));
    }
    Ok(set)
}

/// Returns the type that draft 4 calls by this name.
fn json_type(alias: &str) -> Option<Type> {
    Some(match alias {
        "array" => Type::Array,
        "boolean" => Type::Bool,
        "null" => Type::Null,
        "object" => Type::Document,
        "string" => Type::String,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_sorted() {
        assert!(KEYWORDS.is_sorted_by(|a, b| a.0 < b.0));
    }
}
