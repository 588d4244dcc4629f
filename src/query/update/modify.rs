//! What an operator does at the end of its path.

use std::fmt::Write;
use std::sync::Arc;

use crate::error::Result;
use crate::query::Scope;
use crate::query::update::Apply;
use crate::value::{Doc, Val, ValueRef};

use super::check::element;

/// A leaf of the tree: one operator on one path.
pub trait Modify: Send + Sync {
    /// What becomes of the value that stands there.
    fn existing<'v>(&'v self, old: ValueRef<'v>, at: &At<'_, 'v>) -> Result<Change<'v>>;

    /// What is done where the path leads to nothing.
    fn missing<'v>(&'v self, at: &At<'_, 'v>) -> Result<Missing<'v>>;

    /// How deep the values nest that this operator brings in; `None` where that shows only when it runs.
    fn depth(&self) -> Option<usize> {
        Some(0)
    }

    /// Whether [`Modify::existing`] looks at little more than the value and its argument, so that it takes no time.
    fn is_quick(&self) -> bool {
        false
    }

    /// Whether it may take long with one document, as [`Survey`](crate::query::Survey) explains.
    fn is_slow(&self) -> bool {
        false
    }
}

/// `{$operator: {field: value}}`, the part that an operator parses.
pub struct Argument<'a> {
    pub field: &'a str,
    pub value: ValueRef<'a>,
    pub scope: &'a Scope,
}

/// A leaf as the tree holds it; shared where two trees are merged.
pub type Leaf = Arc<dyn Modify>;

pub enum Change<'v> {
    /// As it was: does not count as modified.
    Same,
    Put(Val<'v>),
    /// Out of a document; in an array, where nothing may move, null takes its place.
    Remove,
}

pub enum Missing<'v> {
    /// A field is created, and the documents that lead to it.
    Create(Val<'v>),
    /// Nothing to do, and nothing wrong.
    Nothing,
    /// Nothing to do, but the path must be one that could be created.
    Viable,
}

/// Where a leaf stands while it runs.
pub struct At<'t, 'v> {
    pub trail: &'t Trail<'t>,
    /// The document before the update.
    pub root: Doc<'v>,
    pub apply: &'v Apply<'v>,
}

/// The way from the root to a field, linked upwards through the stack of the walk.
pub struct Trail<'t> {
    pub parent: Option<&'t Trail<'t>>,
    pub name: &'t str,
    /// The name is an index into an array.
    pub in_array: bool,
}

// === impl Trail ===

impl<'t> Trail<'t> {
    pub fn child(parent: Option<&'t Trail<'t>>, name: &'t str, in_array: bool) -> Self {
        Self {
            parent,
            name,
            in_array,
        }
    }

    /// The name of the field of the document itself under which all this stands.
    pub fn root_name(&self) -> &str {
        let mut at = self;
        while let Some(parent) = at.parent {
            at = parent;
        }
        at.name
    }

    /// The path, dotted.
    pub fn dotted(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) {
        if let Some(parent) = self.parent {
            parent.write(out);
            out.push('.');
        }
        let _ = out.write_str(self.name);
    }

    /// The name of the array that the path leads through, if it does.
    pub fn array_above(&self) -> Option<&str> {
        let mut at = Some(self);
        while let Some(trail) = at {
            if trail.in_array {
                return Some(trail.parent.map_or("", |parent| parent.name));
            }
            at = trail.parent;
        }
        None
    }
}

// === impl At ===

impl At<'_, '_> {
    /// `_id: 1`, as messages name a document.
    pub fn id(&self) -> String {
        document_id(self.root)
    }
}

pub fn document_id(doc: Doc<'_>) -> String {
    match doc.get("_id") {
        id if id.is_missing() => "no id".to_owned(),
        id => element("_id", id),
    }
}
