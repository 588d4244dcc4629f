//! The document that an upsert inserts: the filter's equalities, then the update applied to them, with `_id` first.

use crate::error::{Code, Error, Result};
use crate::value::{Doc, DocBuilder, MAX_DOCUMENT, TS_FIELD, Type, Value, ValueRef};

use super::check;
use super::parse::{UpdateKind, document_of};
use super::{Apply, Update};

// === impl Update ===

impl Update {
    /// Builds the document. `equalities` come from the filter. `new_id` generates an `_id` if neither filter nor update
    /// has one.
    pub fn upsert(
        &self,
        equalities: &[(&str, &Value)],
        apply: &Apply<'_>,
        new_id: impl FnOnce() -> Value,
    ) -> Result<Vec<u8>> {
        let apply = Apply {
            inserting: true,
            position: None,
            ..*apply
        };
        let mut taken: Vec<(&str, &Value)> = Vec::new();
        for &(path, value) in equalities {
            let first = path.split('.').next().unwrap_or_default();
            if first == TS_FIELD {
                continue;
            }
            taken.push((path, value));
        }
        // mongod applies the equalities in path order.
        taken.sort_by_key(|(path, _)| *path);
        let mut base = Vec::new();
        document_of(&taken, &apply, &mut base)?;
        let updated = self
            .apply(Doc::new(&base), &apply)
            .map_err(|error| match error.code() {
                Code::Location(check::TOO_LARGE) => too_large(),
                _ => error,
            })?
            .unwrap_or(base);
        let updated = Doc::new(&updated);
        if updated.get("_id").ty() == Type::Array {
            self.check_array_id(updated.get("_id"))?;
        }
        let bytes = with_id_first(updated, new_id);
        check::check_stored(Doc::new(&bytes))?;
        if bytes.len() > MAX_DOCUMENT {
            return Err(too_large());
        }
        Ok(bytes)
    }

    /// Refuses an array as the `_id` of a new document, in the words of the part of MongoDB that finds it. What is left is
    /// refused with the other values that no `_id` can have.
    fn check_array_id(&self, id: ValueRef<'_>) -> Result<()> {
        let which = match &self.0 {
            UpdateKind::Operators(operators) => {
                let built = operators.builds_an_array("_id") && id.as_array() != Some(Doc::EMPTY);
                if !built {
                    return Ok(());
                }
                "field"
            }
            UpdateKind::Replacement(_) | UpdateKind::Pipeline(_) => "(immutable) field",
        };
        Err(Error::new(
            Code::NotSingleValueField,
            format!(
                "After applying the update to the document, the {which} '_id' was found to be an array or array descendant."
            ),
        ))
    }
}

fn with_id_first(doc: Doc<'_>, new_id: impl FnOnce() -> Value) -> Vec<u8> {
    if doc.first().is_some_and(|elem| elem.name_bytes() == b"_id") {
        return doc.bytes().to_vec();
    }
    let id = doc.get("_id");
    let mut bytes = Vec::with_capacity(doc.bytes().len() + 32);
    let mut out = DocBuilder::begin(&mut bytes);
    if id.is_missing() {
        out.put("_id", new_id().as_ref());
    } else {
        out.put("_id", id);
    }
    for elem in doc.iter().filter(|elem| elem.name_bytes() != b"_id") {
        out.put(elem.name(), elem.value);
    }
    out.end();
    bytes
}

fn too_large() -> Error {
    Error::location(
        17420,
        format!("Document to upsert is larger than {MAX_DOCUMENT}"),
    )
}
