//! The end of a collection, where a tailable cursor waits for the next document.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::storage::{Collection, ReadPoint};
use crate::wait::Wait;

pub struct Tail(Arc<Collection>);

/// Whether there is something whose end can be waited at. Only a capped collection has a last document that new ones follow.
pub fn has_tail(collection: &Collection, at: ReadPoint) -> Result<bool> {
    collection.read(at, |view| {
        if view.options().cap.is_none() {
            return Err(Error::bad_value(format!(
                "error processing query: ns={} tailable cursor requested on non capped collection",
                view.namespace()
            )));
        }
        Ok(view.totals().count > 0)
    })
}

// === impl Tail ===

impl Tail {
    pub(super) fn of(collection: &Arc<Collection>) -> Self {
        Self(Arc::clone(collection))
    }

    /// Over when a document has come since this call, or the collection was dropped.
    pub fn arrival(&self) -> Wait {
        self.0.arrival()
    }
}
