//! The documents that hold a value in a field, where an index knows them at once.
//!
//! For joins by equality, which ask once a row: no filter is made, no plan, no walk.

use smallvec::SmallVec;

use super::plan::{equality_index, has_one_key, has_point};
use crate::storage::{RecordId, Stored, View};
use crate::value::{ValueRef, key};

pub(super) type Holders<'v> = SmallVec<[(RecordId, Stored<'v>); 4]>;

/// What may be held of one row: for more the ordinary way is taken, which lets others pass in between.
const MOST: usize = 256;

/// The visible documents whose `field` equals one of `keys`, each once; `None` where no index says exactly that.
pub(super) fn holders<'v>(
    view: &View<'v>,
    field: &str,
    keys: &[ValueRef<'_>],
) -> Option<Holders<'v>> {
    let index = match field {
        "_id" => None,
        field => Some(equality_index(view.indexes(), field)?),
    };
    index.map_or(view.id_usage(), |index| &index.usage).note();
    let mut found = Holders::new();
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
                // Entries of ended documents count, too: somebody has to pass over them while the collection is locked.
                for (nth, id) in index.holders(&bytes).enumerate() {
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
        // An array may name the same document twice.
        let mut met = std::collections::HashSet::new();
        found.retain(|(id, _)| met.insert(*id));
    }
    Some(found)
}
