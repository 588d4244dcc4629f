//! Changing what a collection's documents live by: `DefaultTTL`, TTL indexes, and the settings beside them.
//!
//! Expired is final: no change of a rule may bring a document back. So whatever could do that is a method of [`Rules`], and only
//! draining hands out a [`Rules`]. A change is plain data, so that it can be written down and made again.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::index::{ID_INDEX, Index, IndexNumber, Usage};
use super::{Cap, Writer};
use crate::ttl::{DefaultTtl, IndexingMode, TsIndex};

/// Some of a collection's indexes. The ordered index of `_id`s is never one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexSelection {
    All,
    Named(Vec<String>),
}

/// What changes in how an index behaves. No change of this kind lengthens a life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexChange {
    pub hidden: Option<bool>,
    pub prepare_unique: Option<bool>,
    /// It becomes unique, which ends its preparation.
    pub unique: bool,
}

/// A [`Writer`] that may also change the rules by which documents end.
///
/// It comes from [`super::Collection::drain_then`], in the lock hold in which nothing is left that has ended, and from
/// [`super::Catalog::create`], for a collection that nobody can find yet. All changes of one lock hold count as one: nobody sees
/// what has ended between two of them.
pub struct Rules<'a>(Writer<'a>);

// === impl IndexSelection ===

impl IndexSelection {
    pub fn picks(&self, index: &Index) -> bool {
        self.names(&index.spec.name)
    }

    /// The same by name, as the index that shows the default has nothing else.
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
    /// `writer` has removed everything that had ended by the latest moment at which anybody looked.
    pub(super) fn drained(writer: Writer<'a>) -> Self {
        debug_assert!(
            !writer.is_due(writer.seen),
            "what has ended was not removed"
        );
        Self(writer)
    }

    /// Sets `DefaultTTL`, and how it shows among the indexes.
    pub fn set_default_ttl(&mut self, default: DefaultTtl, index: Option<TsIndex>) {
        self.state.default = default;
        self.state.ts_index = index;
    }

    /// Sets `expireAfterSeconds` of an index on dates. `false`: there is none of that name.
    pub fn set_expiry(&mut self, name: &str, seconds: i32) -> bool {
        let altered = self.state.contents.alter_index(name, |index| {
            Arc::make_mut(&mut index.spec).expire_after = Some(seconds);
        });
        altered.is_some()
    }

    /// Drops indexes, ready or not, and hands them over, so that freeing a large one holds up nobody.
    pub fn drop_indexes(&mut self, which: &IndexSelection) -> Vec<Index> {
        let picks = |index: &Index| which.picks(index);
        self.state.contents.drop_indexes(picks)
    }
}

impl<'a> Deref for Rules<'a> {
    type Target = Writer<'a>;

    fn deref(&self) -> &Writer<'a> {
        &self.0
    }
}

impl<'a> DerefMut for Rules<'a> {
    fn deref_mut(&mut self) -> &mut Writer<'a> {
        &mut self.0
    }
}

// === impl Writer ===

impl Writer<'_> {
    /// Drops those of the indexes that are not in use yet: no document ends by them.
    pub fn abandon_indexes(&mut self, numbers: &[IndexNumber]) -> Vec<Index> {
        let picks = |index: &Index| !index.ready && numbers.contains(&index.number);
        self.state.contents.drop_indexes(picks)
    }

    /// Changes how an index behaves. `false`: there is none of that name.
    pub fn alter_index(&mut self, name: &str, change: IndexChange) -> bool {
        let now = self.now;
        let altered = self.state.contents.alter_index(name, |index| {
            if let Some(hidden) = change.hidden
                && hidden != index.spec.hidden
            {
                Arc::make_mut(&mut index.spec).hidden = hidden;
                index.usage = Usage::since(now);
            }
            if let Some(prepare) = change.prepare_unique {
                Arc::make_mut(&mut index.spec).prepare_unique = prepare;
            }
            if change.unique {
                let spec = Arc::make_mut(&mut index.spec);
                (spec.unique, spec.prepare_unique) = (true, false);
            }
        });
        altered.is_some()
    }

    /// How much a capped collection may hold from the next insert on.
    pub fn set_cap(&mut self, cap: Cap) {
        self.state.options.cap = Some(cap);
    }

    pub fn set_indexing_mode(&mut self, mode: IndexingMode) {
        self.state.options.indexing_mode = Some(mode);
    }
}
