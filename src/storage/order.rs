//! `_id`s in their order, for those who ask.
//!
//! Documents are found by `_id` through a hash map, which is all that most collections ever need. An ordered index of
//! `_id`s would take a fifth of the memory of small documents, so it is built the first time that a range or an order
//! of `_id`s is asked for: at once while the collection is small, in the background (others keep reading and writing)
//! when it is not.

use std::sync::Arc;

use super::index::{Filled, ID_INDEX, IndexNumber, IndexSpec};
use super::{Collection, RecordId};
use crate::value::{DocBuf, Millis};

/// Up to this many documents nobody notices.
const AT_ONCE: u64 = 2_000;
/// Documents indexed in one lock hold.
const CHUNK: usize = 128;

// === impl Collection ===

impl Collection {
    /// Sees to it that there will be an ordered index of `_id`s; there may be one already when this returns.
    pub fn order_ids(self: &Arc<Self>, now: Millis) {
        let (there, count) = self.read(now, |view| {
            (view.way(ID_INDEX).is_some(), view.totals().count)
        });
        if there {
            return;
        }
        let begun = self.write(now, |writer| {
            let first = writer.view().way(ID_INDEX).is_none();
            first.then(|| {
                let key = DocBuf::build(|d| {
                    d.put_i32("_id", 1);
                });
                writer.begin_index(IndexSpec::new(ID_INDEX, key))
            })
        });
        let Ok(Some(number)) = begun else {
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

    fn fill_id_index(&self, number: IndexNumber, now: Millis) {
        let mut from = RecordId::FIRST;
        loop {
            let filled = self.write(now, |writer| {
                let filled = writer.index_some(number, from, CHUNK);
                if filled == Ok(Filled::Whole) {
                    writer.finish_index(number);
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
