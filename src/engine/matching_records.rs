//! Equality lookups through an index.
//!
//! Joins by equality ask once per row, so this makes no filter, no plan and no walk.

use smallvec::SmallVec;

use super::plan::{equality_index, has_one_key, has_point};
use crate::storage::{RecordId, Stored, View};
use crate::value::{ValueRef, key};

pub(super) type MatchingRecords<'v> = SmallVec<[(RecordId, Stored<'v>); 4]>;

/// The most entries that one key may read under the lock. With more, the join uses an ordinary walk, which releases the lock
/// in between.
const MOST: usize = 256;

/// Returns the visible documents whose `field` equals one of `keys`, each once. Returns `None` if no index answers this
/// exactly.
pub(super) fn matching_records<'v>(
    view: &View<'v>,
    field: &str,
    keys: &[ValueRef<'_>],
) -> Option<MatchingRecords<'v>> {
    let index = match field {
        "_id" => None,
        field => Some(equality_index(
            view.indexes().filter(|index| view.is_usable(index)),
            field,
        )?),
    };
    index.map_or(view.id_usage(), |index| &index.usage).note();
    let mut found = MatchingRecords::new();
    let mut bytes = Vec::with_capacity(24);
    for &value in keys {
        bytes.clear();
        match index {
            None => {
                if !has_one_key(value) {
                    return None;
                }
                found.extend(view.by_id(value));
            }
            Some(index) => {
                if !has_point(value) {
                    return None;
                }
                let descending = index.spec.descending.first() == Some(&true);
                key::encode(value, descending, &mut bytes);
                // Entries of expired documents count, too: skipping them takes time under the lock.
                for (nth, id) in view.holders(index, &bytes).enumerate() {
                    if nth == MOST {
                        return None;
                    }
                    found.extend(view.get(id).map(|stored| (id, stored)));
                }
            }
        }
        if found.len() > MOST {
            return None;
        }
    }
    if keys.len() > 1 {
        // The keys may come from an array that holds the same value twice.
        let mut seen = std::collections::HashSet::new();
        found.retain(|(id, _)| seen.insert(*id));
    }
    Some(found)
}
