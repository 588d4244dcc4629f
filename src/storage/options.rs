//! How a collection is set up, apart from its indexes and its rules.

use super::Totals;
use crate::error::Error;
use crate::ttl::IndexingMode;
use crate::value::DocBuf;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Where the oldest documents make way for new ones.
    pub cap: Option<Cap>,
    /// `indexingPolicy.indexingMode`, if the client gave one.
    pub indexing_mode: Option<IndexingMode>,
    /// What else `create` was given and listCollections shows.
    pub shown: DocBuf,
}

/// The largest document that a server takes, where that is less than MongoDB's, and what it says of a larger one.
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
