//! The ordered index of `_id`s, built on demand.
//!
//! A hash map finds documents by `_id`, which is all that most collections ever need. An ordered index of `_id`s would take
//! a fifth of the memory of small documents, so it is built the first time that a query needs a range or an order of
//! `_id`s. [`IdOrderBuild`] builds it in steps, while other commands keep reading and writing. A build that is dropped
//! before it is done leaves an index that is not ready. The next build fills it from the start.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::index::{Filled, ID_INDEX, IndexNumber, IndexSpec};
use super::{Collection, Dropped, RecordId, View};
use crate::error::Result;
use crate::interrupt::{run_blocking, tick};
use crate::value::{ClusterTime, DocBuf, Millis};

/// How many documents are indexed per hold of the lock.
const CHUNK: usize = 128;

/// A build of the ordered index of `_id`s of a collection. Only one exists at a time.
pub struct IdOrderBuild {
    collection: Arc<Collection>,
    number: IndexNumber,
    from: RecordId,
    now: Millis,
}

// === impl Collection ===

impl Collection {
    /// Begins to build the ordered index of `_id`s, unless it exists or is being built.
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

    /// Builds the ordered index of `_id`s before it returns, for a command that cannot run without it. Does so even if
    /// another build is running. Fails if the command must end.
    pub fn order_ids_now(&self, now: Millis) -> Result<()> {
        if self.has_id_order(now) {
            return Ok(());
        }
        let Ok(number) = self.begin_id_index(now) else {
            return Ok(());
        };
        run_blocking(|| {
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

    /// Returns the index, which an earlier build may have added.
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

    /// Adds the next documents to the index. Returns `None` when nothing is left to do.
    fn fill_id_index(&self, number: IndexNumber, from: RecordId, now: Millis) -> Option<RecordId> {
        let filled = self.write(now, |writer| {
            let filled = writer.index_some(number, from, CHUNK, &mut None);
            if filled == Ok(Filled::Whole) {
                writer
                    .contents_mut()
                    .finish_indexes(&[number], ClusterTime(0));
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
    /// Returns whether the build is so short that no client notices it.
    pub fn is_short(&self) -> bool {
        const FEW: u64 = 2_000;
        self.collection
            .read_present(self.now, |view| view.totals().count)
            <= FEW
    }

    /// Fills a part of the index and returns `true` when nothing is left to do.
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
    use crate::interrupt::Limit;
    use crate::storage::index::Index;
    use crate::storage::{CollectionOptions, Namespace};
    use bson::doc;
    use std::ops::Bound;

    fn collection(documents: i32, now: Millis) -> Arc<Collection> {
        let made = Collection::new(Namespace::new("db", "c"), CollectionOptions::default());
        for n in 0..documents {
            let document = doc! {"_id": n}.to_vec().unwrap();
            let added = made.write(now, |writer| writer.insert(&document)).unwrap();
            added.unwrap();
        }
        Arc::new(made)
    }

    /// Returns whether the index is ready, and how many entries it has, counted in two ways.
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
        // A long build ends with its command.
        let over = Limit::within(std::time::Duration::ZERO);
        let ended = over.watch(|| made.order_ids_now(now).and_then(|()| tick(1_000_000)));
        assert!(ended.is_err());
        made.order_ids_now(now).unwrap();
        assert_eq!(order(&made, now), (true, 3_000, 3_000));
        while !other.step() {}
        assert_eq!(order(&made, now), (true, 3_000, 3_000));
    }
}
