//! Changing what a collection's documents live by: `DefaultTTL`, indexes that go or behave otherwise, and other settings.

use super::index::{Index, IndexSpec, Usage};
use super::ttl::DefaultTtl;
use super::{Cap, IndexingMode, TsIndex, Writer};

// === impl Writer ===

impl Writer<'_> {
    /// Takes indexes away, ready or not, and hands them over, so that freeing a large one holds up nobody. Drain first if
    /// one has a rule of its own ([`super::Collection::drain_then`]).
    pub fn drop_indexes(&mut self, picks: impl Fn(&Index) -> bool) -> Vec<Index> {
        let (gone, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.state.indexes)
            .into_iter()
            .partition(picks);
        self.state.indexes = kept;
        if gone.iter().any(Index::is_date_rule) {
            self.state.adopt_dates();
        }
        gone
    }

    /// Changes how an index behaves (hidden, unique, expireAfterSeconds). Drain first if that can lengthen a life.
    pub fn alter_index(&mut self, name: &str, change: impl FnOnce(&mut IndexSpec)) -> bool {
        let Some(index) = self
            .state
            .indexes
            .iter_mut()
            .find(|index| index.spec.name == name)
        else {
            return false;
        };
        let (expire, hidden) = (index.spec.expire_after, index.spec.hidden);
        change(&mut index.spec);
        index.altered += 1;
        let changed = index.spec.expire_after != expire;
        if index.spec.hidden != hidden {
            index.usage = Usage::since(self.now);
        }
        if changed {
            self.state.adopt_dates();
        }
        true
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
