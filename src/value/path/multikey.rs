//! Where the paths of an index meet arrays.

use smallvec::SmallVec;

use super::Path;

/// Which parts of the paths of an index name an array, in some document. It is empty while no document has an array on any
/// of the paths, as in most indexes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MultikeyPaths(SmallVec<[u64; 2]>);

/// The parts of one path that name an array: bit n for part n. Part 63 stands for all parts behind it, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ArrayParts(u64);

/// The number of parts that have a bit of their own, and the one bit of all others.
const BITS: usize = u64::BITS as usize;

// === impl MultikeyPaths ===

impl MultikeyPaths {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the arrays on the path of a field of the index.
    pub fn of(&self, field: usize) -> ArrayParts {
        ArrayParts(self.0.get(field).copied().unwrap_or_default())
    }

    pub fn add(&mut self, field: usize, part: usize) {
        if self.0.len() <= field {
            self.0.resize(field + 1, 0);
        }
        if let Some(parts) = self.0.get_mut(field) {
            *parts |= 1 << part.min(BITS - 1);
        }
    }

    pub fn merge(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (parts, more) in self.0.iter_mut().zip(&other.0) {
            *parts |= more;
        }
    }
}

// === impl ArrayParts ===

impl ArrayParts {
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn has(self, part: usize) -> bool {
        self.0 >> part.min(BITS - 1) & 1 == 1
    }

    /// Returns the arrays that two paths pass through together.
    pub fn shared(self, path: &Path, others: Self, other: &Path) -> Self {
        let same = path.parts().zip(other.parts());
        let count = same.take_while(|(one, other)| one == other).count();
        let prefix = match count {
            BITS.. => u64::MAX,
            count => (1 << count) - 1,
        };
        Self(self.0 & others.0 & prefix)
    }

    /// Returns whether all of these arrays are among the first parts of the path.
    pub fn are_within(self, first: usize) -> bool {
        first >= BITS || self.0 >> first == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_paths() {
        let mut all = MultikeyPaths::default();
        assert!(all.is_empty());
        all.add(1, 0);
        all.add(1, 2);
        let mut more = MultikeyPaths::default();
        more.add(2, 0);
        more.add(2, 70);
        all.merge(&more);
        let [none, one, other] = [0, 1, 2].map(|field| all.of(field));
        assert!(none.is_empty() && !one.is_empty());
        assert_eq!(
            [0, 1, 2, 3].map(|part| one.has(part)),
            [true, false, true, false]
        );
        assert!(one.are_within(3) && !one.are_within(2));
        assert!(other.has(100) && other.are_within(64) && !other.are_within(63));
        let [a, b] = ["a.b.c", "a.x"].map(Path::parse);
        assert_eq!(one.shared(&a, other, &b), ArrayParts(1));
        assert!(one.shared(&a, other, &Path::parse("b.b.c")).is_empty());
    }
}
