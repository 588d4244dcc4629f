//! What an update changes, in the format in which MongoDB's log tells it: `{d, u, i, s<name>}` for a document, `{a, l, u<n>,
//! s<n>}` for an array.
//!
//! Change streams show it as `updateDescription`. An update with operators tells the paths that it wrote to
//! ([`operators`]), even where a smaller change would do: `$set` of a document tells the whole document. A pipeline tells the
//! difference between the documents ([`documents`]), unless that is larger than the new document. A replacement tells
//! nothing.

mod documents;
mod operators;

use super::Apply;
use super::parse::{Update, UpdateKind};
use crate::value::{Doc, DocBuf, DocBuilder, ValueRef};

/// The change of a document.
#[derive(Default)]
struct DocumentDelta<'v> {
    removed: Vec<String>,
    updated: Vec<(String, ValueRef<'v>)>,
    inserted: Vec<(String, ValueRef<'v>)>,
    inner: Vec<(String, InnerDelta<'v>)>,
}

/// The change of an array.
#[derive(Default)]
struct ArrayDelta<'v> {
    /// The new length, if the array becomes shorter.
    size: Option<usize>,
    /// The changed elements, in ascending order.
    elements: Vec<(usize, ValueDelta<'v>)>,
}

/// The change of a value.
enum ValueDelta<'v> {
    /// The new value.
    Whole(ValueRef<'v>),
    Inner(InnerDelta<'v>),
}

/// The change inside a document or an array.
enum InnerDelta<'v> {
    Document(DocumentDelta<'v>),
    Array(ArrayDelta<'v>),
}

// === impl Update ===

impl Update {
    /// Returns which fields the update has changed, or `None` if only the new document as a whole tells it.
    pub fn delta(&self, before: Doc<'_>, after: Doc<'_>, apply: &Apply<'_>) -> Option<DocBuf> {
        let delta = match &self.0 {
            UpdateKind::Replacement(_) => return None,
            UpdateKind::Pipeline(_) => documents::difference(before, after)?,
            UpdateKind::Operators(operators) => operators::written(operators, before, after, apply),
        };
        Some(delta.encode())
    }
}

// === impl DocumentDelta ===

impl DocumentDelta<'_> {
    fn encode(&self) -> DocBuf {
        DocBuf::build(|out| self.write(out))
    }

    fn write(&self, out: &mut DocBuilder<'_>) {
        if !self.removed.is_empty() {
            let mut removed = out.doc("d");
            for name in &self.removed {
                removed.put_bool(name, false);
            }
            removed.end();
        }
        for (section, fields) in [("u", &self.updated), ("i", &self.inserted)] {
            if !fields.is_empty() {
                let mut section = out.doc(section);
                for (name, value) in fields {
                    section.put(name, *value);
                }
                section.end();
            }
        }
        for (name, inner) in &self.inner {
            inner.write(&format!("s{name}"), out);
        }
    }
}

// === impl InnerDelta ===

impl InnerDelta<'_> {
    /// Returns how many bytes it takes in the log.
    fn size(&self) -> usize {
        let encoded = DocBuf::build(|out| match self {
            Self::Document(document) => document.write(out),
            Self::Array(array) => array.write(out),
        });
        encoded.bytes().len()
    }

    fn write(&self, name: &str, out: &mut DocBuilder<'_>) {
        let mut inner = out.doc(name);
        match self {
            Self::Document(document) => document.write(&mut inner),
            Self::Array(array) => array.write(&mut inner),
        }
        inner.end();
    }
}

// === impl ArrayDelta ===

impl ArrayDelta<'_> {
    fn write(&self, out: &mut DocBuilder<'_>) {
        out.put_bool("a", true);
        if let Some(size) = self.size {
            out.put_i32("l", i32::try_from(size).unwrap_or(i32::MAX));
        }
        for (index, element) in &self.elements {
            match element {
                ValueDelta::Whole(value) => {
                    out.put(&format!("u{index}"), *value);
                }
                ValueDelta::Inner(inner) => inner.write(&format!("s{index}"), out),
            }
        }
    }
}

#[cfg(test)]
mod tests;
