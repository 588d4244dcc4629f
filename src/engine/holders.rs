//! The documents that hold a value in a field, where an index knows them at once.
//!
//! For joins by equality, which ask once a row: no filter is made, no plan, no walk.

use smallvec::SmallVec;

use super::choose::has_one_key;
use crate::storage::index::{Index, TS_FIELD};
use crate::storage::{RecordId, Stored, View};
use crate::value::{Type, ValueRef, key};

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
        field => Some(index_on(view, field)?),
    };
    index
        .map_or(view.id_usage(), |(index, _)| &index.usage)
        .note();
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
            Some((index, descending)) => {
                // Null is also what is not there, and an index need not know that.
                if !has_one_key(value) || value.ty() == Type::Null {
                    return None;
                }
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

/// An index whose keys begin with the field's own value in every document, and whether it descends.
fn index_on<'v>(view: &View<'v>, field: &str) -> Option<(&'v Index, bool)> {
    // A number may also name an element of an array.
    let plain = |path: &crate::value::Path| {
        path.as_str() == field
            && path.first() != TS_FIELD
            && !path
                .parts()
                .any(|part| part.bytes().all(|b| b.is_ascii_digit()))
    };
    view.indexes()
        .find(|index| {
            index.ready
                && index.multikey == 0
                && !index.spec.hidden
                && index.spec.partial.is_none()
                && index.spec.paths.first().is_some_and(plain)
        })
        .and_then(|index| Some((index, *index.spec.descending.first()?)))
}
