//! The difference between two documents, found by walking both at once.

use std::collections::BTreeSet;

use super::{ArrayDelta, DocumentDelta, InnerDelta, ValueDelta};
use crate::value::{Doc, ValueRef};

/// The bytes that the log needs around a difference. It is worth telling only if it is smaller than the new document.
const AROUND: usize = 15;

/// Returns the difference, or `None` if it is not smaller than the new document.
pub(super) fn difference<'v>(before: Doc<'v>, after: Doc<'v>) -> Option<DocumentDelta<'v>> {
    let delta = document(before, after);
    let size = delta.encode().bytes().len() + AROUND;
    (size < after.bytes().len()).then_some(delta)
}

/// Fields that keep their order are compared by name. A field that moved is told as a new one.
fn document<'v>(before: Doc<'v>, after: Doc<'v>) -> DocumentDelta<'v> {
    let mut delta = DocumentDelta::default();
    let (mut old, mut new) = (before.iter().peekable(), after.iter().peekable());
    let mut moved: BTreeSet<&str> = BTreeSet::new();
    while let (Some(from), Some(to)) = (old.peek(), new.peek()) {
        if from.name_bytes() != to.name_bytes() {
            moved.insert(from.name());
            old.next();
            continue;
        }
        if from.value != to.value {
            match value(from.value, to.value) {
                ValueDelta::Whole(value) => delta.updated.push((to.name().to_owned(), value)),
                ValueDelta::Inner(inner) => delta.inner.push((to.name().to_owned(), inner)),
            }
        }
        old.next();
        new.next();
    }
    delta.removed.extend(old.map(|elem| elem.name().to_owned()));
    for elem in new {
        moved.remove(elem.name());
        delta.inserted.push((elem.name().to_owned(), elem.value));
    }
    delta.removed.extend(moved.into_iter().map(str::to_owned));
    delta
}

fn array<'v>(before: Doc<'v>, after: Doc<'v>) -> ArrayDelta<'v> {
    let mut delta = ArrayDelta::default();
    let mut old = before.iter();
    let mut size = 0;
    for (index, to) in after.iter().enumerate() {
        size = index + 1;
        match old.next() {
            Some(from) if from.value == to.value => {}
            Some(from) => delta.elements.push((index, value(from.value, to.value))),
            None => delta.elements.push((index, ValueDelta::Whole(to.value))),
        }
    }
    if old.next().is_some() {
        delta.size = Some(size);
    }
    delta
}

/// Returns the change of a value: what changed inside it, if that is smaller than the new value.
fn value<'v>(before: ValueRef<'v>, after: ValueRef<'v>) -> ValueDelta<'v> {
    let inner = match (before.as_doc(), after.as_doc()) {
        (Some(before), Some(after)) => Some(InnerDelta::Document(document(before, after))),
        _ => match (before.as_array(), after.as_array()) {
            (Some(before), Some(after)) => Some(InnerDelta::Array(array(before, after))),
            _ => None,
        },
    };
    match inner {
        Some(inner) if inner.size() < after.data().len() => ValueDelta::Inner(inner),
        _ => ValueDelta::Whole(after),
    }
}
