//! `_id`s in their order, for those who ask.
//!
//! Documents are found by `_id` through a hash map, which is all that most collections ever need. An ordered index of
//! `_id`s would take a fifth of the memory of small documents, so it is built the first time that a range or an order
//! of `_id`s is asked for: at once while the collection is small, in the background (others keep reading and writing)
//! when it is not.

use std::sync::Arc;

use super::index::{Filled, ID_INDEX, IndexNumber, IndexSpec};
use super::{Collection, Dropped, ReadPoint, RecordId, View};
use crate::aside::uncut;
use crate::value::{DocBuf, Millis};

/// Up to this many documents nobody notices.
const AT_ONCE: u64 = 2_000;
/// Documents indexed in one lock hold.
const CHUNK: usize = 128;

// === impl Collection ===

impl Collection {
    /// Sees to it that there will be an ordered index of `_id`s; there may be one already when this returns.
    pub fn order_ids(self: &Arc<Self>, now: Millis) {
        let (there, count) = self.read(ReadPoint::at(now), |view| {
            (view.way(ID_INDEX).is_some(), view.totals().count)
        });
        if there {
            return;
        }
        let Ok((number, true)) = self.begin_id_index(now) else {
            return;
        };
        if count <= AT_ONCE {
            self.fill_id_index(number, now);
            return;
        }
        let collection = Arc::clone(self);
        let spawned = std::thread::Builder::new()
            .name("index".into())
            .spawn(move || collection.fill_id_index(number, now));
        if spawned.is_err() {
            self.fill_id_index(number, now);
        }
    }

    /// The same for somebody who can do nothing without it: it is there when this returns, whoever else may be filling it.
    pub fn order_ids_now(&self, now: Millis) {
        let ready = |view: &View<'_>| view.way(ID_INDEX).is_some_and(|index| index.ready);
        if !self.read(ReadPoint::at(now), ready)
            && let Ok((number, _)) = self.begin_id_index(now)
        {
            uncut(|| self.fill_id_index(number, now));
        }
    }

    /// The index, and whether it is new.
    fn begin_id_index(&self, now: Millis) -> Result<(IndexNumber, bool), Dropped> {
        self.write(now, |writer| {
            if let Some(there) = writer.view().way(ID_INDEX) {
                return (there.number, false);
            }
            let key = DocBuf::build(|d| {
                d.put_i32("_id", 1);
            });
            (writer.begin_index(IndexSpec::new(ID_INDEX, key)), true)
        })
    }

    fn fill_id_index(&self, number: IndexNumber, now: Millis) {
        let mut from = RecordId::FIRST;
        loop {
            let filled = self.write(now, |writer| {
                let filled = writer.index_some(number, from, CHUNK);
                if filled == Ok(Filled::Whole) {
                    writer.finish_indexes(&[number]);
                }
                filled
            });
            match filled {
                Ok(Ok(Filled::Before(next))) => from = next,
                _ => return,
            }
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::index::Index;
    use crate::storage::{Namespace, Options};
    use bson::doc;
    use std::ops::Bound;

    #[test]
    fn who_needs_the_order_has_it_whoever_else_has_begun_to_make_it() {
        let now = Millis(0);
        let collection = Collection::new(Namespace::new("db", "c"), Options::default());
        let made = Arc::new(collection);
        for n in 0..3_000 {
            let document = doc! {"_id": n}.to_vec().unwrap();
            let added = made.write(now, |writer| writer.insert(&document)).unwrap();
            added.unwrap();
        }
        let whole = |index: &Index| {
            let held = index.up(Bound::Unbounded, &[0xff]).count();
            (index.ready, held, index.len())
        };
        let (number, first) = made.begin_id_index(now).unwrap();
        assert!(first);
        // Somebody has filled a part of it and is not heard of any more.
        let part = made.write(now, |writer| {
            writer.index_some(number, RecordId::FIRST, CHUNK)
        });
        assert!(matches!(part.unwrap().unwrap(), Filled::Before(_)));
        made.order_ids_now(now);
        let seen = made.read(ReadPoint::at(now), |view| {
            whole(view.way(ID_INDEX).unwrap())
        });
        assert_eq!(seen, (true, 3_000, 3_000));
    }
}
