//! The places of fields that come back.
//!
//! A field that one stage removes and a later one sets again stands where it stood before: MongoDB's documents remember the
//! places of removed fields. Documents here do not, so the stages between are given the places: a document with every name
//! that any version of the document had, in the order in which they came.

use super::Projection;
use super::tree::{ProjectionNode, ProjectionTree};
use crate::query::Expr;
use crate::value::{ArrayBuilder, Doc, DocBuf, Value, ValueRef};

impl Projection {
    /// Returns whether fields that it does not name keep their places. Otherwise the new document begins afresh.
    pub fn keeps_places(&self) -> bool {
        self.mode.keeps_others()
    }

    /// Visits the paths of the fields that may be missing afterwards.
    pub fn removed(&self, visit: &mut dyn FnMut(&str)) {
        leaves(
            &self.root,
            &mut String::new(),
            &mut |path, node| match node {
                ProjectionNode::Compute(Expr::Const(value)) if !value.as_ref().is_missing() => {}
                ProjectionNode::Compute(_) | ProjectionNode::Drop => visit(path),
                _ => {}
            },
        );
    }

    /// Visits the paths of the fields that it computes.
    pub fn computed(&self, visit: &mut dyn FnMut(&str)) {
        leaves(&self.root, &mut String::new(), &mut |path, node| {
            if let ProjectionNode::Compute(_) = node {
                visit(path);
            }
        });
    }

    /// Returns the places after this projection, which has made `doc`. A value that was computed has the places of its
    /// fields from itself alone.
    pub fn places(&self, before: Doc<'_>, doc: Doc<'_>) -> DocBuf {
        places(&self.root, before, doc)
    }
}

/// Returns the document with its fields in their places. Every name has one.
pub fn in_places(doc: Doc<'_>, places: Doc<'_>) -> DocBuf {
    let arranged = DocBuf::build(|out| {
        for elem in places {
            out.put(
                elem.name(),
                arrange(doc.get(elem.name()), elem.value).as_ref(),
            );
        }
    });
    // If a name occurs twice, the places do not tell which is meant.
    match arranged.bytes().len() == doc.bytes().len() {
        true => arranged,
        false => DocBuf::from_bytes(doc.bytes().to_vec()),
    }
}

fn arrange(value: ValueRef<'_>, places: ValueRef<'_>) -> Value {
    both(value, places, in_places, |value, place| {
        arrange(value, place)
    })
}

fn leaves(tree: &ProjectionTree, path: &mut String, visit: &mut dyn FnMut(&str, &ProjectionNode)) {
    for (name, node) in tree.children.iter() {
        let length = path.len();
        if length > 0 {
            path.push('.');
        }
        path.push_str(name);
        match node {
            ProjectionNode::Within(inner) => leaves(inner, path, visit),
            leaf => visit(path, leaf),
        }
        path.truncate(length);
    }
}

fn places(tree: &ProjectionTree, before: Doc<'_>, doc: Doc<'_>) -> DocBuf {
    DocBuf::build(|out| {
        for elem in before {
            let at = tree.children.find(elem.name_bytes());
            let place = match at.and_then(|at| tree.children.at(at)) {
                None => elem.value.to_value(),
                Some((_, ProjectionNode::Within(inner))) => {
                    places_within(inner, doc.get(elem.name()), elem.value)
                }
                Some(_) => doc.get(elem.name()).to_value(),
            };
            out.put(elem.name(), place.as_ref().or_null());
        }
        // A new field has a place even if its value is missing.
        for (name, node) in tree.children.iter().filter(|(name, _)| !before.has(name)) {
            let value = doc.get(name);
            match node {
                ProjectionNode::Compute(_) => drop(out.put(name, value.or_null())),
                _ => drop(out.put(name, value)),
            }
        }
        for elem in doc {
            if !before.has(elem.name_bytes()) && tree.children.find(elem.name_bytes()).is_none() {
                out.put(elem.name(), elem.value);
            }
        }
    })
}

fn places_within(tree: &ProjectionTree, value: ValueRef<'_>, before: ValueRef<'_>) -> Value {
    both(
        value,
        before,
        |doc, before| places(tree, before, doc),
        |value, before| places_within(tree, value, before),
    )
}

/// Combines a value with another one: two documents by `documents`, two arrays element by element. Any other value stays.
fn both(
    value: ValueRef<'_>,
    other: ValueRef<'_>,
    documents: impl Fn(Doc<'_>, Doc<'_>) -> DocBuf,
    elements: impl Fn(ValueRef<'_>, ValueRef<'_>) -> Value,
) -> Value {
    if let (Some(doc), Some(other)) = (value.as_doc(), other.as_doc()) {
        return Value::document(documents(doc, other).into_bytes());
    }
    let (Some(array), Some(other)) = (value.as_array(), other.as_array()) else {
        return value.to_value();
    };
    let mut others = other.iter();
    let mut bytes = Vec::with_capacity(array.bytes().len());
    let mut out = ArrayBuilder::begin(&mut bytes);
    for elem in array {
        let other = others.next().map_or(ValueRef::NULL, |elem| elem.value);
        out.push(elements(elem.value, other).as_ref());
    }
    out.end();
    Value::array(bytes)
}
