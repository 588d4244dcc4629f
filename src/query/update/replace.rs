//! Replacement: a whole new document under the old `_id`.

use crate::error::{Code, Error, Result};
use crate::value::{Doc, DocBuf, DocBuilder, TS_FIELD, Type, ValueRef, equal};

use super::Apply;
use super::check::{self, element};
use super::current_date::timestamp;

/// A parsed replacement document.
pub struct Replacement {
    /// The client's document without `_ts`, which belongs to the server.
    document: DocBuf,
    /// True if some root field is a timestamp of zeros, which means "now".
    stamps: bool,
    /// The position of the `_id` if the document needs no other checks.
    plain: Option<IdPosition>,
    pub has_ttl: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum IdPosition {
    Nowhere,
    Front,
}

// === impl Replacement ===

impl Replacement {
    /// Examines each field once, so that `apply` can skip the checks that do not concern this document.
    pub fn parse(doc: Doc<'_>) -> Self {
        let mut id_position = IdPosition::Nowhere;
        let (mut stamps, mut has_ts, mut has_ttl, mut special) = (false, false, false, false);
        for (at, elem) in doc.iter().enumerate() {
            match elem.name_bytes() {
                b"_id" if at == 0 => id_position = IdPosition::Front,
                b"_id" => special = true,
                name if name == TS_FIELD.as_bytes() => has_ts = true,
                b"ttl" => has_ttl = true,
                name => special |= name.starts_with(b"$"),
            }
            stamps |= is_zero_timestamp(elem.value);
            // Documents and arrays may nest too deep.
            special |= matches!(elem.value.ty(), Type::Document | Type::Array);
        }
        let document = match has_ts {
            true => without_ts(doc),
            false => doc.bytes().to_vec(),
        };
        Self {
            document: DocBuf::from_bytes(document),
            stamps,
            plain: (!special && !stamps && !has_ts).then_some(id_position),
            has_ttl,
        }
    }

    pub fn apply(&self, old: Doc<'_>, apply: &Apply<'_>, out: &mut Vec<u8>) -> Result<bool> {
        let new = self.document.as_doc();
        if old == new {
            return Ok(false);
        }
        match self.plain {
            Some(IdPosition::Nowhere) => self.write(old.get("_id"), out)?,
            Some(IdPosition::Front) if has_same_id(old, new) => {
                check::check_size(new.bytes().len())?;
                out.extend_from_slice(new.bytes());
            }
            _ => replace(old, new, apply, out, NameCheck::Checked, self.stamps)?,
        }
        Ok(true)
    }

    /// Makes timestamps of zeros mean themselves.
    pub fn keep_empty_timestamps(&mut self) {
        self.stamps = false;
    }

    /// Returns the size in bytes.
    pub fn len(&self) -> usize {
        self.document.bytes().len()
    }

    /// Writes the document, which has no `_id`, after this `_id`.
    fn write(&self, id: ValueRef<'_>, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        let mut doc = DocBuilder::begin(out);
        doc.put("_id", id).put_body(self.document.as_doc().body());
        doc.end();
        check::check_size(out.len() - start)
    }
}

/// Returns whether both begin with the identical `_id`, so that the new document can be copied whole.
fn has_same_id(old: Doc<'_>, new: Doc<'_>) -> bool {
    let Some(id) = new.first() else {
        return false;
    };
    // The tag, the name and the value. Two elements whose bytes begin the same way are equally long.
    let end = 4 + 1 + "_id\0".len() + id.value.data().len();
    old.bytes().get(4..end) == new.bytes().get(4..end)
}

/// Whether `$` names at the root are checked. A pipeline may compute them freely.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum NameCheck {
    Checked,
    Free,
}

/// Writes `new` with the `_id` first: its own, or else the old one.
pub fn replace(
    old: Doc<'_>,
    new: Doc<'_>,
    apply: &Apply<'_>,
    out: &mut Vec<u8>,
    names: NameCheck,
    stamps: bool,
) -> Result<()> {
    let (old_id, new_id) = (old.get("_id"), new.get("_id"));
    if names == NameCheck::Checked && !apply.inserting {
        for elem in new {
            if elem.name_bytes().starts_with(b"$") {
                check::check_root_name(new, elem.name())?;
            }
        }
    }
    // That of a new document is refused later, in other words.
    if !(apply.inserting && new_id.ty() == Type::Array) {
        check_id_kept(old_id, new_id)?;
    }
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

/// Returns the document without a root field `_ts`.
pub fn without_ts(doc: Doc<'_>) -> Vec<u8> {
    if !doc.has(TS_FIELD) {
        return doc.bytes().to_vec();
    }
    DocBuf::build(|out| {
        for elem in doc.iter().filter(|elem| elem.name() != TS_FIELD) {
            out.put(elem.name(), elem.value);
        }
    })
    .into_bytes()
}

fn is_zero_timestamp(value: ValueRef<'_>) -> bool {
    value.ty() == Type::Timestamp && value.as_timestamp() == Some((0, 0))
}
