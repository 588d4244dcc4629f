//! Replacement: a whole new document under the old `_id`.

use crate::error::{Code, Error, Result};
use crate::value::{Doc, DocBuf, DocBuilder, TS_FIELD, Type, ValueRef, equal};

use super::Apply;
use super::check::{self, element};
use super::current_date::timestamp;

pub struct Replacement {
    /// As it came, without `_ts`, which is the server's.
    document: DocBuf,
    /// Some field at the root is a timestamp of zeros, which means "now".
    stamps: bool,
    /// Where its `_id` stands, if nothing else about it has to be looked at.
    plain: Option<IdPlace>,
    pub has_ttl: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum IdPlace {
    Nowhere,
    Front,
}

// === impl Replacement ===

impl Replacement {
    /// Looks at each field once: of what is not there nobody has to think again.
    pub fn parse(doc: Doc<'_>) -> Self {
        let mut place = IdPlace::Nowhere;
        let (mut stamps, mut has_ts, mut has_ttl, mut special) = (false, false, false, false);
        for (at, elem) in doc.iter().enumerate() {
            match elem.name_bytes() {
                b"_id" if at == 0 => place = IdPlace::Front,
                b"_id" => special = true,
                name if name == TS_FIELD.as_bytes() => has_ts = true,
                b"ttl" => has_ttl = true,
                name => special |= name.starts_with(b"$"),
            }
            stamps |= is_zero_timestamp(elem.value);
            // They may nest too deep.
            special |= matches!(elem.value.ty(), Type::Document | Type::Array);
        }
        let document = match has_ts {
            true => without_ts(doc),
            false => doc.bytes().to_vec(),
        };
        Self {
            document: DocBuf::from_bytes(document),
            stamps,
            plain: (!special && !stamps && !has_ts).then_some(place),
            has_ttl,
        }
    }

    pub fn apply(&self, old: Doc<'_>, apply: &Apply<'_>, out: &mut Vec<u8>) -> Result<bool> {
        let new = self.document.as_doc();
        if old == new {
            return Ok(false);
        }
        match self.plain {
            Some(IdPlace::Nowhere) => self.write(old.get("_id"), out)?,
            Some(IdPlace::Front) if has_same_id(old, new) => {
                check::check_size(new.bytes().len())?;
                out.extend_from_slice(new.bytes());
            }
            _ => replace(old, new, apply, out, Names::Checked, self.stamps)?,
        }
        Ok(true)
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.document.bytes().len()
    }

    /// Writes it behind an `_id`, which it lacks.
    fn write(&self, id: ValueRef<'_>, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        let mut doc = DocBuilder::begin(out);
        doc.put("_id", id).put_body(self.document.as_doc().body());
        doc.end();
        check::check_size(out.len() - start)
    }
}

/// Whether both begin with the very same `_id`, so that nothing has to be put together.
fn has_same_id(old: Doc<'_>, new: Doc<'_>) -> bool {
    let id = |doc: Doc<'_>| {
        doc.first()
            .map(|elem| (elem.value.ty(), elem.value.data().len()))
    };
    let len = 4 + 1 + "_id\0".len() + id(new).map_or(0, |(_, len)| len);
    old.first().is_some_and(|elem| elem.name_bytes() == b"_id")
        && id(old) == id(new)
        && old.bytes().get(4..len) == new.bytes().get(4..len)
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
