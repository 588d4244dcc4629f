//! Adding documents, about a hundred in one lock hold.

use std::sync::Arc;

use super::{Stopped, collection_for};
use crate::error::{Error, Result};
use crate::storage::{Catalog, Collection, Dropped, ReadPoint};
use crate::value::{Doc, Millis};
use crate::wait::Wait;

/// The largest number of documents that are added in one lock hold.
pub const BATCH: usize = 100;

/// The result of adding a batch.
#[derive(Debug, Default)]
pub struct Inserted {
    pub count: usize,
    /// The error of the document at position `count`, which was not added. The batch stops there.
    pub failed: Option<Error>,
    /// A transaction holds up the document at position `count`: try again when this wait is over. The batch stops there.
    pub blocked: Option<Wait>,
}

/// Adds a document of the server's own. Creates the collection if it does not exist.
pub fn insert_own(
    catalog: &Arc<Catalog>,
    database: &str,
    collection: &str,
    document: Doc<'_>,
    now: Millis,
) -> Result<()> {
    let at = ReadPoint::outside_transactions(now);
    loop {
        let (collection, _) = collection_for(catalog, database, collection, at)?;
        let documents = std::iter::once(document.bytes());
        // If the collection was dropped in between, the loop creates it again.
        if let Ok(inserted) = insert_batch(&collection, documents, at) {
            return inserted.failed.map_or(Ok(()), Err);
        }
    }
}

/// Adds documents in their order and stops at the first that cannot be added.
pub fn insert_batch<'d>(
    collection: &Collection,
    documents: impl Iterator<Item = &'d [u8]>,
    at: ReadPoint,
) -> Result<Inserted, Dropped> {
    collection.write_at(at, |writer| {
        let mut inserted = Inserted::default();
        for bytes in documents {
            match writer.insert(bytes) {
                Ok(_) => inserted.count += 1,
                Err(reason) => {
                    match Stopped::by(&reason, writer, bytes) {
                        Stopped::Claimed(wait) => inserted.blocked = Some(wait),
                        Stopped::Failed(error) => inserted.failed = Some(error),
                        Stopped::Dropped => {}
                    }
                    break;
                }
            }
        }
        inserted
    })
}
