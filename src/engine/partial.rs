//! The filter of a partial index, in the form in which storage tests documents with it.

use std::sync::Arc;

use crate::interrupt::Limit;
use crate::query::Vars;
use crate::query::filter::Filter;
use crate::storage::index::{IndexSpec, PartialCondition};
use crate::value::{Doc, Millis};

#[derive(Debug)]
pub struct PartialFilter(pub Arc<Filter>);

// === impl PartialFilter ===

impl PartialFilter {
    /// Returns the filter of an index: `Some(None)` if it has none, and `None` if it has one that the planner does not know.
    pub(super) fn of(spec: &IndexSpec) -> Option<Option<Arc<Filter>>> {
        match &spec.partial {
            None => Some(None),
            Some(partial) => {
                let condition = partial.condition.as_any().downcast_ref::<Self>()?;
                Some(Some(Arc::clone(&condition.0)))
            }
        }
    }
}

impl PartialCondition for PartialFilter {
    fn holds(&self, doc: Doc<'_>) -> bool {
        // A partial filter has no expressions that could fail. It does not stop when its command ends either: removing a
        // document from the index must give the same answer as adding it did.
        Limit::default()
            .watch(|| self.0.matches(doc, &Vars::at(Millis(0))))
            .unwrap_or(false)
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
