//! Sorted byte strings, one after the other in one buffer: the content of a tree node.

use std::cmp::Ordering;

/// The total length of the strings in a node, unless a single one is longer: two pages of the allocator, which are returned
/// to the system together with the node.
pub const NODE: usize = 8192;

/// A sorted sequence of byte strings in one buffer.
#[derive(Default)]
pub struct Packed {
    bytes: Vec<u8>,
    /// Where each string begins.
    starts: Vec<u32>,
}

// === impl Packed ===

impl Packed {
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    #[inline]
    pub fn get(&self, at: usize) -> Option<&[u8]> {
        let start = *self.starts.get(at)? as usize;
        self.bytes.get(start..self.start(at + 1))
    }

    pub fn first(&self) -> &[u8] {
        self.get(0).unwrap_or_default()
    }

    pub fn last(&self) -> &[u8] {
        let last = self.len().checked_sub(1).and_then(|at| self.get(at));
        last.unwrap_or_default()
    }

    /// Returns where a string begins, or the end of the buffer for the position after the last one.
    #[inline]
    fn start(&self, at: usize) -> usize {
        let start = self.starts.get(at);
        start.map_or(self.bytes.len(), |&start| start as usize)
    }

    /// Returns the position of the string, or else the position at which it belongs.
    #[inline]
    pub fn find(&self, string: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle).unwrap_or_default().cmp(string) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    /// Returns whether the string fits. At least `at_least` strings always fit, however long they are.
    pub fn has_room_for(&self, string: &[u8], at_least: usize) -> bool {
        self.len() < at_least || self.bytes.len() + string.len() <= NODE
    }

    pub fn insert(&mut self, at: usize, string: &[u8]) {
        let (start, end) = (self.start(at), self.bytes.len());
        let grown = end + string.len();
        if grown > self.bytes.capacity() {
            // Doubling beyond the length of a node would waste most of it.
            let capacity = (2 * self.bytes.capacity()).min(NODE).max(grown);
            self.bytes.reserve_exact(capacity - end);
        }
        self.bytes.resize(grown, 0);
        self.bytes.copy_within(start..end, start + string.len());
        self.bytes[start..start + string.len()].copy_from_slice(string);
        self.starts.insert(at, start as u32);
        for later in &mut self.starts[at + 1..] {
            *later += string.len() as u32;
        }
    }

    pub fn remove(&mut self, at: usize) {
        let (start, end) = (self.start(at), self.start(at + 1));
        self.bytes.drain(start..end);
        self.starts.remove(at);
        for later in &mut self.starts[at..] {
            *later -= (end - start) as u32;
        }
    }

    /// Returns where to split a full node when a string belongs at `at`: in the middle. If the string comes first or last,
    /// the split is there, so that ascending or descending inserts leave full nodes behind.
    pub fn cut(&self, at: usize) -> usize {
        if at == 0 || at == self.len() {
            return at;
        }
        let half = self.bytes.len() / 2;
        let middle = self
            .starts
            .partition_point(|&start| (start as usize) < half);
        middle.min(self.len() - 1)
    }

    pub fn split_off(&mut self, cut: usize) -> Self {
        let start = self.start(cut);
        let right = Self {
            bytes: self.bytes[start..].to_vec(),
            starts: self.starts[cut..]
                .iter()
                .map(|&at| at - start as u32)
                .collect(),
        };
        self.bytes.truncate(start);
        self.starts.truncate(cut);
        right
    }
}
