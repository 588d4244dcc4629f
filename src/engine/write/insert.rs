//! Adding documents, about a hundred in one lock hold.

use std::sync::Arc;

use super::{collection_for, refused};
use crate::error::{Error, Result};
use crate::storage::{Catalog, Collection, Dropped};
use crate::value::{Doc, Millis};

/// How many documents are added in one lock hold.
pub const BATCH: usize = 100;

/// What became of a batch.
#[derive(Debug, Default)]
pub struct Inserted {
    pub count: usize,
    /// The document at `count` (of an ordered batch), and why it was not added.
    pub failed: Option<Error>,
}

/// Adds a document of the server's own, and creates the collection if there is none.
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
        // Dropped in between: it is created again.
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
