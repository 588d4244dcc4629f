//! The values of a `distinct` that an index serves.

use std::sync::Arc;

use super::choose::facts;
use super::plan::{self, AccessPath, Facts, Plan};
use crate::error::Result;
use crate::query::filter::Filter;
use crate::storage::index::IndexSpec;
use crate::storage::{Collection, ReadPoint};
use crate::value::{Doc, Path, ValueRef, keys};

/// An index whose keys are the values of a distinct. MongoDB takes them as they are: null stands for a missing field and
/// undefined for an empty array (SERVER-14832).
pub struct DistinctIndex {
    spec: Arc<IndexSpec>,
    /// The position of the path in the key.
    place: usize,
}

// === impl DistinctIndex ===

impl DistinctIndex {
    /// Returns the index that MongoDB uses, if any. With a filter, the bounds of the index must express all of it, and the
    /// index must hold one key for each document. The values at an array index come from the documents, because the keys tell
    /// nothing of the array (getProjectedDottedField).
    pub fn on(
        collection: &Collection,
        path: &Path,
        filter: Option<&Filter>,
        at: ReadPoint,
    ) -> Result<Option<Self>> {
        let mut below = path.parts().skip(1);
        if below.any(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())) {
            return Ok(None);
        }
        let mut facts = facts(collection, None, at);
        facts
            .indexes
            .retain(|index| index.spec.paths.contains(path) && !index.spec.hidden);
        if facts.indexes.is_empty() {
            return Ok(None);
        }
        let spec = match filter {
            None => shortest(facts, path),
            Some(filter) => match plan::plan(filter, &[], None, &facts)? {
                Plan {
                    access: AccessPath::IndexScan(scan),
                    exact: true,
                    ..
                } => Some(scan.spec),
                _ => None,
            },
        };
        Ok(spec.and_then(|spec| Self::within(spec, path)))
    }

    /// MongoDB makes a document of all keys and takes the values from it. A later key of a path above replaces this one.
    fn within(spec: Arc<IndexSpec>, path: &Path) -> Option<Self> {
        let place = spec.paths.iter().position(|own| own == path)?;
        let mut later = spec.paths.iter().skip(place + 1);
        let is_replaced = later.any(|later| later.is_above(path));
        (!is_replaced).then_some(Self { spec, place })
    }

    /// Passes on the values of a document: the keys, or the elements of a key that is an array.
    pub fn values(
        &self,
        doc: Doc<'_>,
        found: &mut impl FnMut(ValueRef<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut done = Ok(());
        keys(&self.spec.paths, doc, |key| {
            let is_held = key.found || !self.spec.sparse;
            let Some(value) = key
                .values
                .get(self.place)
                .filter(|_| is_held && done.is_ok())
            else {
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

/// Returns the shortest index that begins with the path and is not partial.
fn shortest(facts: Facts, path: &Path) -> Option<Arc<IndexSpec>> {
    let suitable = facts.indexes.into_iter().filter(|index| {
        let begins = index.spec.paths.first() == Some(path);
        begins && index.partial.is_none()
    });
    let shortest = suitable.min_by_key(|index| index.spec.paths.len());
    shortest.map(|index| index.spec)
}
