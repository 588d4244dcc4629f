//! The settings of a collection, except for its indexes and its TTL rules.

use super::Totals;
use crate::error::Error;
use crate::ttl::IndexingMode;
use crate::value::DocBuf;

/// The settings of a collection that `create` and `collMod` set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CollectionOptions {
    /// The limits of a capped collection, which evicts its oldest documents.
    pub cap: Option<Cap>,
    /// `indexingPolicy.indexingMode`, if the client gave one.
    pub indexing_mode: Option<IndexingMode>,
    /// Change streams can show whole documents from before and after a change (`changeStreamPreAndPostImages`).
    pub keeps_images: bool,
    /// Other options of `create`, which listCollections shows.
    pub shown: DocBuf,
}

/// The largest document that a server accepts, if that is less than MongoDB's limit, and the error for a larger one.
#[derive(Debug, Clone, Copy)]
pub struct SizeLimit {
    pub bytes: usize,
    pub refusal: fn() -> Error,
}

/// How much a capped collection holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    pub bytes: u64,
    pub documents: Option<u64>,
}

// === impl Cap ===

impl Cap {
    pub(super) fn holds(self, documents: Totals) -> bool {
        documents.bytes <= self.bytes && self.documents.is_none_or(|most| documents.count <= most)
    }
}
