//! The end of a collection, where a tailable cursor waits for the next document.

use std::sync::Arc;

use crate::storage::Collection;
use crate::wait::Wait;

pub struct Tail(Arc<Collection>);

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
