//! `_id`s in their order, for those who ask.
//!
//! Documents are found by `_id` through a hash map, which is all that most collections ever need. An ordered index of
//! `_id`s would take a fifth of the memory of small documents, so it is built the first time that a range or an order
//! of `_id`s is asked for. [`IdOrderBuild`] does that in steps, while others keep reading and writing. One that is dropped before it
//! is done leaves an index that nobody reads; the next one that is begun fills it from the start.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::index::{Filled, ID_INDEX, IndexNumber, IndexSpec};
use super::{Collection, Dropped, RecordId, View};
use crate::aside::{tick, uncut};
use crate::error::Result;
use crate::value::{DocBuf, Millis};

/// Documents indexed in one lock hold.
const CHUNK: usize = 128;

/// The ordered index of `_id`s of a collection, being built. There is one at a time.
pub struct IdOrderBuild {
    collection: Arc<Collection>,
    number: IndexNumber,
    from: RecordId,
    now: Millis,
}

// === impl Collection ===

impl Collection {
    /// Begins to build the ordered index of `_id`s, unless it is there or being built.
    pub fn begin_id_order(self: &Arc<Self>, now: Millis) -> Option<IdOrderBuild> {
        if self.has_id_order(now) || self.ordering_ids.swap(true, Ordering::AcqRel) {
            return None;
        }
        match self.begin_id_index(now) {
            Ok(number) => Some(IdOrderBuild {
                collection: Arc::clone(self),
                number,
                from: RecordId::FIRST,
                now,
            }),
            Err(Dropped) => {
                self.ordering_ids.store(false, Ordering::Release);
                None
            }
        }
    }

    /// The same for a command that can do nothing without it: it is there when this returns, even if somebody else is building it.
    /// Fails where the command is to end.
    pub fn order_ids_now(&self, now: Millis) -> Result<()> {
        if self.has_id_order(now) {
            return Ok(());
        }
        let Ok(number) = self.begin_id_index(now) else {
            return Ok(());
        };
        uncut(|| {
            let mut next = Some(RecordId::FIRST);
            while let Some(from) = next {
                tick(CHUNK as u32)?;
                next = self.fill_id_index(number, from, now);
            }
            Ok(())
        })
    }

    fn has_id_order(&self, now: Millis) -> bool {
        let ready = |view: &View<'_>| view.way(ID_INDEX).is_some_and(|index| index.ready);
        self.read_present(now, ready)
    }

    /// The index, which may have been begun before.
    fn begin_id_index(&self, now: Millis) -> Result<IndexNumber, Dropped> {
        self.write(now, |writer| {
            if let Some(there) = writer.view().way(ID_INDEX) {
                return there.number;
            }
            let key = DocBuf::build(|d| {
                d.put_i32("_id", 1);
            });
            writer.begin_index(IndexSpec::new(ID_INDEX, key))
        })
    }

    /// Fills it with the next documents. `None`: nothing is left to do.
    fn fill_id_index(&self, number: IndexNumber, from: RecordId, now: Millis) -> Option<RecordId> {
        let filled = self.write(now, |writer| {
            let filled = writer.index_some(number, from, CHUNK);
            if filled == Ok(Filled::Whole) {
                writer.finish_indexes(&[number]);
            }
            filled
        });
        match filled {
            Ok(Ok(Filled::Before(next))) => Some(next),
            _ => None,
        }
    }
}

// === impl IdOrderBuild ===

impl IdOrderBuild {
    /// Whether it is done so quickly that nobody notices.
    pub fn is_short(&self) -> bool {
        const FEW: u64 = 2_000;
        self.collection
            .read_present(self.now, |view| view.totals().count)
            <= FEW
    }

    /// Fills some of the index; `true` when there is nothing left to do.
    pub fn step(&mut self) -> bool {
        match self
            .collection
            .fill_id_index(self.number, self.from, self.now)
        {
            Some(next) => {
                self.from = next;
                false
            }
            None => true,
        }
    }
}

impl Drop for IdOrderBuild {
    fn drop(&mut self) {
        self.collection.ordering_ids.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aside::Limit;
    use crate::storage::index::Index;
    use crate::storage::{Namespace, Options};
    use bson::doc;
    use std::ops::Bound;

    fn collection(documents: i32, now: Millis) -> Arc<Collection> {
        let made = Collection::new(Namespace::new("db", "c"), Options::default());
        for n in 0..documents {
            let document = doc! {"_id": n}.to_vec().unwrap();
            let added = made.write(now, |writer| writer.insert(&document)).unwrap();
            added.unwrap();
        }
        Arc::new(made)
    }

    /// Whether the index is ready, and how many entries it holds, counted in two ways.
    fn order(collection: &Collection, now: Millis) -> (bool, usize, usize) {
        let whole = |index: &Index| {
            let held = index.up(Bound::Unbounded, &[0xff]).count();
            (index.ready, held, index.len())
        };
        collection.read_present(now, |view| whole(view.way(ID_INDEX).unwrap()))
    }

    #[test]
    fn a_build_that_is_abandoned_is_begun_again() {
        let now = Millis(0);
        let made = collection(3_000, now);
        let mut first = made.begin_id_order(now).unwrap();
        assert!(!first.is_short());
        assert!(!first.step());
        assert!(made.begin_id_order(now).is_none(), "one at a time");
        drop(first);
        assert_eq!(order(&made, now), (false, CHUNK, CHUNK));
        let mut second = made.begin_id_order(now).unwrap();
        while !second.step() {}
        drop(second);
        assert_eq!(order(&made, now), (true, 3_000, 3_000));
        assert!(made.begin_id_order(now).is_none(), "it is there");
    }

    #[test]
    fn a_command_that_needs_the_order_has_it_though_another_is_building_it() {
        let now = Millis(0);
        let made = collection(3_000, now);
        let mut other = made.begin_id_order(now).unwrap();
        assert!(!other.step());
        // What takes long ends with its command.
        let over = Limit::within(std::time::Duration::ZERO);
        let ended = over.watch(|| made.order_ids_now(now).and_then(|()| tick(1_000_000)));
        assert!(ended.is_err());
        made.order_ids_now(now).unwrap();
        assert_eq!(order(&made, now), (true, 3_000, 3_000));
        while !other.step() {}
        assert_eq!(order(&made, now), (true, 3_000, 3_000));
    }
}
