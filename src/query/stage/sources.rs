//! What a pipeline needs from outside, stated here and implemented by engine: other collections to read, a place to
//! write to, figures to report.

use std::sync::Arc;

use super::{Batch, CurrentOps, Cx, Merge, Origin, Rows};
use crate::error::Result;
use crate::query::filter::Filter;
use crate::query::sort::Sort;
use crate::value::{Doc, ValueRef};

/// A collection by its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    pub db: String,
    pub coll: String,
}

/// What a source is asked for: the part of a pipeline (or of a find) that an index may serve. In this order: filter,
/// sort, skip, limit.
#[derive(Clone, Default)]
pub struct SourceSpec {
    pub filter: Option<Arc<Filter>>,
    pub sort: Option<Arc<Sort>>,
    pub skip: u64,
    pub limit: Option<u64>,
    /// Only the number of rows matters: they may be empty documents.
    pub count_only: bool,
}

/// Collections, as a running pipeline sees them. All of it is for one command: a collection that a cursor reads is
/// opened anew by no one but the stage that wants it.
pub trait Sources: Send + Sync {
    /// The rows of a collection. One that does not exist has none. The rows hold what they need of `spec`.
    fn open(&self, cx: &Cx<'_>, from: &Target, spec: &SourceSpec) -> Result<Box<dyn Rows>>;

    /// Hands over the documents whose `field` equals one of `keys` (as `{field: {$eq: key}}` means it: null also matches a
    /// missing field, an array is looked into), each once, if an index answers that fast. `false`, with nothing
    /// handed over, where none does. They are read under a lock: copy them and come back.
    fn find_equal(
        &self,
        cx: &Cx<'_>,
        from: &Target,
        field: &str,
        keys: &[ValueRef<'_>],
        each: &mut dyn FnMut(Doc<'_>, Option<Origin>) -> Result<()>,
    ) -> Result<bool>;

    /// Begins to write. Nothing is visible in an `$out` target before [`Sink::finish`].
    fn sink(&self, cx: &Cx<'_>, output: &Arc<Output>) -> Result<Box<dyn Sink>>;

    /// Which command of the cursor is running, counted from its first: what an earlier one has found need not be there any more.
    fn command(&self) -> u32 {
        0
    }

    /// Appends the documents that a reporting stage yields.
    fn report(&self, cx: &Cx<'_>, on: &Target, what: &Report, out: &mut Batch) -> Result<()>;
}

/// Where `$out` and `$merge` write to. Dropped unfinished, `$out` leaves its target as it was.
pub trait Sink: Send {
    fn write(&mut self, cx: &mut Cx<'_>, rows: &Batch) -> Result<()>;
    fn finish(&mut self, cx: &mut Cx<'_>) -> Result<()>;
}

pub enum Output {
    /// `$out`: the collection is replaced as a whole.
    Replace(Target),
    /// `$merge`: document by document.
    Merge(Arc<Merge>),
}

/// The stages that report about a collection or the server instead of reading.
pub enum Report {
    CollStats {
        latency: Option<bool>,
        /// `storageStats`, with its scale.
        storage: Option<f64>,
        count: bool,
        exec: bool,
    },
    IndexStats,
    CurrentOp(CurrentOps),
}

// === impl Target ===

impl Target {
    pub fn new(db: impl Into<String>, coll: impl Into<String>) -> Self {
        Self {
            db: db.into(),
            coll: coll.into(),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.db, self.coll)
    }
}

// === impl Output ===

impl Output {
    pub fn into(&self) -> &Target {
        match self {
            Self::Replace(into) => into,
            Self::Merge(merge) => &merge.into,
        }
    }
}
