//! One document, where it is already known which.

use crate::storage::{Collection, ReadPoint, RecordId};
use crate::value::{Doc, ValueRef};

/// Shows the document with that `_id` where it is stored, if there is one. It is not copied before.
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

/// Whether a document that was found before is still there.
pub fn is_there(collection: &Collection, at: ReadPoint, id: RecordId) -> bool {
    collection.read(at, |view| view.get(id).is_some())
}
