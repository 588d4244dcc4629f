//! The interface of an update operator: what it does at the end of its path.

use std::fmt::Write;
use std::sync::Arc;

use crate::error::Result;
use crate::query::Scope;
use crate::query::update::Apply;
use crate::value::{Doc, Val, ValueRef};

use super::check::element;

/// A leaf of the tree: one operator on one path.
pub trait Modify: Send + Sync {
    /// Decides the change to the value at the end of the path.
    fn existing<'v>(
        &'v self,
        old: ValueRef<'v>,
        at: &LeafContext<'_, 'v>,
    ) -> Result<ValueChange<'v>>;

    /// Decides what to do if the path does not exist.
    fn missing<'v>(&'v self, at: &LeafContext<'_, 'v>) -> Result<OnMissing<'v>>;

    /// Returns whether the operator only appends to an array of `count` elements, unless the result tells otherwise. The log
    /// then tells the new elements, and not the whole array.
    fn appends(&self, _count: usize) -> bool {
        false
    }

    /// Returns whether the operator builds an array out of elements if the path does not exist.
    fn builds_an_array(&self) -> bool {
        false
    }

    /// Returns how deep the values nest that this operator adds, or `None` if that is known only at run time.
    fn depth(&self) -> Option<usize> {
        Some(0)
    }

    /// Returns whether [`Modify::existing`] reads little more than the value and its argument, so that its time is
    /// negligible.
    fn is_quick(&self) -> bool {
        false
    }

    /// Returns whether the operator may take long with one document, as [`Survey`](crate::query::Survey) explains.
    fn is_slow(&self) -> bool {
        false
    }
}

/// The part of `{$operator: {field: value}}` that an operator parses.
pub struct UpdateArgument<'a> {
    pub field: &'a str,
    pub value: ValueRef<'a>,
    pub scope: &'a Scope,
}

/// A leaf as the tree holds it. Merged trees share their leaves.
pub type UpdateLeaf = Arc<dyn Modify>;

/// The change to an existing value.
pub enum ValueChange<'v> {
    /// The value stays, and the document does not count as modified.
    Same,
    Put(Val<'v>),
    /// Removes the field from a document. In an array, where elements keep their positions, null replaces the value.
    Remove,
}

/// The action for a path that does not exist.
pub enum OnMissing<'v> {
    /// Creates the field, and the documents on the path to it.
    Create(Val<'v>),
    /// Does nothing. No error.
    Nothing,
    /// Creates nothing, but it must be possible to create the path.
    Viable,
}

/// The context in which a leaf runs.
pub struct LeafContext<'t, 'v> {
    pub trail: &'t Trail<'t>,
    /// The document before the update.
    pub root: Doc<'v>,
    pub apply: &'v Apply<'v>,
}

/// The path from the root to a field, linked upwards through the call stack of the walk.
pub struct Trail<'t> {
    pub parent: Option<&'t Trail<'t>>,
    pub name: &'t str,
    /// True if the name is an array index.
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

    /// Returns the name of the root field that contains this one.
    pub fn root_name(&self) -> &str {
        let mut at = self;
        while let Some(parent) = at.parent {
            at = parent;
        }
        at.name
    }

    /// Returns the dotted path.
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

    /// Returns the name of the innermost array on the path, if there is one.
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

// === impl LeafContext ===

impl LeafContext<'_, '_> {
    /// Returns `_id: 1`, as messages name a document.
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
