//! How a query finds its documents: by `_id`, through an index, or by looking at all of them.
//!
//! [`plan`] is pure. It sees the filter's tree, the sort, the hint and [`Facts`] that were copied from the collection, and picks an
//! [`Access`]. It holds no lock, writes nothing and starts nothing. Its time is near linear in the size of the filter, and it
//! counts its work, so that a long one ends with its command.
//!
//! Two laws hold (`tests/law.rs`). An access leaves out no document that passes the filter: where a predicate cannot promise that
//! (arrays, null, numbers in paths) it gives no bounds. Where a plan is `exact` the access yields nothing else, so the walk does
//! not test the documents again; all others are tested against the whole filter.
//!
//! Whether an index is multikey decides which bounds are safe. A plan holds for the facts that it was made from; the walk
//! notices when an index has become multikey since.

mod bounds;
mod candidate;
mod equality;
mod explain;
mod hint;
mod id_point;
mod implies;
mod interval;
mod predicates;
mod ranges;
#[cfg(test)]
mod tests;

pub use candidate::plan;
pub(super) use equality::{equality_index, has_point};
pub use explain::winning_plan;
pub use hint::Hint;
pub(super) use id_point::has_one_key;
pub use id_point::{id_equality, plain_id};

use std::rc::Rc;
use std::sync::Arc;

use crate::{
    query::Filter,
    storage::index::{IndexNumber, IndexSpec},
    ttl::TsIndex,
    value::{Path, Value, ValueRef, key},
};
use predicates::FieldBounds;

/// What the planner knows of a collection.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The indexes that can be read.
    pub indexes: Vec<IndexFacts>,
    /// The index that stands for DefaultTTL, where there is a hint that could name it.
    pub ts_index: Option<TsIndex>,
}

/// What the planner knows of an index.
#[derive(Debug, Clone)]
pub struct IndexFacts {
    pub number: IndexNumber,
    pub spec: Arc<IndexSpec>,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Backward,
}

/// The planner's answer.
#[derive(Debug)]
pub struct Plan<'f> {
    pub access: Access,
    /// The documents come in the order of the sort.
    pub sort_covered: bool,
    /// The access yields only documents that pass the filter.
    pub exact: bool,
    /// For explain: one for each index that the access reads. None where all documents are looked at, or the one that the
    /// filter names by its `_id` alone.
    shown: Vec<Shown<'f>>,
}

/// Which documents are looked at, and in which order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// None: the filter cannot be met.
    Nothing,
    /// All of them, in natural order or its reverse.
    CollScan(Direction),
    /// Those with these `_id`s, as key bytes: ascending, each once.
    Ids(Vec<Vec<u8>>),
    IndexScan(IndexScan),
    /// These one after the other, each document once. They are not nested.
    Union(Vec<Access>),
}

/// Those that an index holds within some ranges.
#[derive(Debug, Clone)]
pub struct IndexScan {
    /// Which index it is: another may have taken its name since.
    pub number: IndexNumber,
    pub spec: Arc<IndexSpec>,
    /// Disjoint and ascending; going backward, the last one comes first.
    pub ranges: Vec<KeyRange>,
    pub direction: Direction,
    /// What the index was when the ranges were made.
    pub multikey: u64,
}

/// Encoded keys from `lower` on and below `upper`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyRange {
    pub lower: Vec<u8>,
    pub upper: Vec<u8>,
}

/// What explain shows of one index that is read.
#[derive(Debug)]
struct Shown<'f> {
    by: ShownIndex<'f>,
    /// The parts of the top conjunction (by place, ascending) that the bounds express. The rest is shown at the fetch.
    used: Vec<usize>,
}

#[derive(Debug)]
enum ShownIndex<'f> {
    /// The map of `_id`s, asked for these.
    Ids(&'f [Value]),
    Scan {
        index: IndexFacts,
        direction: Direction,
        /// Per field of the index; `None` stands for all values. Nothing where the client gives the ends itself.
        bounds: Option<Vec<Option<Rc<FieldBounds>>>>,
    },
}

// === impl IndexFacts ===

impl IndexFacts {
    fn is_multikey(&self, field: usize) -> bool {
        self.multikey >> field.min(63) & 1 == 1
    }

    fn is_descending(&self, field: usize) -> bool {
        self.spec.descending.get(field) == Some(&true)
    }
}

// === impl Plan ===

impl<'f> Plan<'f> {
    /// That of a filter which asks for one `_id` and nothing else: the most frequent query needs no facts.
    pub fn of_id(id: ValueRef<'_>) -> Self {
        Self {
            access: Access::Ids(vec![key::with(id, <[u8]>::to_vec)]),
            sort_covered: true,
            exact: true,
            shown: Vec::new(),
        }
    }

    /// One range of an index, forward. Its order is no sort's: `sort_covered` says that there is none.
    pub fn of_range(index: IndexFacts, range: KeyRange, sort_covered: bool) -> Self {
        let shown = Shown {
            by: ShownIndex::Scan {
                index: index.clone(),
                direction: Direction::Forward,
                bounds: None,
            },
            used: Vec::new(),
        };
        Self {
            access: Access::IndexScan(IndexScan::of_range(index, range)),
            sort_covered,
            exact: false,
            shown: vec![shown],
        }
    }
}

// === impl Access ===

impl Access {
    /// Bytes that it takes: a filter may name a million keys.
    pub fn size(&self) -> usize {
        let key = |key: &Vec<u8>| size_of::<Vec<u8>>() + key.capacity();
        match self {
            Self::CollScan(_) | Self::Nothing => 0,
            Self::Ids(ids) => ids.iter().map(key).sum(),
            Self::IndexScan(scan) => scan
                .ranges
                .iter()
                .map(|range| key(&range.lower) + key(&range.upper))
                .sum(),
            Self::Union(ways) => ways.iter().map(Self::size).sum(),
        }
    }
}

// === impl IndexScan ===

impl IndexScan {
    /// One range of an index, forward.
    pub fn of_range(index: IndexFacts, range: KeyRange) -> Self {
        Self {
            number: index.number,
            spec: index.spec,
            ranges: vec![range],
            direction: Direction::Forward,
            multikey: index.multikey,
        }
    }
}

impl PartialEq for IndexScan {
    fn eq(&self, other: &Self) -> bool {
        // The number says which index it is.
        (self.number, &self.ranges, self.direction)
            == (other.number, &other.ranges, other.direction)
    }
}

impl Eq for IndexScan {}

// === impl KeyRange ===

impl KeyRange {
    /// Every entry of an index: the first bytes of keys lie well inside.
    pub fn everything() -> Self {
        Self {
            lower: vec![0],
            upper: vec![0xff],
        }
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
