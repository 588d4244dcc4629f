//! A stored document as other modules see it, the data that a write gives it, and totals.

use crate::ttl::{End, OwnTtl};
use crate::value::Millis;

/// A stored document, seen under the collection's lock.
#[derive(Clone, Copy)]
pub struct Stored<'a> {
    pub bytes: &'a [u8],
    pub ts: Millis,
    pub own: OwnTtl,
    pub end: End,
}

/// The data that a write gives a document besides its bytes.
#[derive(Clone, Copy)]
pub(super) struct Stamp {
    pub ts: Millis,
    pub own: OwnTtl,
    pub dates: End,
    /// The end under the next date rules, while they are being prepared.
    pub pending: End,
}

/// A number of documents, and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    pub count: u64,
    pub bytes: u64,
}
