//! The collection `local.oplog.rs`: entries without `_id`, which only the server adds.

use std::ops::ControlFlow;

use super::contents::{Cause, Change};
use super::{RecordId, Writer};
use crate::ttl::OwnTtl;
use crate::value::{ClusterTime, Doc};

// === impl Writer ===

impl Writer<'_> {
    /// Adds an entry of the oplog, with the logical time of its change.
    pub fn append_entry(&mut self, entry: Doc<'_>, time: ClusterTime) {
        let change = Change::Insert {
            hash: self.contents().ids().hash_of(entry),
            bytes: entry.bytes(),
            keys: &[],
            stamp: self.stamp(entry, self.now, OwnTtl::NONE),
        };
        self.time = Some(time);
        self.commit(change);
    }

    /// Removes the oldest documents of a capped collection while `is_old` says so.
    pub fn evict_while(&mut self, is_old: impl Fn(Doc<'_>) -> bool) {
        while let Some(oldest) = self.oldest(&is_old) {
            self.take_out(oldest, Cause::Evicted);
        }
    }

    /// Returns the oldest document of a capped collection, if it is one of those.
    fn oldest(&self, is_wanted: impl Fn(Doc<'_>) -> bool) -> Option<RecordId> {
        // It is close to the last one that was evicted.
        let from = self.contents().evicted().unwrap_or(RecordId::FIRST);
        let first = |id, stored: super::Stored<'_>| {
            ControlFlow::Break(is_wanted(Doc::new(stored.bytes)).then_some(id))
        };
        self.view().each_up(from, first).break_value().flatten()
    }
}
