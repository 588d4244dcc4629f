//! The filter of a write statement.

use std::sync::{Arc, OnceLock};

use crate::engine::plan::{id_equality, plain_id};
use crate::error::Result;
use crate::query::Scope;
use crate::query::filter::Filter;
use crate::value::{Doc, Value, ValueRef};

/// The filter of a statement, or just an `_id`. Most writes go to one document by its `_id`, which the bytes of the filter
/// show. A real filter is then made only on demand: for an upsert, or if another client changed the document meanwhile.
pub enum Selector {
    Id {
        value: Value,
        filter: OnceLock<Arc<Filter>>,
    },
    Filter(Arc<Filter>),
}

// === impl Selector ===

impl Selector {
    pub fn parse(filter: Doc<'_>, scope: &Scope) -> Result<Self> {
        Ok(match plain_id(filter) {
            Some(value) => Self::Id {
                value: value.to_value(),
                filter: OnceLock::new(),
            },
            None => Self::Filter(Arc::new(Filter::parse(filter, scope)?)),
        })
    }

    pub fn filter(&self) -> &Arc<Filter> {
        match self {
            Self::Id { value, filter } => {
                filter.get_or_init(|| Arc::new(Filter::of_id(value.as_ref())))
            }
            Self::Filter(filter) => filter,
        }
    }

    pub fn into_filter(self) -> Arc<Filter> {
        Arc::clone(self.filter())
    }

    /// Returns the wanted `_id`, if the statement asks for one `_id` and nothing else.
    pub fn id(&self) -> Option<ValueRef<'_>> {
        match self {
            Self::Id { value, .. } => Some(value.as_ref()),
            Self::Filter(filter) => id_equality(filter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::DocBuf;
    use bson::doc;

    #[test]
    fn an_id_asks_for_the_same_as_the_filter_it_stands_for() {
        for (filter, by_bytes) in [
            (doc! {"_id": 7}, true),
            (doc! {"_id": "a"}, true),
            (doc! {"_id": bson::Bson::Null}, true),
            (doc! {"_id": {"$eq": 7}}, false),
            (doc! {"_id": {"$gt": 7}}, false),
            (doc! {"a": 7}, false),
        ] {
            let filter = DocBuf::from(filter);
            let wanted = Selector::parse(filter.as_doc(), &Scope::new()).unwrap();
            let parsed = Filter::parse(filter.as_doc(), &Scope::new()).unwrap();
            assert_eq!(
                matches!(wanted, Selector::Id { .. }),
                by_bytes,
                "{filter:?}"
            );
            assert_eq!(wanted.id(), id_equality(&parsed), "{filter:?}");
            let described = |filter: &Filter| filter.describe().unwrap();
            assert_eq!(described(wanted.filter()), described(&parsed), "{filter:?}");
        }
    }
}
