//! Equality with one value, where an index answers it exactly: what a join asks once for every row.

use super::{bounds, predicates::has_digits};
use crate::{
    storage::index::Index,
    ttl::TS_FIELD,
    value::{Path, ValueRef},
};

/// The index that holds every document under the value of its `field`, so that the documents with a key are exactly the
/// documents whose field equals the value, if [`has_point`] says so of it.
pub fn equality_index<'v>(
    indexes: impl Iterator<Item = &'v Index>,
    field: &str,
) -> Option<&'v Index> {
    let plain =
        |path: &Path| path.as_str() == field && path.first() != TS_FIELD && !has_digits(path);
    let mut fitting = indexes.filter(|index| {
        index.ready
            && index.multikey == 0
            && !index.spec.hidden
            && index.spec.partial.is_none()
            && index.spec.paths.first().is_some_and(plain)
    });
    fitting.next()
}

/// Whether equality with that value is one key of an index without arrays, and that key nothing else.
pub fn has_point(value: ValueRef<'_>) -> bool {
    bounds::is_exact_value(value)
}
