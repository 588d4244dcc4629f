//! The planner: decides whether a query finds its documents by `_id`, through an index, or by a scan of the collection.
//!
//! [`plan`] is pure. It reads the tree of the filter, the sort, the hint and the [`Facts`] copied from the collection, and
//! picks an [`AccessPath`]. It holds no lock, writes nothing and starts nothing. Its time is nearly linear in the size of
//! the filter. It counts its work, so that a long planning run stops when its command ends.
//!
//! Two laws hold (`tests/plans.rs`). First, an access leaves out no document that passes the filter: a predicate that
//! cannot guarantee this (arrays, null, numbers in paths) gives no bounds. Second, the access of an `exact` plan yields
//! only documents that pass, so the walk does not test them again. All other plans test every document against the whole
//! filter.
//!
//! Whether an index is multikey decides which bounds are safe. A plan is valid for the facts that it was made from. The
//! walk notices if an index has become multikey since then.

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
mod skip;
mod summary;
#[cfg(test)]
mod tests;

pub use candidate::plan;
pub(super) use equality::{equality_index, has_point};
pub use explain::winning_plan;
pub use hint::Hint;
pub(super) use id_point::has_one_key;
pub use id_point::{id_equality, plain_id};
pub use skip::SkipBounds;
pub use summary::PlanSummary;

use std::rc::Rc;
use std::sync::Arc;

use crate::{
    query::Filter,
    storage::index::{IndexNumber, IndexSpec},
    ttl::TsIndex,
    value::{MultikeyPaths, Path, Value, ValueRef, key},
};
use predicates::FieldBounds;

/// The facts about a collection that the planner uses.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The indexes that are ready to be read.
    pub indexes: Vec<IndexFacts>,
    /// The index that represents DefaultTTL. It is set only if there is a hint, which could name it.
    pub ts_index: Option<TsIndex>,
    /// Whether the server refuses to read the whole collection for a filter.
    pub refuses_scans: bool,
}

/// The facts about one index that the planner uses.
#[derive(Debug, Clone)]
pub struct IndexFacts {
    pub number: IndexNumber,
    pub spec: Arc<IndexSpec>,
    /// The arrays that documents have on the paths.
    pub multikey: MultikeyPaths,
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
pub enum ScanDirection {
    Forward,
    Backward,
}

/// The result of planning.
#[derive(Debug)]
pub struct Plan<'f> {
    pub access: AccessPath,
    /// The access yields the documents in the order of the sort.
    pub sort_covered: bool,
    /// The access yields only documents that pass the filter.
    pub exact: bool,
    /// For explain: one entry for each index that the access reads. It is empty for a scan of the collection, and for a
    /// filter that asks for one `_id` only.
    explained: Vec<ExplainedAccess<'f>>,
}

/// The documents that a query reads, and their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessPath {
    /// No document: nothing can match the filter.
    Nothing,
    /// All documents, in natural order or its reverse.
    CollScan(ScanDirection),
    /// The documents with these `_id`s, as key bytes: ascending, each once.
    Ids(Vec<Vec<u8>>),
    IndexScan(IndexScan),
    /// Several accesses, one after the other. Each document comes once. Unions are not nested.
    Union(Vec<AccessPath>),
}

/// A scan of the documents that an index holds within some ranges.
#[derive(Debug, Clone)]
pub struct IndexScan {
    /// Identifies the index. Its name is not enough: a new index may have taken the name since.
    pub number: IndexNumber,
    pub spec: Arc<IndexSpec>,
    /// Disjoint and ascending. A backward scan starts with the last one.
    pub ranges: Vec<KeyRange>,
    /// Bounds of further fields, for the entries within the ranges.
    pub skip: Option<Arc<SkipBounds>>,
    pub direction: ScanDirection,
    /// The arrays on the paths of the index when the ranges were made.
    pub multikey: MultikeyPaths,
}

/// A range of encoded keys, from `lower` (included) to `upper` (excluded).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyRange {
    pub lower: Vec<u8>,
    pub upper: Vec<u8>,
}

/// The part of an explain output that describes one index.
#[derive(Debug)]
struct ExplainedAccess<'f> {
    by: ExplainedIndex<'f>,
    /// The parts of the top conjunction (by position, ascending) that the bounds express. Explain shows the rest at the
    /// fetch.
    used: Vec<usize>,
}

#[derive(Debug)]
enum ExplainedIndex<'f> {
    /// A lookup of these values in the map of `_id`s.
    Ids(&'f [Value]),
    Scan {
        index: IndexFacts,
        direction: ScanDirection,
        /// One entry per field of the index; an entry of `None` means all values. The whole is `None` if the client gives
        /// the bounds itself.
        bounds: Option<Vec<Option<Rc<FieldBounds>>>>,
    },
}

// === impl IndexFacts ===

impl IndexFacts {
    fn is_multikey(&self, field: usize) -> bool {
        !self.multikey.of(field).is_empty()
    }

    fn is_descending(&self, field: usize) -> bool {
        self.spec.descending.get(field) == Some(&true)
    }
}

// === impl Plan ===

impl<'f> Plan<'f> {
    /// Returns the plan of a filter that asks for one `_id` and nothing else. This most frequent query needs no facts.
    pub fn of_id(id: ValueRef<'_>) -> Self {
        Self {
            access: AccessPath::Ids(vec![key::with(id, <[u8]>::to_vec)]),
            sort_covered: true,
            exact: true,
            explained: Vec::new(),
        }
    }

    /// Returns a forward scan of one range of an index. It serves no sort: `sort_covered` is true if the query has none.
    pub fn of_range(index: IndexFacts, range: KeyRange, sort_covered: bool) -> Self {
        let explained = ExplainedAccess {
            by: ExplainedIndex::Scan {
                index: index.clone(),
                direction: ScanDirection::Forward,
                bounds: None,
            },
            used: Vec::new(),
        };
        Self {
            access: AccessPath::IndexScan(IndexScan::of_range(index, range)),
            sort_covered,
            exact: false,
            explained: vec![explained],
        }
    }
}

// === impl AccessPath ===

impl AccessPath {
    /// Returns whether this reads the whole collection.
    pub fn scans_all(&self) -> bool {
        match self {
            Self::CollScan(_) => true,
            Self::Union(accesses) => accesses.iter().any(Self::scans_all),
            Self::Nothing | Self::Ids(_) | Self::IndexScan(_) => false,
        }
    }

    /// Returns the number of bytes that this takes. A filter may name a million keys.
    pub fn size(&self) -> usize {
        match self {
            Self::CollScan(_) | Self::Nothing => 0,
            Self::Ids(ids) => ids.iter().map(key_size).sum(),
            Self::IndexScan(scan) => {
                let skip = scan.skip.as_ref().map_or(0, |skip| skip.size());
                scan.ranges.iter().map(KeyRange::size).sum::<usize>() + skip
            }
            Self::Union(accesses) => accesses.iter().map(Self::size).sum(),
        }
    }
}

fn key_size(key: &Vec<u8>) -> usize {
    size_of::<Vec<u8>>() + key.capacity()
}

// === impl IndexScan ===

impl IndexScan {
    /// Returns a forward scan of one range of an index.
    pub fn of_range(index: IndexFacts, range: KeyRange) -> Self {
        Self {
            number: index.number,
            spec: index.spec,
            ranges: vec![range],
            skip: None,
            direction: ScanDirection::Forward,
            multikey: index.multikey,
        }
    }
}

impl PartialEq for IndexScan {
    fn eq(&self, other: &Self) -> bool {
        // The number identifies the index, so the other fields need no comparison.
        (self.number, &self.ranges, &self.skip, self.direction)
            == (other.number, &other.ranges, &other.skip, other.direction)
    }
}

impl Eq for IndexScan {}

// === impl KeyRange ===

impl KeyRange {
    fn size(&self) -> usize {
        key_size(&self.lower) + key_size(&self.upper)
    }

    /// Returns the range that holds every entry of an index: keys begin with bytes well inside it.
    pub fn everything() -> Self {
        Self {
            lower: vec![0],
            upper: vec![0xff],
        }
    }
}

// === impl ScanDirection ===

impl ScanDirection {
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
        }
    }
}
