//! The filter of a partial index, as storage asks it of documents.

use std::sync::Arc;

use crate::aside::Limit;
use crate::query::Vars;
use crate::query::filter::Filter;
use crate::storage::index::{Condition, IndexSpec};
use crate::value::{Doc, Millis};

#[derive(Debug)]
pub struct PartialFilter(pub Arc<Filter>);

// === impl PartialFilter ===

impl PartialFilter {
    /// The filter of an index: `Some(None)` where it has none, `None` where it has one that the planner does not know.
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

impl Condition for PartialFilter {
    fn holds(&self, doc: Doc<'_>) -> bool {
        // A partial filter has no expressions that could fail. It is not ended with its command either: what is said when a document
        // is taken out of the index has to be what was said when it was put in.
        Limit::default()
            .watch(|| self.0.matches(doc, &Vars::at(Millis(0))))
            .unwrap_or(false)
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
