//! Changing what a collection's documents live by: `DefaultTTL`, indexes that go or behave otherwise, and other settings.
//!
//! A change is plain data, so that it can be written down and made again.

use std::sync::Arc;

use super::index::{ID_INDEX, Index, IndexNumber, Usage};
use super::{Cap, Writer};
use crate::ttl::{DefaultTtl, IndexingMode, TsIndex};

/// Some of a collection's indexes. The ordered index of `_id`s is never one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexSelection {
    All,
    Named(Vec<String>),
    Numbered(Vec<IndexNumber>),
}

/// What changes in how an index behaves. No change of this kind lengthens a life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexChange {
    pub hidden: Option<bool>,
    pub prepare_unique: Option<bool>,
    /// It becomes unique, which ends its preparation.
    pub unique: bool,
}

// === impl IndexSelection ===

impl IndexSelection {
    pub fn picks(&self, index: &Index) -> bool {
        index.spec.name != ID_INDEX
            && match self {
                Self::All => true,
                Self::Named(names) => names.contains(&index.spec.name),
                Self::Numbered(numbers) => numbers.contains(&index.number),
            }
    }

    /// Whether it picks the index that shows the default, which has no number.
    pub fn names(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.iter().any(|picked| picked == name),
            Self::Numbered(_) => false,
        }
    }
}

// === impl Writer ===

impl Writer<'_> {
    /// Takes indexes away, ready or not, and hands them over, so that freeing a large one holds up nobody. Drain first if
    /// one has a rule of its own ([`super::Collection::drain_then`]).
    pub fn drop_indexes(&mut self, which: &IndexSelection) -> Vec<Index> {
        let picks = |index: &Index| which.picks(index);
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

    /// Sets `expireAfterSeconds` of an index on dates. Drain first. `false`: there is none of that name.
    pub fn set_expiry(&mut self, name: &str, seconds: i32) -> bool {
        let altered = self.state.contents.alter_index(name, |index| {
            Arc::make_mut(&mut index.spec).expire_after = Some(seconds);
        });
        altered.is_some()
    }

    /// Sets `DefaultTTL`, and how it shows among the indexes. Drain first if that can lengthen a life.
    pub fn set_default_ttl(&mut self, default: DefaultTtl, index: Option<TsIndex>) {
        self.state.default = default;
        self.state.ts_index = index;
    }

    /// How much a capped collection may hold from the next insert on.
    pub fn set_cap(&mut self, cap: Cap) {
        self.state.options.cap = Some(cap);
    }

    pub fn set_indexing_mode(&mut self, mode: IndexingMode) {
        self.state.options.indexing_mode = Some(mode);
    }
}
