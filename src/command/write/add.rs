//! Adding documents, for insert and bulkWrite.

use std::borrow::Cow;

use crate::engine::write::{Place, insert_batch};
use crate::error::Error;

/// Adds documents, each with the index that it has among the statements, and tells what came of each. `went` says whether to go
/// on; so does the answer.
pub fn add(
    place: &Place<'_>,
    mut admitted: &[(usize, Cow<'_, [u8]>)],
    mut went: impl FnMut(usize, Option<Error>) -> bool,
) -> bool {
    while !admitted.is_empty() {
        let (collection, _) = place
            .catalog
            .get_or_create(place.database, place.collection);
        let bytes = admitted.iter().map(|(_, bytes)| bytes.as_ref());
        // Dropped in between: it is made again.
        let Ok(inserted) = insert_batch(&collection, bytes, place.now) else {
            continue;
        };
        let (added, rest) = admitted.split_at(inserted.count);
        for (index, _) in added {
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
