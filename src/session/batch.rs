//! The rows of one reply of a cursor, written where they will be sent from.

use crate::value::{ArrayBuilder, Doc};

/// A reply holds at most one document of the largest size.
const MAX_BATCH_BYTES: usize = 16 * 1024 * 1024;

/// Elements of the array `firstBatch` or `nextBatch`, appended to a buffer. It may be put down and taken up again
/// ([`Batch::resume`]) when a batch takes several slices.
pub struct Batch<'b> {
    out: &'b mut Vec<u8>,
    /// Where the first element stands.
    start: usize,
    rows: u32,
    limit: u32,
}

// === impl Batch ===

impl<'b> Batch<'b> {
    /// An empty batch of at most `limit` rows at the end of `out`.
    pub fn new(out: &'b mut Vec<u8>, limit: u32) -> Self {
        let start = out.len();
        Self {
            out,
            start,
            rows: 0,
            limit,
        }
    }

    /// Goes on with a batch of `rows` rows whose elements begin at `start`.
    pub fn resume(out: &'b mut Vec<u8>, start: usize, rows: u32, limit: u32) -> Self {
        Self {
            out,
            start,
            rows,
            limit,
        }
    }

    /// No further row is wanted.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.rows >= self.limit
    }

    /// How many more rows are wanted at most.
    pub fn room(&self) -> u32 {
        self.limit.saturating_sub(self.rows)
    }

    pub fn rows(&self) -> u32 {
        self.rows
    }

    pub fn bytes(&self) -> usize {
        self.out.len() - self.start
    }

    /// Appends a row. `false`: it does not fit, and belongs into the next batch. The first row always fits, so that
    /// every batch makes progress.
    #[inline]
    pub fn push(&mut self, row: Doc<'_>) -> bool {
        self.push_with(|out| out.extend_from_slice(row.bytes()))
    }

    /// Appends a row that `write` puts at the end of the buffer, whole; what does not fit is taken back.
    #[inline]
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        if self.is_full() {
            return false;
        }
        let before = self.out.len();
        ArrayBuilder::element(self.out, self.rows, write);
        if self.bytes() > MAX_BATCH_BYTES && self.rows > 0 {
            self.out.truncate(before);
            return false;
        }
        self.rows += 1;
        true
    }
}
