//! The paths of an update as a tree. Common prefixes are shared, and conflicts are found during insertion.
//!
//! Children are kept in the order in which mongod creates new fields: by name, with array indexes by number.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::error::{Code, Error, Result};

use super::check;
use super::modify::{self, Trail};
use super::path::{self, UpdatePath};

/// The maximum number of parts of a path. mongod accepts no more, and no document is that deep.
const MAX_PARTS: usize = 250;

#[derive(Clone)]
pub enum UpdateNode {
    Leaf(modify::UpdateLeaf),
    /// Descends into a document by name, or into an array by index.
    Fields(FieldNodes),
    /// Descends into the elements of an array: `$[]` and `$[identifier]`.
    Elements(Elements),
}

/// The children of a document, or of an array that is entered by index.
#[derive(Clone, Default)]
pub struct FieldNodes {
    pub children: Vec<Child>,
    /// The subtree below `$`. Its position among the children is known once a document has matched.
    pub positional: Option<Box<UpdateNode>>,
}

#[derive(Clone)]
pub struct Child {
    pub name: Box<str>,
    pub node: UpdateNode,
}

/// The children of an array whose elements are selected by `$[]` or `$[identifier]`.
#[derive(Clone, Default)]
pub struct Elements {
    pub children: Vec<ElementNode>,
}

/// The subtree for the elements that one `$[]` or `$[identifier]` selects.
#[derive(Clone)]
pub struct ElementNode {
    pub identifier: Box<str>,
    /// The array filter that selects the elements, or `None` for `$[]`, which selects all.
    pub filter: Option<usize>,
    pub node: UpdateNode,
}

/// Finds the array filter with an identifier, and notes that it is used.
pub type FindFilter<'f> = dyn FnMut(&str) -> Option<usize> + 'f;

// === impl FieldNodes ===

impl FieldNodes {
    /// Inserts a leaf at the end of `path`.
    pub fn insert(
        &mut self,
        path: &UpdatePath<'_>,
        leaf: modify::UpdateLeaf,
        filters: &mut FindFilter<'_>,
    ) -> Result<()> {
        // All walks over the tree are recursive, so its depth must be bounded.
        if path.parts.len() > MAX_PARTS {
            return Err(check::too_deep());
        }
        insert(Parent::Fields(self), path, 0, leaf, filters)
    }

    /// Inserts a leaf for a path that is a plain field name.
    pub fn insert_field(&mut self, name: &str, leaf: modify::UpdateLeaf) -> Result<()> {
        let Err(at) = self.search(name) else {
            return Err(conflict(name, name));
        };
        let (name, node) = (name.into(), UpdateNode::Leaf(leaf));
        match self.children.is_empty() {
            // Most updates have one field, so there is no room for more yet.
            true => self.children = vec![Child { name, node }],
            false => self.children.insert(at, Child { name, node }),
        }
        Ok(())
    }

    /// Returns the position of the child with that name.
    #[inline(always)]
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        match &*self.children {
            // Most updates have one field, and this is asked for each field of a document.
            [only] => (only.name.as_bytes() == name).then_some(0),
            all => find_among(all, name),
        }
    }

    /// Returns the children with `$` replaced by the array index of the matched document.
    pub fn resolved(
        &self,
        position: Option<usize>,
        trail: Option<&Trail<'_>>,
    ) -> Result<Cow<'_, Self>> {
        let Some(positional) = &self.positional else {
            return Ok(Cow::Borrowed(self));
        };
        let Some(position) = position else {
            return Err(Error::bad_value(
                "The positional operator did not find the match needed from the query.",
            ));
        };
        let name = position.to_string();
        let mut children = self.children.clone();
        match children.binary_search_by(|child| order(child.name.as_bytes(), name.as_bytes())) {
            Ok(at) => {
                let both = merge(
                    positional,
                    &children[at].node,
                    &Trail::child(trail, &name, false),
                )?;
                children[at].node = both;
            }
            Err(at) => children.insert(
                at,
                Child {
                    name: name.into(),
                    node: (**positional).clone(),
                },
            ),
        }
        Ok(Cow::Owned(Self {
            children,
            positional: None,
        }))
    }

    fn get(&mut self, name: &str) -> Option<&mut UpdateNode> {
        if name == "$" {
            return self.positional.as_deref_mut();
        }
        let at = self.search(name).ok()?;
        self.children.get_mut(at).map(|child| &mut child.node)
    }

    /// Returns the child with that name, and creates it if there is none.
    fn entry(&mut self, name: &str, make: impl FnOnce() -> UpdateNode) -> &mut UpdateNode {
        if name == "$" {
            return self.positional.get_or_insert_with(|| Box::new(make()));
        }
        let at = match self.search(name) {
            Ok(at) => at,
            Err(at) => {
                let name = name.into();
                self.children.insert(at, Child { name, node: make() });
                at
            }
        };
        &mut self.children[at].node
    }

    fn search(&self, name: &str) -> std::result::Result<usize, usize> {
        self.children
            .binary_search_by(|child| order(child.name.as_bytes(), name.as_bytes()))
    }
}

fn find_among(children: &[Child], name: &[u8]) -> Option<usize> {
    if children.len() <= 8 {
        return children
            .iter()
            .position(|child| child.name.as_bytes() == name);
    }
    children
        .binary_search_by(|child| order(child.name.as_bytes(), name))
        .ok()
}

// === growing ===

enum Parent<'p> {
    Fields(&'p mut FieldNodes),
    Elements(&'p mut Elements),
}

fn insert(
    mut parent: Parent<'_>,
    path: &UpdatePath<'_>,
    first: usize,
    leaf: modify::UpdateLeaf,
    filters: &mut FindFilter<'_>,
) -> Result<()> {
    let last = path.parts.len().saturating_sub(1);
    for at in first..last {
        let (part, next) = (path.parts[at], path.parts[at + 1]);
        let into_array = path::identifier(next).is_some();
        let found = parent.step(part, at, path, filters, || {
            if into_array {
                UpdateNode::Elements(Elements::default())
            } else {
                UpdateNode::Fields(FieldNodes::default())
            }
        })?;
        parent = match (found, into_array) {
            (UpdateNode::Fields(fields), false) => Parent::Fields(fields),
            (UpdateNode::Elements(elements), true) => Parent::Elements(elements),
            _ => return Err(conflict(path.dotted, &path.prefix(at + 1))),
        };
    }
    let mut leaf = Some(leaf);
    parent.step(path.parts[last], last, path, filters, || {
        UpdateNode::Leaf(leaf.take().expect("asked for once, when the place is free"))
    })?;
    match leaf {
        None => Ok(()),
        Some(_) => Err(conflict(path.dotted, path.dotted)),
    }
}

impl<'p> Parent<'p> {
    /// Returns the child for one part of a path, and creates it if there is none.
    fn step(
        self,
        part: &str,
        at: usize,
        path: &UpdatePath<'_>,
        filters: &mut FindFilter<'_>,
        make: impl FnOnce() -> UpdateNode,
    ) -> Result<&'p mut UpdateNode> {
        let identifier = path::identifier(part);
        if at == 0 && identifier.is_some() {
            return Err(Error::bad_value(format!(
                "Cannot have array filter identifier (i.e. '$[<id>]') element in the first position in path '{}'",
                path.dotted
            )));
        }
        match self {
            Self::Fields(fields) => Ok(fields.entry(part, make)),
            Self::Elements(elements) => {
                let identifier = identifier.unwrap_or_default();
                let filter = if identifier.is_empty() {
                    None
                } else {
                    Some(filters(identifier).ok_or_else(|| {
                        Error::bad_value(format!(
                            "No array filter found for identifier '{identifier}' in path '{}'",
                            path.dotted
                        ))
                    })?)
                };
                let search = |elements: &Elements| {
                    elements
                        .children
                        .binary_search_by(|each| (*each.identifier).cmp(identifier))
                };
                let position = match search(elements) {
                    Ok(position) => position,
                    Err(position) => {
                        elements.children.insert(
                            position,
                            ElementNode {
                                identifier: identifier.into(),
                                filter,
                                node: make(),
                            },
                        );
                        position
                    }
                };
                Ok(&mut elements.children[position].node)
            }
        }
    }
}

fn conflict(path: &str, at: &str) -> Error {
    Error::new(
        Code::ConflictingUpdateOperators,
        format!("Updating the path '{path}' would create a conflict at '{at}'"),
    )
}

// === merging ===

/// Merges two trees that select the same element, such as `a.$.x` and `a.0.y`, or `a.$[].x` and `a.$[i].y`.
pub fn merge(left: &UpdateNode, right: &UpdateNode, trail: &Trail<'_>) -> Result<UpdateNode> {
    match (left, right) {
        (UpdateNode::Fields(left), UpdateNode::Fields(right)) => {
            let mut both = left.clone();
            if let Some(positional) = &right.positional {
                merge_into(&mut both, "$", positional, trail)?;
            }
            for child in &right.children {
                merge_into(&mut both, &child.name, &child.node, trail)?;
            }
            Ok(UpdateNode::Fields(both))
        }
        (UpdateNode::Elements(left), UpdateNode::Elements(right)) => {
            let mut both = left.clone();
            for each in &right.children {
                let search = both
                    .children
                    .binary_search_by(|known| known.identifier.cmp(&each.identifier));
                match search {
                    Ok(at) => {
                        let name = format!("$[{}]", each.identifier);
                        let trail = Trail::child(Some(trail), &name, true);
                        both.children[at].node =
                            merge(&both.children[at].node, &each.node, &trail)?;
                    }
                    Err(at) => both.children.insert(at, each.clone()),
                }
            }
            Ok(UpdateNode::Elements(both))
        }
        _ => Err(Error::new(
            Code::ConflictingUpdateOperators,
            format!("Update created a conflict at '{}'", trail.dotted()),
        )),
    }
}

fn merge_into(
    both: &mut FieldNodes,
    name: &str,
    node: &UpdateNode,
    trail: &Trail<'_>,
) -> Result<()> {
    match both.get(name) {
        Some(known) => *known = merge(known, node, &Trail::child(Some(trail), name, false))?,
        None => drop(both.entry(name, || node.clone())),
    }
    Ok(())
}

/// Compares whole paths part by part, in the order in which new fields are created.
pub fn path_order(left: &str, right: &str) -> Ordering {
    let (mut left, mut right) = (left.split('.'), right.split('.'));
    loop {
        let ordering = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, _) => return Ordering::Less,
            (_, None) => return Ordering::Greater,
            (Some(left), Some(right)) => order(left.as_bytes(), right.as_bytes()),
        };
        if ordering.is_ne() {
            return ordering;
        }
    }
}

/// Compares names by bytes, but two that begin like an array index by length first, so that 9 comes before 10. This is the
/// order in which MongoDB creates fields.
fn order(left: &[u8], right: &[u8]) -> Ordering {
    let like_index = |name: &[u8]| match name {
        [b'0', _, ..] => false,
        [first, ..] => first.is_ascii_digit(),
        [] => false,
    };
    let by_length = match like_index(left) && like_index(right) {
        true => left.len().cmp(&right.len()),
        false => Ordering::Equal,
    };
    by_length.then_with(|| left.cmp(right))
}
