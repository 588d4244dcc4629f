//! The memory of a blocking stage: rows with their sort keys, in large blocks, and their order.
//!
//! Keys are order-preserving bytes, so they compare with `memcmp`. The entry itself holds the first eight bytes. Rows are
//! sorted in runs as they arrive, and the runs are merged as they leave, so that no step must sort everything at once.

use std::cmp::Ordering;

use super::{Origin, Row, RowBatch, tie_order};
use crate::value::Doc;

/// The bytes of one block of memory.
const PIECE: usize = 1 << 20;
/// Less than these bytes of dropped rows are not worth a copy of the others.
const FREED: usize = 64 * 1024;
/// The number of rows that are sorted at once, which takes about half a millisecond.
const RUN: usize = 4096;

/// Rows in the order of their keys. Rows with equal keys stay in input order, unless a bound cuts off others: see [`tie_order`].
#[derive(Default)]
pub(super) struct RunSorter {
    pieces: Vec<Vec<u8>>,
    size: usize,
    /// How many of these bytes belong to rows that are no longer held.
    dropped: usize,
    /// Sorted runs, each with its next row. `last` is the run that is being filled.
    runs: Vec<SortedRun>,
    last: Vec<RunEntry>,
    sequence: u64,
    /// A heap of the runs that still have rows. The run with the least row is first.
    heap: Vec<u32>,
}

#[derive(Default)]
struct SortedRun {
    entries: Vec<RunEntry>,
    next: usize,
}

/// The location of a key and its row, which directly follows it.
#[derive(Clone, Copy)]
struct RunEntry {
    prefix: u64,
    piece: u32,
    at: u32,
    key: u32,
    row: u32,
    sequence: u64,
    origin: Option<Origin>,
}

// === impl RunEntry ===

impl RunEntry {
    fn size(&self) -> usize {
        self.key as usize + self.row as usize
    }
}

// === impl RunSorter ===

impl RunSorter {
    /// Returns the bytes in use.
    pub fn size(&self) -> usize {
        let entries =
            self.last.len() + self.runs.iter().map(|run| run.entries.len()).sum::<usize>();
        self.size + entries * size_of::<RunEntry>()
    }

    /// Returns the allocated bytes, including those not in use yet.
    pub fn memory(&self) -> usize {
        let entries = self.last.capacity()
            + self
                .runs
                .iter()
                .map(|run| run.entries.capacity())
                .sum::<usize>();
        self.pieces.iter().map(Vec::capacity).sum::<usize>() + entries * size_of::<RunEntry>()
    }

    pub fn len(&self) -> usize {
        self.last.len() + self.runs.iter().map(|run| run.entries.len()).sum::<usize>()
    }

    pub fn push(&mut self, key: &[u8], row: Row<'_>) {
        let entry = self.store(key, row.doc.bytes(), row.origin);
        self.last.push(entry);
        if self.last.len() == RUN {
            self.close_run();
        }
    }

    /// Adds a row if only the first `bound` rows are wanted. A row that cannot be among the first is dropped.
    pub fn push_bounded(&mut self, key: &[u8], row: Row<'_>, bound: usize) {
        if self.last.len() < bound {
            let entry = self.store(key, row.doc.bytes(), row.origin);
            self.last.push(entry);
            if self.last.len() == bound {
                self.with_order(|entries, less| tie_order::make_heap(entries, &less));
            }
            return;
        }
        let Some(worst) = self.last.first().copied() else {
            return;
        };
        if key >= self.key(&worst) {
            return;
        }
        let entry = self.store(key, row.doc.bytes(), row.origin);
        self.with_order(|entries, less| tie_order::replace_greatest(entries, entry, &less));
        self.dropped += worst.size();
        if self.dropped > self.size / 2 && self.dropped > FREED {
            self.free_dropped();
        }
    }

    /// Changes the entries of the open run by the order of their keys alone.
    fn with_order(
        &mut self,
        change: impl FnOnce(&mut [RunEntry], &dyn Fn(&RunEntry, &RunEntry) -> bool),
    ) {
        let mut entries = std::mem::take(&mut self.last);
        change(&mut entries, &|a, b| self.keys(a, b).is_lt());
        self.last = entries;
    }

    /// Copies what is held, so that the memory of the dropped rows is freed.
    fn free_dropped(&mut self) {
        let mut entries = std::mem::take(&mut self.last);
        let old = std::mem::take(&mut self.pieces);
        (self.size, self.dropped) = (0, 0);
        for entry in &mut entries {
            let (key, row) = bytes(&old, entry);
            *entry = self.store(key, row, entry.origin);
        }
        self.last = entries;
    }

    fn store(&mut self, key: &[u8], row: &[u8], origin: Option<Origin>) -> RunEntry {
        let needed = key.len() + row.len();
        if self
            .pieces
            .last()
            .is_none_or(|piece| piece.capacity() - piece.len() < needed)
        {
            // Small sorts use small blocks.
            let wanted = if self.pieces.is_empty() {
                16 * 1024
            } else {
                PIECE
            };
            self.pieces.push(Vec::with_capacity(needed.max(wanted)));
        }
        let index = self.pieces.len() - 1;
        let piece = &mut self.pieces[index];
        let at = piece.len() as u32;
        piece.extend_from_slice(key);
        piece.extend_from_slice(row);
        self.size += needed;
        self.sequence += 1;
        let mut prefix = [0; 8];
        let short = key.len().min(8);
        prefix[..short].copy_from_slice(&key[..short]);
        RunEntry {
            prefix: u64::from_be_bytes(prefix),
            piece: index as u32,
            at,
            key: key.len() as u32,
            row: row.len() as u32,
            sequence: self.sequence,
            origin,
        }
    }

    fn key(&self, entry: &RunEntry) -> &[u8] {
        bytes(&self.pieces, entry).0
    }

    fn keys(&self, a: &RunEntry, b: &RunEntry) -> Ordering {
        a.prefix
            .cmp(&b.prefix)
            .then_with(|| self.key(a).cmp(self.key(b)))
    }

    fn order(&self, a: &RunEntry, b: &RunEntry) -> Ordering {
        self.keys(a, b).then_with(|| a.sequence.cmp(&b.sequence))
    }

    fn close_run(&mut self) {
        let mut entries = std::mem::take(&mut self.last);
        entries.sort_unstable_by(|a, b| self.order(a, b));
        if !entries.is_empty() {
            self.runs.push(SortedRun { entries, next: 0 });
        }
    }

    /// Ends the input. From here on, rows only leave.
    pub fn finish(&mut self, bound: Option<usize>) {
        if bound.is_some_and(|bound| self.last.len() == bound) {
            self.with_order(|entries, less| tie_order::sort_heap(entries, &less));
            let entries = std::mem::take(&mut self.last);
            self.runs.push(SortedRun { entries, next: 0 });
        } else {
            self.close_run();
        }
        self.heap = (0..self.runs.len() as u32).collect();
        for at in (0..self.heap.len() / 2).rev() {
            self.sift(at);
        }
    }

    fn head(&self, at: usize) -> Option<&RunEntry> {
        let run = self.runs.get(*self.heap.get(at)? as usize)?;
        run.entries.get(run.next)
    }

    fn before(&self, a: usize, b: usize) -> bool {
        match (self.head(a), self.head(b)) {
            (Some(a), Some(b)) => self.order(a, b).is_lt(),
            (a, _) => a.is_some(),
        }
    }

    fn sift(&mut self, mut at: usize) {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.before(child, least) {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }

    /// Removes and returns the first remaining row. It is valid until the next call.
    pub fn pop(&mut self) -> Option<Row<'_>> {
        let entry = *self.head(0)?;
        let run = &mut self.runs[self.heap[0] as usize];
        run.next += 1;
        if run.next == run.entries.len() {
            *run = SortedRun::default();
            self.heap.swap_remove(0);
        }
        self.sift(0);
        Some(Row {
            doc: Doc::new(bytes(&self.pieces, &entry).1),
            origin: entry.origin,
        })
    }

    /// Moves rows out until the batch is full. Returns `false` if none is left.
    pub fn drain_into(&mut self, out: &mut RowBatch) -> bool {
        while !out.is_full() {
            match self.pop() {
                Some(row) => out.push(row.doc, row.origin),
                None => return false,
            }
        }
        !self.heap.is_empty()
    }
}

fn bytes<'p>(pieces: &'p [Vec<u8>], entry: &RunEntry) -> (&'p [u8], &'p [u8]) {
    let (at, key, row) = (entry.at as usize, entry.key as usize, entry.row as usize);
    let piece = &pieces[entry.piece as usize];
    (&piece[at..at + key], &piece[at + key..at + key + row])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::DocBuf;

    fn run(count: u32, bound: Option<usize>) -> Vec<(u32, u32)> {
        let mut held = RunSorter::default();
        let mut state = 7u32;
        for n in 0..count {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let key = state >> 22;
            let doc = DocBuf::build(|d| {
                d.put_i32("k", key as i32).put_i32("n", n as i32);
            });
            let row = Row {
                doc: doc.as_doc(),
                origin: None,
            };
            match bound {
                None => held.push(&key.to_be_bytes(), row),
                Some(bound) => held.push_bounded(&key.to_be_bytes(), row, bound),
            }
        }
        held.finish(bound);
        let mut rows = Vec::new();
        while let Some(row) = held.pop() {
            rows.push((
                row.doc.get("k").as_i32().unwrap() as u32,
                row.doc.get("n").as_i32().unwrap() as u32,
            ));
        }
        rows
    }

    #[test]
    fn rows_are_sorted_and_a_limit_keeps_the_first_ones() {
        for count in [0, 1, 100, 4096, 4097, 20_000] {
            let all = run(count, None);
            let mut sorted = all.clone();
            sorted.sort_unstable();
            assert_eq!(all.len(), count as usize);
            assert_eq!(all, sorted);
            let keys = |rows: &[(u32, u32)]| rows.iter().map(|row| row.0).collect::<Vec<_>>();
            for bound in [1, 10, 5000] {
                let first = &all[..bound.min(all.len())];
                assert_eq!(
                    keys(&run(count, Some(bound))),
                    keys(first),
                    "{count} {bound}"
                );
            }
        }
    }
}
