//! One batch of a cursor, written directly into the reply.

use crate::value::{ArrayBuilder, Doc};

/// The largest batch: as much as one document of the largest size.
const MAX_BATCH_BYTES: usize = 16 * 1024 * 1024;

/// The elements of the array `firstBatch` or `nextBatch`, appended to a buffer. If a batch takes several slices,
/// [`ReplyBatch::resume`] continues it.
pub struct ReplyBatch<'b> {
    out: &'b mut Vec<u8>,
    /// The offset of the first element.
    start: usize,
    rows: u32,
    limit: u32,
}

// === impl ReplyBatch ===

impl<'b> ReplyBatch<'b> {
    /// Starts an empty batch of at most `limit` rows at the end of `out`.
    pub fn new(out: &'b mut Vec<u8>, limit: u32) -> Self {
        let start = out.len();
        Self {
            out,
            start,
            rows: 0,
            limit,
        }
    }

    /// Continues a batch of `rows` rows whose elements begin at `start`.
    pub fn resume(out: &'b mut Vec<u8>, start: usize, rows: u32, limit: u32) -> Self {
        Self {
            out,
            start,
            rows,
            limit,
        }
    }

    /// Returns whether the batch has reached its limit of rows.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.rows >= self.limit
    }

    /// Returns how many more rows the batch can take.
    pub fn room(&self) -> u32 {
        self.limit.saturating_sub(self.rows)
    }

    pub fn rows(&self) -> u32 {
        self.rows
    }

    pub fn bytes(&self) -> usize {
        self.out.len() - self.start
    }

    /// Appends a row. Returns false if the row does not fit and belongs into the next batch. The first row always fits, so
    /// that every batch makes progress.
    #[inline]
    pub fn push(&mut self, row: Doc<'_>) -> bool {
        self.push_with(|out| out.extend_from_slice(row.bytes()))
    }

    /// Appends a row that `write` writes at the end of the buffer. A row that does not fit is removed again.
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
