//! Builds an index: adds it empty, fills it in steps while writers maintain it, then puts it into use.

use std::ops::ControlFlow;

use smallvec::SmallVec;

use super::index::{Filled, IndexKeys, IndexNumber, IndexSpec};
use super::{RecordId, Refused, Writer};
use crate::value::{ClusterTime, Doc};
use crate::wait::Wait;

// === impl Writer ===

impl Writer<'_> {
    /// Adds an index that readers do not use yet. From now on writers maintain it, and `index_some` fills it.
    pub fn begin_index(&mut self, spec: IndexSpec) -> IndexNumber {
        let now = self.now;
        self.contents_mut().begin_index(spec, now)
    }

    /// Adds up to `most` documents from `from` on to a new index. A key of a unique index that two documents share is left in
    /// `duplicate` with the later document, if it is smaller than the one that is there: MongoDB fills an index in the order of its
    /// keys.
    pub fn index_some(
        &mut self,
        number: IndexNumber,
        from: RecordId,
        most: usize,
        duplicate: &mut Option<(Refused, RecordId)>,
    ) -> Result<Filled, Refused> {
        let mut indexes = self.contents().indexes().iter();
        let Some(at) = indexes.position(|index| index.number == number) else {
            return Ok(Filled::Gone);
        };
        let view = self.view();
        let mut found = Vec::with_capacity(most);
        let spec = &self.contents().indexes()[at].spec;
        let stopped = view.each_up(from, |id, stored| {
            if found.len() == most {
                return ControlFlow::Break(Ok(Filled::Before(id)));
            }
            match IndexKeys::of(spec, Doc::new(stored.bytes), stored.ts) {
                Ok(keys) => found.push((id, keys)),
                Err(error) => return ControlFlow::Break(Err(Refused::Unindexable(error))),
            }
            ControlFlow::Continue(())
        });
        let filled = stopped.break_value().unwrap_or(Ok(Filled::Whole))?;
        let mut in_the_way: SmallVec<[RecordId; 2]> = SmallVec::new();
        for (id, keys) in found {
            // One by one, since two documents of this batch may have the same key.
            let index = &self.contents().indexes()[at];
            if index.spec.unique {
                let own = (id, &IndexKeys::default());
                match self.check_unique(index, &keys, Some(own), &mut in_the_way) {
                    Err(found) if found.taken_key().is_some() => {
                        let known = duplicate.as_ref().and_then(|(known, _)| known.taken_key());
                        if known.is_none_or(|known| found.taken_key() < Some(known)) {
                            *duplicate = Some((found, id));
                        }
                    }
                    checked => checked?,
                }
            }
            self.contents_mut().fill_index(at, &keys, id);
        }
        self.free(&in_the_way);
        Ok(filled)
    }

    /// Puts complete indexes into use. If one is a TTL index on dates, its rule holds from now on.
    pub fn finish_indexes(&mut self, numbers: &[IndexNumber]) {
        let shared = self.contents().shared();
        let since = match shared.snapshots.are_open() {
            true => shared.time.tick(self.now),
            false => ClusterTime(0),
        };
        self.contents_mut().finish_indexes(numbers, since);
    }

    /// Returns a wait that ends when the build of an index or a change of the date rules ends after this call.
    pub fn settled(&self) -> Wait {
        self.contents().settled()
    }
}
