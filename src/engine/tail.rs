//! The end of a collection, where a tailable cursor waits for the next document.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::storage::{Collection, ReadPoint};
use crate::wait::Wait;

pub struct Tail(Arc<Collection>);

/// Returns whether the collection has a document behind which a tailable cursor can wait. Fails if the collection is not
/// capped: only in a capped collection do new documents follow the last one.
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

    /// Returns a wait that ends when a document has arrived since this call, or the collection was dropped.
    pub fn arrival(&self) -> Wait {
        self.0.arrival()
    }
}
