//! The interface of a pipeline to the outside: collections to read and to write, and reports. The engine implements it.

use std::sync::Arc;

use super::{CurrentOps, ListSessions, Merge, Origin, RowBatch, RowContext, Rows};
use crate::error::Result;
use crate::query::filter::Filter;
use crate::query::sort::Sort;
use crate::value::{Doc, ValueRef};

/// The name of a collection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CollectionName {
    pub db: String,
    pub coll: String,
}

/// The part of a pipeline (or of a find) that an index may serve. The order is: filter, sort, skip, limit.
#[derive(Clone, Default)]
pub struct SourceSpec {
    pub filter: Option<Arc<Filter>>,
    pub sort: Option<Arc<Sort>>,
    pub skip: u64,
    pub limit: Option<u64>,
    /// True if only the number of rows matters. The rows may then be empty documents.
    pub count_only: bool,
}

/// The collections that one command, and the cursor that it leaves open, can reach. Each stage opens the collections that
/// it reads. No other code reopens them for a later command of the cursor.
pub trait Sources: Send + Sync {
    /// Opens the rows of a collection. A collection that does not exist has none. The rows keep what they need of `spec`.
    fn open(
        &self,
        cx: &RowContext<'_>,
        from: &CollectionName,
        spec: &SourceSpec,
    ) -> Result<Box<dyn Rows>>;

    /// Passes each document whose `field` equals one of `keys` to `each` once, if an index makes that fast. Equality is
    /// that of `{field: {$eq: key}}`: null also matches a missing field, and array elements match too. Returns `false`,
    /// and passes no document, if no index does. Documents are read under a lock, so `each` must copy them and return
    /// soon.
    fn find_equal(
        &self,
        cx: &RowContext<'_>,
        from: &CollectionName,
        field: &str,
        keys: &[ValueRef<'_>],
        each: &mut dyn FnMut(Doc<'_>, Option<Origin>) -> Result<()>,
    ) -> Result<bool>;

    /// Begins to write. An `$out` target shows nothing before [`Sink::finish`].
    fn sink(&self, cx: &RowContext<'_>, output: &Arc<Output>) -> Result<Box<dyn Sink>>;

    /// Returns the number of the cursor's current command, counted from its first. Documents that an earlier command found
    /// may no longer exist.
    fn command(&self) -> u32 {
        0
    }

    /// Appends the documents that a reporting stage returns.
    fn report(
        &self,
        cx: &RowContext<'_>,
        on: &CollectionName,
        what: &Report,
        out: &mut RowBatch,
    ) -> Result<()>;
}

/// A writer for `$out` and `$merge`. If `$out` is dropped before it finishes, its target stays as it was.
pub trait Sink: Send {
    fn write(&mut self, cx: &mut RowContext<'_>, rows: &RowBatch) -> Result<()>;
    fn finish(&mut self, cx: &mut RowContext<'_>) -> Result<()>;
}

/// The output of a pipeline that writes.
pub enum Output {
    /// `$out` replaces the whole collection.
    Replace(CollectionName),
    /// `$merge` writes document by document.
    Merge(Arc<Merge>),
}

/// The stages that report on a collection or on the server and read no input.
pub enum Report {
    CollStats {
        latency: Option<bool>,
        /// `storageStats`, with its scale.
        storage: Option<f64>,
        count: bool,
        exec: bool,
        /// `operationStats`
        events: bool,
    },
    IndexStats,
    CurrentOp(CurrentOps),
    Sessions(ListSessions),
}

// === impl CollectionName ===

impl CollectionName {
    pub fn new(db: impl Into<String>, coll: impl Into<String>) -> Self {
        Self {
            db: db.into(),
            coll: coll.into(),
        }
    }
}

impl std::fmt::Display for CollectionName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.db, self.coll)
    }
}

// === impl Output ===

impl Output {
    pub fn into(&self) -> &CollectionName {
        match self {
            Self::Replace(into) => into,
            Self::Merge(merge) => &merge.into,
        }
    }
}
