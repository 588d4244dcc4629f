//! Counted work: what explain shows, and what Azure Cosmos DB charges for a request.
//!
//! Code that examines or writes documents counts that in an [`Effort`]. The caller passes one in, or takes the result and
//! adds it to its own. So the effort of a command arrives in its call, or in the task that the command became. Expiry is
//! not counted, because no command causes it.

use std::ops::{AddAssign, Sub};

/// The work of a command, or of a part of one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effort {
    /// Index entries examined.
    pub keys: u64,
    /// Documents examined.
    pub documents: u64,
    /// Those of them that were requested by their `_id`.
    pub by_id: u64,
    /// Those of them that passed the filter.
    pub matched: u64,
    /// The total weight of inserted documents ([`Weigh`]).
    pub inserted: u64,
    /// The total weight of changed documents, after the change.
    pub changed: u64,
    /// The number of documents removed.
    pub removed: u64,
}

/// Returns the weight of a written document of this size. The cost model defines it.
pub type Weigh = fn(usize) -> u64;

// === impl Effort ===

impl AddAssign for Effort {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        self.keys += other.keys;
        self.documents += other.documents;
        self.by_id += other.by_id;
        self.matched += other.matched;
        self.inserted += other.inserted;
        self.changed += other.changed;
        self.removed += other.removed;
    }
}

/// Returns the work done since `earlier`.
impl Sub for Effort {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            keys: self.keys - earlier.keys,
            documents: self.documents - earlier.documents,
            by_id: self.by_id - earlier.by_id,
            matched: self.matched - earlier.matched,
            inserted: self.inserted - earlier.inserted,
            changed: self.changed - earlier.changed,
            removed: self.removed - earlier.removed,
        }
    }
}
