//! Adding documents, about a hundred in one lock hold.

use std::sync::Arc;

use super::{collection_for, refused};
use crate::error::{Error, Result};
use crate::storage::{Catalog, Collection, Dropped};
use crate::value::{Doc, Millis};

/// The largest number of documents that are added in one lock hold.
pub const BATCH: usize = 100;

/// The result of adding a batch.
#[derive(Debug, Default)]
pub struct Inserted {
    pub count: usize,
    /// The error of the document at position `count`, which was not added. The batch stops there.
    pub failed: Option<Error>,
}

/// Adds a document of the server's own. Creates the collection if it does not exist.
pub fn insert_own(
    catalog: &Arc<Catalog>,
    database: &str,
    collection: &str,
    document: Doc<'_>,
    now: Millis,
) -> Result<()> {
    loop {
        let (collection, _) = collection_for(catalog, database, collection, now)?;
        let documents = std::iter::once(document.bytes());
        // If the collection was dropped in between, the loop creates it again.
        if let Ok(inserted) = insert_batch(&collection, documents, now) {
            return inserted.failed.map_or(Ok(()), Err);
        }
    }
}

/// Adds documents in their order and stops at the first that cannot be added.
pub fn insert_batch<'d>(
    collection: &Collection,
    documents: impl Iterator<Item = &'d [u8]>,
    now: Millis,
) -> Result<Inserted, Dropped> {
    collection.write(now, |writer| {
        let mut inserted = Inserted::default();
        for bytes in documents {
            match writer.insert(bytes) {
                Ok(_) => inserted.count += 1,
                Err(reason) => {
                    inserted.failed = Some(refused(&reason, &writer.view(), bytes));
                    break;
                }
            }
        }
        inserted
    })
}
