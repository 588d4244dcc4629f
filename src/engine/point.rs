//! Reads of a single document whose `_id` or record is already known.

use crate::storage::{Collection, ReadPoint, RecordId};
use crate::value::{Doc, ValueRef};

/// Passes the document with this `_id` to the caller without copying it, if it exists.
#[inline]
pub fn show_by_id(
    collection: &Collection,
    at: ReadPoint,
    id: ValueRef<'_>,
    show: impl FnOnce(Doc<'_>),
) {
    collection.read(at, |view| {
        view.id_usage().note();
        if let Some((_, stored)) = view.by_id(id) {
            show(Doc::new(stored.bytes));
        }
    });
}

/// Returns whether a document that was found before still exists.
pub fn is_visible(collection: &Collection, at: ReadPoint, id: RecordId) -> bool {
    collection.read(at, |view| view.get(id).is_some())
}
