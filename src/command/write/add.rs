//! Inserts documents, for insert and bulkWrite.

use std::borrow::Cow;

use crate::effort::Effort;
use crate::engine::write::{WriteTarget, collection_for, insert_batch};
use crate::error::Error;

/// Inserts documents and reports the outcome of each to `went`. Each document comes with its index among the statements.
/// After a failure, `went` returns whether to continue. `add` returns whether the caller should continue.
pub fn add(
    place: &WriteTarget<'_>,
    effort: &mut Effort,
    mut admitted: &[(usize, Cow<'_, [u8]>)],
    mut went: impl FnMut(usize, Option<Error>) -> bool,
) -> bool {
    while !admitted.is_empty() {
        let (database, name, now) = (place.database, place.collection, place.now());
        let collection = match collection_for(place.catalog, database, name, now) {
            Ok((collection, _)) => collection,
            Err(error) => match admitted.split_first() {
                Some(((index, _), rest)) if went(*index, Some(error)) => {
                    admitted = rest;
                    continue;
                }
                _ => return false,
            },
        };
        let bytes = admitted.iter().map(|(_, bytes)| bytes.as_ref());
        // The collection was dropped in the meantime. The next round creates it again.
        let Ok(inserted) = insert_batch(&collection, bytes, now) else {
            continue;
        };
        let (added, rest) = admitted.split_at(inserted.count);
        for (index, bytes) in added {
            effort.inserted += (place.weigh)(bytes.len());
            went(*index, None);
        }
        admitted = rest;
        if let (Some(error), Some(((index, _), rest))) = (inserted.failed, rest.split_first()) {
            if !went(*index, Some(error)) {
                return false;
            }
            admitted = rest;
        }
    }
    true
}
