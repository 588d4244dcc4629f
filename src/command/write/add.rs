//! Inserts documents, for insert and bulkWrite.

use std::borrow::Cow;

use crate::effort::Effort;
use crate::engine::write::{WriteTarget, collection_for, insert_batch};
use crate::error::Error;

/// How an insert of several documents ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// All documents have had their turn.
    All,
    /// A document failed, and the statements after it do not run.
    Failed,
    /// A transaction holds up the document with this index. It and those after it have had no turn yet.
    Blocked(usize),
}

/// Inserts documents and reports the outcome of each to `went`. Each document comes with its index among the statements.
/// After a failure, `went` returns whether to continue.
pub fn add(
    place: &WriteTarget<'_>,
    effort: &mut Effort,
    mut admitted: &[(usize, Cow<'_, [u8]>)],
    mut went: impl FnMut(usize, Option<Error>) -> bool,
) -> Added {
    while !admitted.is_empty() {
        let (database, name) = (place.database, place.collection);
        let collection = match collection_for(place.catalog, database, name, place.at) {
            Ok((collection, _)) => collection,
            Err(error) => match admitted.split_first() {
                Some(((index, _), rest)) if went(*index, Some(error)) => {
                    admitted = rest;
                    continue;
                }
                _ => return Added::Failed,
            },
        };
        let bytes = admitted.iter().map(|(_, bytes)| bytes.as_ref());
        // The collection was dropped in the meantime. The next round creates it again.
        let Ok(inserted) = insert_batch(&collection, bytes, place.at) else {
            continue;
        };
        let (added, rest) = admitted.split_at(inserted.count);
        for (index, bytes) in added {
            effort.inserted += (place.weigh)(bytes.len());
            went(*index, None);
        }
        admitted = rest;
        let Some(((index, _), rest)) = rest.split_first() else {
            continue;
        };
        if let Some(wait) = inserted.blocked {
            place.blocked.set(Some(wait));
            return Added::Blocked(*index);
        }
        if let Some(error) = inserted.failed {
            if !went(*index, Some(error)) {
                return Added::Failed;
            }
            admitted = rest;
        }
    }
    Added::All
}
