//! Replacement: a whole new document under the old `_id`.

use crate::error::{Code, Error, Result};
use crate::value::{Doc, DocBuf, DocBuilder, Type, ValueRef, equal};

use super::Apply;
use super::check::{self, element};
use super::current_date::timestamp;

pub struct Replacement {
    /// As it came, without `_ts`, which is the server's.
    document: DocBuf,
    /// Some field at the root is a timestamp of zeros, which means "now".
    stamps: bool,
}

// === impl Replacement ===

impl Replacement {
    pub fn parse(doc: Doc<'_>) -> Self {
        Self {
            stamps: doc.iter().any(|elem| is_zero_timestamp(elem.value)),
            document: DocBuf::from_bytes(without_ts(doc)),
        }
    }

    pub fn apply(&self, old: Doc<'_>, apply: &Apply<'_>, out: &mut Vec<u8>) -> Result<bool> {
        let new = self.document.as_doc();
        if old == new {
            return Ok(false);
        }
        replace(old, new, apply, out, Names::Checked, self.stamps)?;
        Ok(true)
    }
}

/// Whether `$` names at the root are allowed, as they are in what a pipeline computes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Names {
    Checked,
    Free,
}

/// Writes `new` with its `_id`, or else the old one, in front.
pub fn replace(
    old: Doc<'_>,
    new: Doc<'_>,
    apply: &Apply<'_>,
    out: &mut Vec<u8>,
    names: Names,
    stamps: bool,
) -> Result<()> {
    let (old_id, new_id) = (old.get("_id"), new.get("_id"));
    if names == Names::Checked && !apply.inserting {
        for elem in new {
            if elem.name_bytes().starts_with(b"$") {
                check::check_root_name(new, elem.name())?;
            }
        }
    }
    check_id_kept(old_id, new_id)?;
    check::check_depth(new)?;
    let id = if new_id.is_missing() { old_id } else { new_id };
    let start = out.len();
    let mut doc = DocBuilder::begin(out);
    doc.put("_id", id);
    for elem in new {
        if elem.name_bytes() == b"_id" {
            continue;
        }
        if stamps && is_zero_timestamp(elem.value) {
            doc.put(elem.name(), timestamp(apply.now).as_ref());
        } else {
            doc.put(elem.name(), elem.value);
        }
    }
    doc.end();
    check::check_size(out.len() - start)
}

fn check_id_kept(old: ValueRef<'_>, new: ValueRef<'_>) -> Result<()> {
    if !new.is_missing() {
        check::check_id(new)?;
    }
    if !old.is_missing() && !new.is_missing() && !equal(old, new) {
        return Err(Error::new(
            Code::ImmutableField,
            format!(
                "After applying the update, the (immutable) field '_id' was found to have been altered to {}",
                element("_id", new)
            ),
        ));
    }
    Ok(())
}

/// The document without a `_ts` at its root.
pub fn without_ts(doc: Doc<'_>) -> Vec<u8> {
    if !doc.has("_ts") {
        return doc.bytes().to_vec();
    }
    DocBuf::build(|out| {
        for elem in doc.iter().filter(|elem| elem.name_bytes() != b"_ts") {
            out.put(elem.name(), elem.value);
        }
    })
    .into_bytes()
}

fn is_zero_timestamp(value: ValueRef<'_>) -> bool {
    value.ty() == Type::Timestamp && value.as_timestamp() == Some((0, 0))
}
