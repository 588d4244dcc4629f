//! Batches of rows that pass through a pipeline: one reused buffer that holds documents one after another.

use crate::value::{Doc, DocBuilder};

/// The number of rows, and of bytes, at which the producer of a batch should stop.
pub const TARGET_ROWS: usize = 256;
pub const TARGET_BYTES: usize = 128 * 1024;

/// The stored document that a row stands for.
///
/// A row keeps its origin through every stage that maps one row to one row. A document that ends before its row leaves the
/// cursor is then left out. A row that is computed from several documents has no origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The collection, as an index into the handles that the engine keeps for the cursor.
    pub source: u32,
    pub record: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    pub doc: Doc<'a>,
    pub origin: Option<Origin>,
}

/// A buffer of rows. Stages append to it and never change the rows that it already holds.
#[derive(Debug, Clone)]
pub struct RowBatch {
    bytes: Vec<u8>,
    ends: Vec<RowEnd>,
    /// Producers stop at this many rows.
    target: usize,
}

/// The end of a row, which begins where the previous row ends.
#[derive(Debug, Clone, Copy)]
struct RowEnd {
    at: usize,
    origin: Option<Origin>,
}

// === impl RowBatch ===

impl Default for RowBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl RowBatch {
    pub fn new() -> Self {
        Self {
            bytes: Vec::new(),
            ends: Vec::new(),
            target: TARGET_ROWS,
        }
    }

    /// Clears the batch and sets how many rows the caller wants at most. A stage asks its input for no more than its
    /// caller asked for.
    pub fn restart(&mut self, wanted: usize) {
        self.clear();
        self.target = wanted.clamp(1, TARGET_ROWS);
    }

    /// Clears the batch. The buffer is kept for reuse, unless a huge document has enlarged it.
    pub fn clear(&mut self) {
        if self.bytes.capacity() > 4 * TARGET_BYTES {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.ends.clear();
    }

    /// Prepares for a wait: an empty batch frees its buffers. Returns the bytes that remain.
    pub fn suspend(&mut self) -> usize {
        if self.is_empty() {
            self.bytes = Vec::new();
            self.ends = Vec::new();
        }
        self.bytes.capacity() + self.ends.capacity() * size_of::<RowEnd>()
    }

    /// Makes room for a large row, so that the buffer is not copied while it grows.
    pub fn reserve(&mut self, bytes: usize) {
        if bytes > TARGET_BYTES {
            self.bytes.reserve_exact(bytes);
        }
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns whether producers should stop.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.ends.len() >= self.target || self.bytes.len() >= TARGET_BYTES
    }

    /// Returns how many more rows are wanted.
    pub fn room(&self) -> usize {
        self.target.saturating_sub(self.ends.len())
    }

    /// Sets the total number of rows that are wanted, and returns the previous setting.
    pub fn set_target(&mut self, rows: usize) -> usize {
        std::mem::replace(&mut self.target, rows)
    }

    #[inline]
    fn start(&self, index: usize) -> usize {
        match index.checked_sub(1) {
            None => 0,
            Some(before) => self.ends.get(before).map_or(self.bytes.len(), |end| end.at),
        }
    }

    #[inline]
    pub fn get(&self, index: usize) -> Option<Row<'_>> {
        let end = self.ends.get(index)?;
        Some(Row {
            doc: Doc::new(self.bytes.get(self.start(index)..end.at)?),
            origin: end.origin,
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        self.iter_from(0)
    }

    pub fn iter_from(&self, first: usize) -> impl Iterator<Item = Row<'_>> {
        let mut start = self.start(first);
        self.ends.iter().skip(first).map(move |end| {
            let doc = Doc::new(self.bytes.get(start..end.at).unwrap_or_default());
            start = end.at;
            Row {
                doc,
                origin: end.origin,
            }
        })
    }

    #[inline]
    pub fn push(&mut self, doc: Doc<'_>, origin: Option<Origin>) {
        self.bytes.extend_from_slice(doc.bytes());
        self.close(origin);
    }

    /// Appends a row that `write` produces. If `write` fails or returns `false`, nothing is appended.
    pub fn push_with<E>(
        &mut self,
        origin: Option<Origin>,
        write: impl FnOnce(&mut Vec<u8>) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let start = self.bytes.len();
        let kept = write(&mut self.bytes);
        match kept {
            Ok(true) => self.close(origin),
            _ => self.bytes.truncate(start),
        }
        kept
    }

    /// Appends a row, field by field.
    pub fn push_doc(&mut self, origin: Option<Origin>, write: impl FnOnce(&mut DocBuilder<'_>)) {
        let mut builder = DocBuilder::begin(&mut self.bytes);
        write(&mut builder);
        builder.end();
        self.close(origin);
    }

    #[inline]
    fn close(&mut self, origin: Option<Origin>) {
        self.ends.push(RowEnd {
            at: self.bytes.len(),
            origin,
        });
    }

    /// Keeps only the first `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        if rows < self.ends.len() {
            self.bytes.truncate(self.start(rows));
            self.ends.truncate(rows);
        }
    }

    /// Removes `count` rows, starting with row `first`.
    pub fn remove(&mut self, first: usize, count: usize) {
        let count = count.min(self.len().saturating_sub(first));
        if count == 0 {
            return;
        }
        let (from, to) = (self.start(first), self.start(first + count));
        self.bytes.drain(from..to);
        self.ends.drain(first..first + count);
        for end in self.ends.iter_mut().skip(first) {
            end.at -= to - from;
        }
    }

    /// Keeps the rows from `first` on for which `keep` returns `true`, and closes the gaps. After an error the batch is
    /// truncated at `first`.
    pub fn retain<E>(
        &mut self,
        first: usize,
        mut keep: impl FnMut(Row<'_>) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut start = self.start(first);
        let (mut filled, mut kept) = (start, first);
        for index in first..self.ends.len() {
            let end = self.ends[index];
            let row = Row {
                doc: Doc::new(&self.bytes[start..end.at]),
                origin: end.origin,
            };
            match keep(row) {
                Ok(true) => {
                    if filled != start {
                        self.bytes.copy_within(start..end.at, filled);
                    }
                    filled += end.at - start;
                    self.ends[kept] = RowEnd {
                        at: filled,
                        origin: end.origin,
                    };
                    kept += 1;
                }
                Ok(false) => {}
                Err(error) => {
                    self.truncate(first);
                    return Err(error);
                }
            }
            start = end.at;
        }
        self.bytes.truncate(filled);
        self.ends.truncate(kept);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::DocBuf;

    fn filled(numbers: &[i32]) -> RowBatch {
        let mut batch = RowBatch::new();
        for &n in numbers {
            batch.push_doc(
                Some(Origin {
                    source: 0,
                    record: n as u64,
                }),
                |d| {
                    d.put_i32("n", n).put_str("pad", &"x".repeat(n as usize));
                },
            );
        }
        batch
    }

    fn numbers(batch: &RowBatch) -> Vec<i32> {
        batch
            .iter()
            .map(|row| {
                let n = row.doc.get("n").as_i32().unwrap();
                assert_eq!(row.origin.unwrap().record, n as u64);
                assert_eq!(row.doc.get("pad").as_str().unwrap().len(), n as usize);
                n
            })
            .collect()
    }

    #[test]
    fn rows_are_truncated_removed_and_retained() {
        let all = [1, 5, 2, 8, 3];
        assert_eq!(numbers(&filled(&all)), all);
        let mut batch = filled(&all);
        batch.truncate(3);
        assert_eq!(numbers(&batch), [1, 5, 2]);
        let mut batch = filled(&all);
        batch.remove(1, 2);
        assert_eq!(numbers(&batch), [1, 8, 3]);
        batch.remove(0, 9);
        assert!(batch.is_empty());
        let mut batch = filled(&all);
        batch
            .retain(1, |row| Ok::<_, ()>(row.doc.get("n").as_i32() > Some(2)))
            .unwrap();
        assert_eq!(numbers(&batch), [1, 5, 8, 3]);
        assert!(batch.retain(1, |_| Err(())).is_err());
        assert_eq!(numbers(&batch), [1]);
        batch.push(DocBuf::new().as_doc(), None);
        assert_eq!(batch.get(1).unwrap().doc, Doc::EMPTY);
        assert!(batch.get(2).is_none());
    }

    #[test]
    fn a_row_that_fails_leaves_nothing() {
        let mut batch = filled(&[1]);
        for answer in [Ok(false), Err(())] {
            let _ = batch.push_with(None, |out| {
                out.extend_from_slice(b"half");
                answer
            });
        }
        assert_eq!(numbers(&batch), [1]);
        assert_eq!(batch.bytes, filled(&[1]).bytes);
    }
}
