//! Counted work: what explain shows, and what Azure Cosmos DB charges a request for.
//!
//! Whoever looks at documents or writes them counts that in an [`Effort`], which its caller hands in or takes from it and adds to
//! its own. So the effort of a command arrives in its call, or in the task that it became. What ends by itself is no command's
//! doing and is not counted.

use std::ops::{AddAssign, Sub};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effort {
    /// Index entries that were looked at.
    pub keys: u64,
    /// Documents that were looked at.
    pub documents: u64,
    /// Those of them that were asked for by their `_id`.
    pub by_id: u64,
    /// Those of them that passed the filter.
    pub matched: u64,
    /// What the documents that were added weigh together ([`Weigh`]).
    pub inserted: u64,
    /// What the documents that were changed weigh together, as they became.
    pub changed: u64,
    /// How many documents were removed.
    pub removed: u64,
}

/// What a document of so many bytes weighs when it is written. That is for the tariff to say.
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

/// What was done since `earlier`.
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
