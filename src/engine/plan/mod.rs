//! How a query finds its documents: by `_id`, through an index, or by looking at all of them.
//!
//! [`plan`] is pure: it sees the filter's tree, the sort, the hint and what indexes there are, and picks an [`Access`]. What
//! an access yields is always tested against the whole filter, so the one law that matters is that no interval leaves out a
//! document that would pass. Where a predicate cannot promise that (arrays, null, numbers in paths) it gives no bounds.
//!
//! Whether an index is multikey decides what is safe. A plan holds for the [`IndexInfo`]s that it was made from; if a write
//! makes one of them multikey (or indexes come or go), it has to be made again.

mod bounds;
mod candidate;
mod explain;
mod implies;
mod interval;
mod predicates;
mod ranges;
#[cfg(test)]
mod tests;

pub use candidate::plan;
pub use explain::winning_plan;
pub use interval::Interval;

use std::sync::Arc;

use super::access::KeyRange;
use crate::{
    query::Filter,
    storage::index::IndexSpec,
    value::{Doc, Path, Value},
};

/// What the planner knows of an index.
#[derive(Debug, Clone)]
pub struct IndexInfo<'a> {
    pub spec: &'a IndexSpec,
    /// Bit n: some document has an array on the path of field n.
    pub multikey: u64,
    /// The filter of a partial index.
    pub partial: Option<Arc<Filter>>,
}

/// One key of a sort.
#[derive(Debug, Clone, Copy)]
pub struct SortKey<'a> {
    pub path: &'a Path,
    pub descending: bool,
}

/// What a client asks for by name.
#[derive(Debug, Clone, Copy)]
pub enum Hint<'a> {
    Name(&'a str),
    Key(Doc<'a>),
    Natural(Direction),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Backward,
}

/// The planner's answer.
#[derive(Debug)]
pub struct Plan {
    pub access: Access,
    /// The documents come in the order of the sort.
    pub sort_covered: bool,
}

#[derive(Debug)]
pub enum Access {
    /// No document can pass.
    Nothing,
    /// Every document, in natural order or its reverse.
    CollScan(Direction),
    /// The documents with these `_id`s.
    Ids(IdPoints),
    IndexScan(IndexScan),
    /// The alternatives of an `$or`, each by `_id` or through an index, each document once.
    Union(Vec<Access>),
}

#[derive(Debug)]
pub struct IdPoints {
    pub values: Vec<Value>,
    /// The same values as key bytes, ascending, each once.
    pub keys: Vec<Vec<u8>>,
    /// The filter asks for one `_id` and nothing else.
    pub alone: bool,
    /// As in [`IndexScan::used`].
    pub used: Vec<usize>,
}

#[derive(Debug)]
pub struct IndexScan {
    /// The place in the list that the planner was given.
    pub index: usize,
    /// Disjoint and ascending; going backward, the last one comes first.
    pub ranges: Vec<KeyRange>,
    pub direction: Direction,
    /// Per field of the index, for explain; `None` stands for all values.
    pub bounds: Vec<Option<Vec<Interval>>>,
    /// A document can come more than once.
    pub multikey: bool,
    /// The parts of a conjunction (by place) that the bounds express; the rest is what explain shows at the fetch.
    pub used: Vec<usize>,
}

// === impl IndexInfo ===

impl IndexInfo<'_> {
    fn is_multikey(&self, field: usize) -> bool {
        self.multikey >> field.min(63) & 1 == 1
    }

    fn is_descending(&self, field: usize) -> bool {
        self.spec.descending.get(field) == Some(&true)
    }
}

// === impl Direction ===

impl Direction {
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
        }
    }
}
