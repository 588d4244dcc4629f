//! Indexes that are being made, in steps.
//!
//! New indexes are kept up by every write from the first step on, filled a hundred documents at a time, and used
//! when they are complete. If one cannot be made, none is. Whoever drops one that is being made puts an end to it all.

use std::sync::Arc;

use super::drained::{prepare, rules_after};
use super::{Context, Step, Task, default_ttl, list_indexes};
use crate::engine::TimeSlice;
use crate::engine::write::refused;
use crate::error::{Code, Error, Result};
use crate::query::stage::Slice as _;
use crate::storage::index::{Filled, Index, IndexNumber};
use crate::storage::ttl::DefaultTtl;
use crate::storage::{
    Collection, Dropped, Namespace, RecordId, Redating, Refused, TsIndex, View, Writer,
};
use crate::value::{DocBuilder, Millis};

/// Documents that are indexed in one lock hold.
const CHUNK: usize = 100;

pub(super) struct Building {
    context: Arc<Context>,
    collection: Arc<Collection>,
    /// Those not yet complete, the current one last.
    unfinished: Vec<Unfinished>,
    /// Filled, and taken away again if a later one fails.
    finished: Vec<IndexNumber>,
    default: Option<(DefaultTtl, TsIndex)>,
    /// What the new indexes on dates say of each document, found before they say it.
    dates: Redating,
    reply: Reply,
    over: bool,
}

struct Unfinished {
    number: IndexNumber,
    from: RecordId,
}

/// What the reply says of the time before.
pub(super) struct Reply {
    pub before: i32,
    pub created_collection: bool,
}

// === impl Building ===

impl Building {
    /// To fill the indexes with these numbers, and to set the default with them.
    pub fn new(
        context: &Arc<Context>,
        collection: Arc<Collection>,
        numbers: Vec<IndexNumber>,
        default: Option<(DefaultTtl, TsIndex)>,
        reply: Reply,
    ) -> Self {
        let unfinished = |number| Unfinished {
            number,
            from: RecordId::FIRST,
        };
        Self {
            context: Arc::clone(context),
            dates: Redating::new(Arc::clone(&collection)),
            collection,
            unfinished: numbers.into_iter().map(unfinished).collect(),
            finished: Vec::new(),
            default,
            reply,
            over: false,
        }
    }

    /// Fills the next hundred documents. `true` when the index is complete.
    fn fill(&self, current: &mut Unfinished, now: Millis) -> Result<bool> {
        let filled = self
            .collection
            .write(now, |writer| {
                writer
                    .index_some(current.number, current.from, CHUNK)
                    .map_err(|reason| build_failure(&self.collection, &reason, &writer.view()))
            })
            .map_err(|Dropped| self.collection_dropped())?;
        match filled? {
            Filled::Before(next) => {
                current.from = next;
                Ok(false)
            }
            Filled::Whole => Ok(true),
            Filled::Gone => Err(self.aborted("dropIndexes command")),
        }
    }

    /// All are filled: they come into use together, so that a build that fails has ended no document by a date.
    fn finish(&mut self, reply: &mut DocBuilder<'_>) -> Result<Step> {
        let now = self.context.clock.now();
        let complete = |writer: &mut Writer<'_>| {
            let own = |index: &Index| self.finished.contains(&index.number);
            if writer.view().indexes().filter(|index| own(index)).count() < self.finished.len() {
                return Err(self.aborted("dropIndexes command"));
            }
            if let Some((default, shown)) = self.default.clone() {
                // Asked again: the mode may have been changed since.
                let mode = writer.view().options().indexing_mode;
                default_ttl::check_mode(mode, default, Code::CannotCreateIndex)?;
                default_ttl::set(writer, default, Some(shown));
            }
            writer.finish_indexes(own);
            Ok(list_indexes::count(&writer.view()))
        };
        // A new index can only shorten lives, but a default can lengthen them.
        let completed = match self.default {
            None => self.collection.write(now, complete).map(Ok),
            Some(_) => {
                let until = TimeSlice::begin().until();
                self.collection.drain_then(now, until, complete)
            }
        };
        let Ok(after) = completed.map_err(|Dropped| self.collection_dropped())? else {
            return Ok(Step::More);
        };
        let after = after?;
        self.over = true;
        let before = self.reply.before;
        reply
            .put_i32("numIndexesBefore", before)
            .put_i32("numIndexesAfter", after)
            .put_bool(
                "createdCollectionAutomatically",
                self.reply.created_collection,
            );
        if after == before && self.finished.is_empty() && self.default.is_none() {
            reply.put_str("note", "all indexes already exist");
        }
        Ok(Step::Done)
    }

    /// Somebody has put an end to it.
    fn aborted(&self, reason: &str) -> Error {
        let name = self.collection.namespace();
        Error::new(Code::IndexBuildAborted, reason).caused(&failed(&self.collection, &name))
    }

    fn collection_dropped(&self) -> Error {
        let (name, uuid) = (self.collection.namespace(), self.collection.uuid());
        self.aborted(&format!("Collection {name}({uuid}) is being dropped"))
    }
}

impl Task for Building {
    fn step(&mut self, reply: &mut DocBuilder<'_>) -> Result<Step> {
        let slice = TimeSlice::begin();
        let now = self.context.clock.now();
        while let Some(mut current) = self.unfinished.pop() {
            let complete = self.fill(&mut current, now);
            match complete {
                Ok(true) => self.finished.push(current.number),
                Ok(false) => self.unfinished.push(current),
                Err(error) => {
                    self.unfinished.push(current);
                    return Err(error);
                }
            }
            if slice.is_over() && !self.unfinished.is_empty() {
                return Ok(Step::More);
            }
        }
        let finished = &self.finished;
        let rules = |indexes: &[Index]| {
            rules_after(indexes, |index| {
                let ready = index.ready || finished.contains(&index.number);
                ready.then(|| index.spec.clone())
            })
        };
        let prepared = prepare(&mut self.dates, &slice, rules);
        if let Some(step) = prepared.map_err(|Dropped| self.collection_dropped())? {
            return Ok(step);
        }
        self.finish(reply)
    }
}

/// All or none: what was made before the failure (or before the client left) is taken away again.
impl Drop for Building {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let unfinished = self.unfinished.iter().map(|index| index.number);
        let own: Vec<_> = unfinished.chain(self.finished.iter().copied()).collect();
        let now = self.context.clock.now();
        let _ = self.collection.write(now, |writer| {
            writer.drop_indexes(|index| own.contains(&index.number))
        });
    }
}

fn build_failure(collection: &Collection, reason: &Refused, view: &View<'_>) -> Error {
    let document = match reason {
        Refused::Duplicate { holder, .. } => {
            view.get(*holder).map_or(&[][..], |stored| stored.bytes)
        }
        Refused::Unindexable(_) | Refused::TooLarge(_) => &[],
    };
    refused(reason, view, document).caused(&failed(collection, view.namespace()))
}

/// Each build has an id in MongoDB.
fn failed(collection: &Collection, name: &Namespace) -> String {
    let (build, uuid) = (uuid::Uuid::new_v4(), collection.uuid());
    format!("Index build failed: {build}: Collection {name} ( {uuid} )")
}
