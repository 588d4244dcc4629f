//! The values of a `distinct` that an index serves.

use std::sync::Arc;

use super::choose::facts;
use crate::error::Result;
use crate::storage::index::IndexSpec;
use crate::storage::{Collection, ReadPoint};
use crate::value::{Doc, Path, ValueRef, keys};

/// An index whose keys are the values of a distinct. MongoDB takes them as they are: null stands for a missing field and
/// undefined for an empty array (SERVER-14832).
pub struct DistinctIndex(Arc<IndexSpec>);

// === impl DistinctIndex ===

impl DistinctIndex {
    /// Returns the index that MongoDB uses if there is no filter: the shortest one that begins with the path and is neither
    /// hidden nor partial.
    pub fn on(collection: &Collection, path: &Path, at: ReadPoint) -> Option<Self> {
        let indexes = facts(collection, None, at).indexes.into_iter();
        let suitable = indexes.filter(|index| {
            let begins = index.spec.paths.first() == Some(path);
            begins && !index.spec.hidden && index.partial.is_none()
        });
        let shortest = suitable.min_by_key(|index| index.spec.paths.len());
        // MongoDB makes a document of all keys and takes the values from it. A later key of a path above replaces the first.
        let shortest = shortest.map(|index| index.spec);
        shortest
            .filter(|spec| !spec.paths.iter().skip(1).any(|later| later.is_above(path)))
            .map(Self)
    }

    /// Passes on the values of a document: the keys, or the elements of a key that is an array.
    pub fn values(
        &self,
        doc: Doc<'_>,
        found: &mut impl FnMut(ValueRef<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut done = Ok(());
        keys(&self.0.paths, doc, |key| {
            let is_held = key.found || !self.0.sparse;
            let Some(value) = key.values.first().filter(|_| is_held && done.is_ok()) else {
                return;
            };
            done = match value.as_array() {
                Some(array) => array.iter().try_for_each(|elem| found(elem.value)),
                None => found(*value),
            };
        })?;
        done
    }
}
