//! Documents at rest as others see them: one, what a write gives it, and how many there are.

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

/// What a write gives a document besides its bytes.
#[derive(Clone, Copy)]
pub(super) struct Stamp {
    pub ts: Millis,
    pub own: OwnTtl,
    pub dates: End,
    /// The end under the date rules to come, while there are such.
    pub pending: End,
}

/// Documents and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    pub count: u64,
    pub bytes: u64,
}
