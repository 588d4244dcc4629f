//! Adds, fills, changes and drops the indexes of a collection.

use std::sync::Arc;

use super::Contents;
use crate::storage::expiry::Drained;
use crate::storage::index::{ID_INDEX, Index, IndexKeys, IndexNumber, IndexSpec, IndexUsage};
use crate::storage::{IndexChange, IndexSelection, RecordId};
use crate::value::{ClusterTime, Millis};

// === impl Contents ===

impl Contents {
    /// Adds an index that readers do not use yet. From now on every write maintains it.
    pub fn begin_index(&mut self, spec: IndexSpec, now: Millis) -> IndexNumber {
        let number = IndexNumber(self.next_index);
        self.next_index += 1;
        // The server itself adds the ordered index of `_id`s, which refuses no document.
        self.schema += u64::from(spec.name != ID_INDEX);
        self.indexes.push(Index::new(number, spec, now));
        number
    }

    /// Adds the entries of a document to an index that is being filled.
    pub fn fill_index(&mut self, at: usize, keys: &IndexKeys, id: RecordId) {
        self.guarded(|contents| contents.indexes[at].insert(keys, id));
    }

    /// Makes these indexes usable for readers. If one is a TTL index on dates, its rule holds from now on, which can only
    /// shorten lives. Snapshots from before `since` do not use them: they cannot hold every earlier version.
    pub fn finish_indexes(&mut self, numbers: &[IndexNumber], since: ClusterTime) {
        self.guarded(|contents| {
            let mut dated = false;
            for index in &mut contents.indexes {
                if numbers.contains(&index.number) {
                    index.ready = true;
                    index.since = since;
                    dated |= index.is_date_rule();
                }
            }
            if dated {
                contents.install_date_rules();
            }
            contents.settled.give();
        });
    }

    /// Drops those of the indexes that are not ready. No document expires by them.
    pub fn abandon_indexes(&mut self, numbers: &[IndexNumber]) -> Vec<Index> {
        self.take_indexes(|index| !index.ready && numbers.contains(&index.number))
    }

    /// Drops indexes, ready or not.
    pub fn drop_indexes(&mut self, which: &IndexSelection, _: &Drained) -> Vec<Index> {
        self.take_indexes(|index| which.picks(index))
    }

    /// Takes the indexes out and returns them, so that the caller can free large ones without the lock.
    fn take_indexes(&mut self, picks: impl Fn(&Index) -> bool) -> Vec<Index> {
        self.guarded(|contents| {
            let (gone, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut contents.indexes)
                .into_iter()
                .partition(picks);
            contents.indexes = kept;
            // Without an index that was never complete, what a transaction has checked still holds.
            contents.schema += u64::from(gone.iter().any(|index| index.ready));
            if gone.iter().any(Index::is_date_rule) {
                contents.install_date_rules();
            }
            contents.settled.give();
            gone
        })
    }

    /// Changes how an index behaves, not what it contains. Returns `false` if no index has that name.
    pub fn alter_index(&mut self, name: &str, change: IndexChange, now: Millis) -> bool {
        let altered = self.with_index(name, |index| {
            if let Some(hidden) = change.hidden
                && hidden != index.spec.hidden
            {
                Arc::make_mut(&mut index.spec).hidden = hidden;
                index.usage = IndexUsage::since(now);
            }
            if let Some(prepare) = change.prepare_unique {
                Arc::make_mut(&mut index.spec).prepare_unique = prepare;
            }
            if let Some(unique) = change.unique {
                let spec = Arc::make_mut(&mut index.spec);
                spec.unique = unique;
                spec.prepare_unique &= !unique;
            }
        });
        altered.is_some()
    }

    /// Sets `expireAfterSeconds` of an index on dates. Returns `false` if no index has that name.
    pub fn set_expiry(&mut self, name: &str, seconds: i32, _: &Drained) -> bool {
        self.guarded(|contents| {
            let ends_by_it = contents.with_index(name, |index| {
                let spec = Arc::make_mut(&mut index.spec);
                let before = spec.expire_after.replace(seconds);
                index.ready && before != Some(seconds)
            });
            if ends_by_it == Some(true) {
                contents.install_date_rules();
            }
            ends_by_it.is_some()
        })
    }

    fn with_index<T>(&mut self, name: &str, change: impl FnOnce(&mut Index) -> T) -> Option<T> {
        self.guarded(|contents| {
            let mut indexes = contents.indexes.iter_mut();
            let index = indexes.find(|index| index.spec.name == name)?;
            let done = change(index);
            index.altered += 1;
            contents.schema += 1;
            Some(done)
        })
    }
}
