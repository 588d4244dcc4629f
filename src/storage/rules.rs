//! Changes the settings by which documents expire (`DefaultTTL`, TTL indexes), and other settings of a collection.
//!
//! Expiry is final: no change of a rule may revive a document. So every change that could do that is a method of [`Rules`],
//! and only draining hands out a [`Rules`]. A change is plain data, so that it can be recorded and repeated.

use std::ops::{Deref, DerefMut};

use super::expiry::Drained;
use super::index::{ID_INDEX, Index, IndexNumber, IndexSpec};
use super::{Cap, LogOp, Writer};
use crate::ttl::{DefaultTtl, IndexingMode, TsIndex};
use crate::value::ClusterTime;

/// A selection of a collection's indexes. It never includes the ordered index of `_id`s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexSelection {
    All,
    Named(Vec<String>),
}

/// A change of how an index behaves. No such change lengthens a life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexChange {
    pub hidden: Option<bool>,
    pub prepare_unique: Option<bool>,
    /// `true` makes the index unique and ends its preparation.
    pub unique: Option<bool>,
}

/// A [`Writer`] that may also change the rules by which documents expire.
///
/// [`super::Collection::drain_then`] hands it out under a hold of the lock in which no expired document is left, and
/// [`super::Catalog::create`] for a collection that no other thread can find yet. All changes under one hold of the lock
/// count as one: no reader sees the state between two of them.
pub struct Rules<'a> {
    writer: Writer<'a>,
    drained: Drained,
}

// === impl IndexSelection ===

impl IndexSelection {
    pub fn picks(&self, index: &Index) -> bool {
        self.names(&index.spec.name)
    }

    /// Returns whether an index of that name is selected. The index that shows the default has only a name.
    pub fn names(&self, name: &str) -> bool {
        name != ID_INDEX
            && match self {
                Self::All => true,
                Self::Named(names) => names.iter().any(|picked| picked == name),
            }
    }
}

// === impl Rules ===

impl<'a> Rules<'a> {
    /// Wraps the writer that was drained.
    pub(super) fn new(writer: Writer<'a>, drained: Drained) -> Self {
        debug_assert!(
            !writer.is_due(drained.by()),
            "what has ended was not removed"
        );
        Self { writer, drained }
    }

    /// Sets `DefaultTTL`, and the index that shows it to clients.
    pub fn set_default_ttl(&mut self, default: DefaultTtl, index: Option<TsIndex>) {
        let contents = self.writer.contents_mut();
        contents.set_default_ttl(default, index, &self.drained);
    }

    /// Sets `expireAfterSeconds` of an index on dates. Returns `false` if no index has that name.
    pub fn set_expiry(&mut self, name: &str, seconds: i32) -> bool {
        let contents = self.writer.contents_mut();
        contents.set_expiry(name, seconds, &self.drained)
    }

    /// Drops indexes, ready or not, and returns them, so that the caller can free large ones without the lock.
    pub fn drop_indexes(&mut self, which: &IndexSelection) -> Vec<Index> {
        let contents = self.writer.contents_mut();
        contents.drop_indexes(which, &self.drained)
    }

    /// Adds an index to an empty collection. It is complete at once.
    pub fn add_index(&mut self, spec: IndexSpec) {
        debug_assert_eq!(self.contents().totals().count, 0, "it has to be filled");
        let number = self.begin_index(spec);
        self.contents_mut()
            .finish_indexes(&[number], ClusterTime(0));
    }
}

impl<'a> Deref for Rules<'a> {
    type Target = Writer<'a>;

    fn deref(&self) -> &Writer<'a> {
        &self.writer
    }
}

impl<'a> DerefMut for Rules<'a> {
    fn deref_mut(&mut self) -> &mut Writer<'a> {
        &mut self.writer
    }
}

// === impl Writer ===

impl Writer<'_> {
    /// Drops those of the indexes that are not ready. No document expires by them.
    pub fn abandon_indexes(&mut self, numbers: &[IndexNumber]) -> Vec<Index> {
        self.contents_mut().abandon_indexes(numbers)
    }

    /// Changes how an index behaves. Returns `false` if no index has that name.
    pub fn alter_index(&mut self, name: &str, change: IndexChange) -> bool {
        let now = self.now;
        self.contents_mut().alter_index(name, change, now)
    }

    /// Sets how much a capped collection may hold, from the next insert on.
    pub fn set_cap(&mut self, cap: Cap) {
        self.options_mut().cap = Some(cap);
    }

    /// Sets whether change streams can show whole documents from before and after a change.
    pub fn keep_images(&mut self, keep: bool) {
        self.options_mut().keeps_images = keep;
        self.contents_mut().keep_images(keep);
    }

    /// Tells the log of changes about a change of the collection itself.
    pub fn record(&self, op: impl FnOnce() -> LogOp) {
        self.contents().record(self.now, op);
    }

    pub fn set_indexing_mode(&mut self, mode: IndexingMode) {
        self.options_mut().indexing_mode = Some(mode);
    }
}
