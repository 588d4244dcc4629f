//! Sundown's own indexes in a collection with a DefaultTTL. With them ended documents are deleted; clients never see them.

use bson::Document;

/// The index with which the cluster's TTL monitor deletes documents that inherit the default.
pub(super) const DEFAULT_INDEX: &str = "_sundown_default";
/// The index with which the sweeper finds documents with their own `ttl`.
pub(super) const OWN_INDEX: &str = "_sundown_own";

/// Returns whether an index, as listIndexes shows it, is Sundown's own.
pub fn is_physical(index: &Document) -> bool {
    index.get_str("name").is_ok_and(is_physical_name)
}

/// Returns whether this is the name of an index of Sundown's own.
pub fn is_physical_name(name: &str) -> bool {
    name == DEFAULT_INDEX || name == OWN_INDEX
}
