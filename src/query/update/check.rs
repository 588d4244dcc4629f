//! Rules that a document must satisfy before it is stored, and how messages name elements.

use crate::error::{Code, Error, Result};
use crate::value::{Doc, MAX_DOCUMENT, Type, ValueRef};

/// The maximum nesting depth of a stored document.
pub const MAX_DEPTH: usize = 180;

/// The code of an update that makes a document too large.
pub const TOO_LARGE: i32 = 17419;

/// Formats an element as mongod prints it: `name: value`.
pub fn element(name: &str, value: ValueRef<'_>) -> String {
    format!("{name}: {value}")
}

/// Returns the number of levels of a value: 0 for a scalar, 1 for a flat document.
pub fn depth(value: ValueRef<'_>) -> usize {
    match value.ty() {
        Type::Document | Type::Array => doc_depth(Doc::new(value.data())),
        _ => 0,
    }
}

fn doc_depth(doc: Doc<'_>) -> usize {
    // Validated bytes nest at most 200 deep, which bounds this recursion.
    1 + doc.iter().map(|elem| depth(elem.value)).max().unwrap_or(0)
}

/// Rejects a document that an update has made too large to store.
#[inline]
pub fn check_size(size: usize) -> Result<()> {
    if size > MAX_DOCUMENT {
        return Err(Error::location(
            TOO_LARGE,
            format!("Resulting document after update is larger than {MAX_DOCUMENT}"),
        ));
    }
    Ok(())
}

pub fn check_depth(doc: Doc<'_>) -> Result<()> {
    if doc_depth(doc) > MAX_DEPTH {
        return Err(too_deep());
    }
    Ok(())
}

pub fn too_deep() -> Error {
    Error::new(
        Code::Overflow,
        format!("Document exceeds maximum nesting depth of {MAX_DEPTH}"),
    )
}

/// Rejects an `_id` of a forbidden type, or one with `$` names inside.
pub fn check_id(id: ValueRef<'_>) -> Result<()> {
    match id.ty() {
        Type::Array | Type::Regex | Type::Undefined => Err(Error::new(
            Code::InvalidIdField,
            format!("The '_id' value cannot be of type {}", id.ty().alias()),
        )),
        Type::Document => check_id_names(Doc::new(id.data())),
        _ => Ok(()),
    }
}

/// Checks that no name inside an `_id` begins with `$`, however deep. The depth of documents is limited.
fn check_id_names(doc: Doc<'_>) -> Result<()> {
    let may_begin_with_dollar = is_reference(doc);
    for elem in doc {
        if elem.name_bytes().starts_with(b"$") && !may_begin_with_dollar {
            return Err(Error::new(
                Code::DollarPrefixedFieldName,
                format!(
                    "_id fields may not contain '$'-prefixed fields: {} is not valid for storage.",
                    elem.name()
                ),
            ));
        }
        if matches!(elem.value.ty(), Type::Document | Type::Array) {
            check_id_names(Doc::new(elem.value.data()))?;
        }
    }
    Ok(())
}

/// Returns whether the document is a `{$ref, $id}`, the one use of `$` names that was always allowed in storage.
fn is_reference(doc: Doc<'_>) -> bool {
    let mut names = doc.iter().map(|elem| elem.name());
    names.next() == Some("$ref") && names.next() == Some("$id")
}

/// Checks the `_id` and the depth of a document that is about to be inserted. The caller checks the size, because its
/// error code differs.
pub fn check_stored(doc: Doc<'_>) -> Result<()> {
    let id = doc.get("_id");
    if !id.is_missing() {
        check_id(id)?;
    }
    check_depth(doc)
}

/// Rejects a `$` name at the root of a document that an operator or a replacement has produced, except for a valid DBRef.
pub fn check_root_name(doc: Doc<'_>, name: &str) -> Result<()> {
    if !name.starts_with('$') {
        return Ok(());
    }
    let dbref = |message: String| Err(Error::new(Code::InvalidDBRef, message));
    let names: Vec<&str> = doc.iter().map(|elem| elem.name()).collect();
    let at = names.iter().position(|known| *known == name);
    let before = |at: usize| at.checked_sub(1).and_then(|at| names.get(at)).copied();
    let string = |name: &str| doc.get(name).ty() == Type::String;
    let mut at = at.unwrap_or(0);
    let mut current = name;
    if current == "$db" {
        if !string("$db") {
            return dbref(format!(
                "The DBRef $db field must be a String, not a {}",
                doc.get("$db").ty().alias()
            ));
        }
        if before(at) != Some("$id") {
            return dbref("Found $db field without a $id before it, which is invalid.".to_owned());
        }
        (at, current) = (at - 1, "$id");
    }
    if current == "$id" {
        if before(at) != Some("$ref") {
            return dbref("Found $id field without a $ref before it, which is invalid.".to_owned());
        }
        (at, current) = (at - 1, "$ref");
    }
    if current == "$ref" {
        if !string("$ref") {
            return dbref(format!(
                "The DBRef $ref field must be a String, not a {}",
                doc.get("$ref").ty().alias()
            ));
        }
        if names.get(at + 1) != Some(&"$id") {
            return dbref("The DBRef $ref field must be followed by a $id field".to_owned());
        }
        return Ok(());
    }
    Err(Error::new(
        Code::DollarPrefixedFieldName,
        format!(
            "The dollar ($) prefixed field '{name}' in '{name}' is not allowed in the context of an update's replacement document. Consider using an aggregation pipeline with $replaceWith."
        ),
    ))
}
