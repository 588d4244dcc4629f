//! Equality with one value that an index answers exactly. A join asks for it once per row.

use super::{bounds, predicates::has_digits};
use crate::{
    storage::index::Index,
    ttl::TS_FIELD,
    value::{Path, ValueRef},
};

/// Returns that of the usable indexes which begins with `field` and holds no arrays, if there is one. For a value that [`has_point`] accepts,
/// its entries that begin with the value lead to exactly the documents whose field equals it.
pub fn equality_index<'v>(
    indexes: impl Iterator<Item = &'v Index>,
    field: &str,
) -> Option<&'v Index> {
    let plain =
        |path: &Path| path.as_str() == field && path.first() != TS_FIELD && !has_digits(path);
    let mut fitting = indexes.filter(|index| {
        index.multikey.is_empty()
            && !index.spec.hidden
            && index.spec.partial.is_none()
            && index.spec.paths.first().is_some_and(plain)
    });
    fitting.next()
}

/// Returns whether, in an index without arrays, equality with this value means one key that stands for nothing else.
pub fn has_point(value: ValueRef<'_>) -> bool {
    bounds::is_exact_value(value)
}
