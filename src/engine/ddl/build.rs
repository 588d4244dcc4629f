//! Building indexes, in steps.
//!
//! From the first step on, every write keeps the new indexes up to date. The build fills them a hundred documents at a
//! time, and queries use them when they are complete. If one index cannot be built, none is. Dropping an index that is
//! being built aborts the whole build.
//!
//! No transaction uses the collection when a build begins and when it ends, but any may in between. A build that has nothing to
//! build does not wait, nor does one that has created the collection.

use std::sync::Arc;

use super::default_ttl;
use super::drain::prepare;
use super::missing::MissingIndexes;
use super::{Advance, Begun, Done, Steps, WantedIndex, hides_system_index};
use crate::engine::TimeSlice;
use crate::engine::describe::{count_indexes, shown_default};
use crate::engine::write::{collection_for, refused};
use crate::error::{Code, Error, Result};
use crate::names::{check_written, is_system};
use crate::query::stage::StepBudget as _;
use crate::storage::index::{Filled, IndexNumber};
use crate::storage::{
    Catalog, Collection, DateRuleChange, DateRuleMigration, Dropped, LockScope, LogOp, Namespace,
    NotNew, ReadPoint, RecordId, Refused, Rules, SchemaLock, View, Writer,
};
use crate::ttl::{DefaultTtl, TsIndex, check_mode};
use crate::value::{DocBuf, Millis};
use crate::wait::Wait;

/// The number of documents that are indexed in one lock hold.
const CHUNK: usize = 100;

/// A change that builds indexes, and creates the collection if it does not exist.
#[derive(Debug, Clone)]
pub struct BuildIndexes {
    pub namespace: Namespace,
    pub indexes: Vec<WantedIndex>,
}

/// The result of building indexes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltIndexes {
    /// The number of indexes before and after the build.
    pub before: i32,
    pub after: i32,
    pub created_collection: bool,
    /// How many of the wanted indexes existed already.
    pub existed: Existed,
}

/// How many of the wanted indexes existed before a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existed {
    None,
    Some,
    All,
}

/// A [`BuildIndexes`] that has begun.
struct RunningBuild {
    catalog: Arc<Catalog>,
    change: BuildIndexes,
    created_collection: bool,
    /// `None` while another client builds one of the indexes: this build then waits, and checks again which indexes are
    /// missing.
    build: Option<IndexBuild>,
    /// Keeps transactions away, while the build begins or ends.
    lock: Option<SchemaLock>,
}

struct IndexBuild {
    collection: Arc<Collection>,
    /// The time of the last step.
    now: Millis,
    /// The indexes that are not complete yet, the current one last.
    unfinished: Vec<UnfinishedIndex>,
    /// The filled indexes. They are dropped again if a later one fails.
    finished: Vec<IndexNumber>,
    default: Option<(DefaultTtl, TsIndex)>,
    /// The ends that the new indexes on dates give to each document, computed before these indexes come into use.
    dates: DateRuleMigration,
    /// The number of indexes before the build.
    before: i32,
    over: bool,
}

enum BuildProgress {
    More(Advance),
    /// The build is over, and this is the number of indexes.
    Done {
        after: i32,
    },
}

struct UnfinishedIndex {
    number: IndexNumber,
    from: RecordId,
    /// The smallest key that two documents share, so far, and the later one of them.
    duplicate: Option<(Refused, RecordId)>,
}

// === impl BuildIndexes ===

impl BuildIndexes {
    pub(super) fn begin(self, catalog: &Arc<Catalog>) -> Result<Begun> {
        let (database, name) = (self.namespace.database(), self.namespace.collection());
        check_written(database, name)?;
        let hides =
            |wanted: &WantedIndex| matches!(wanted, WantedIndex::Index(spec) if spec.hidden);
        if is_system(name) && self.indexes.iter().any(hides) {
            return Err(hides_system_index());
        }
        Ok(Begun::Steps(Box::new(RunningBuild {
            catalog: Arc::clone(catalog),
            change: self,
            created_collection: false,
            build: None,
            lock: None,
        })))
    }
}

impl BuildIndexes {
    /// Builds the indexes in a transaction, which can do so on a collection that it has created and not written to.
    pub fn run_at(self, catalog: &Arc<Catalog>, at: ReadPoint) -> Result<BuiltIndexes> {
        let name = &self.namespace;
        check_written(name.database(), name.collection())?;
        let (collection, _) = collection_for(catalog, name.database(), name.collection(), at)?;
        let found = collection.read(at, |view| -> Result<_> {
            let missing = MissingIndexes::find(view, &self.indexes)?;
            Ok((count_indexes(view), missing))
        });
        let (before, missing) = found?;
        let not_supported = |which: &str| {
            Error::new(
                Code::OperationNotSupportedInTransaction,
                format!(
                    "Cannot create new indexes on {which} collection {name} in a multi-document transaction."
                ),
            )
        };
        let Some(missing) = missing else {
            return Err(not_supported("existing"));
        };
        let MissingIndexes { indexes, default } = missing;
        let built = indexes.len();
        if built == 0 && default.is_none() {
            return Ok(BuiltIndexes {
                before,
                after: before,
                created_collection: false,
                existed: Existed::All,
            });
        }
        let mut after = before;
        let set_up = collection.set_up_created(at, |rules| {
            let mut told = Vec::new();
            for spec in indexes {
                let indexes = vec![DocBuf::build(|out| spec.describe(out))];
                told.push(LogOp::CreateIndexes { indexes });
                rules.add_index(spec);
            }
            if let Some((default, ts_index)) = &default {
                default_ttl::set(rules, *default, Some(ts_index.clone()));
                let indexes: Vec<_> = shown_default(&rules.view()).into_iter().collect();
                told.push(LogOp::CreateIndexes { indexes });
            }
            after = count_indexes(&rules.view());
            told
        });
        set_up.map_err(|reason| match reason {
            NotNew::Existing => not_supported("existing"),
            NotNew::Written => not_supported("non-empty"),
        })?;
        Ok(BuiltIndexes {
            before,
            after,
            created_collection: true,
            existed: match built < self.indexes.len() && default.is_none() {
                true => Existed::Some,
                false => Existed::None,
            },
        })
    }
}

// === impl RunningBuild ===

impl RunningBuild {
    /// Begins to build, unless the collection was dropped after it was found. Returns a wait if another client builds one
    /// of the indexes, or a transaction uses the collection.
    fn begin(&mut self, now: Millis) -> Result<Option<Advance>> {
        let name = &self.change.namespace;
        let (database, collection) = (name.database(), name.collection());
        let at = ReadPoint::outside_transactions(now);
        if self.catalog.get_at(database, collection, at)?.is_none() {
            MissingIndexes::check_new(&self.change.indexes)?;
        }
        let (collection, created) = collection_for(&self.catalog, database, collection, at)?;
        self.created_collection |= created;
        if !self.created_collection {
            let look = |view: &View<'_>| MissingIndexes::find(view, &self.change.indexes);
            let missing = collection.read_present(now, look)?;
            if missing.is_some_and(|missing| !missing.is_empty())
                && let Some(wait) = self.lock()
            {
                return Ok(Some(Advance::Locked(wait)));
            }
        }
        let begun = collection.write(now, |writer| -> Result<_> {
            let before = count_indexes(&writer.view());
            let Some(missing) = MissingIndexes::find(&writer.view(), &self.change.indexes)? else {
                return Ok(Err(writer.settled()));
            };
            let begun = missing.indexes.into_iter();
            let numbers: Vec<_> = begun.map(|spec| writer.begin_index(spec)).collect();
            Ok(Ok((before, numbers, missing.default)))
        });
        let Ok(begun) = begun else {
            return Ok(None);
        };
        let (before, numbers, default) = match begun? {
            Ok(begun) => begun,
            Err(wait) => {
                self.lock = None;
                return Ok(Some(Advance::Wait(wait)));
            }
        };
        let build = IndexBuild::new(collection, now, numbers, default, before);
        self.build = Some(build);
        Ok(None)
    }

    /// Whether transactions must not use the collection while the build begins or ends.
    fn must_lock(&self) -> bool {
        let builds = self.build.as_ref().is_none_or(IndexBuild::changes);
        builds && !self.created_collection
    }

    /// Keeps further transactions from the collection. Returns a wait while others use it.
    fn lock(&mut self) -> Option<Wait> {
        let (catalog, name) = (&self.catalog, &self.change.namespace);
        let lock = self
            .lock
            .get_or_insert_with(|| catalog.lock_names(vec![LockScope::Collection(name.clone())]));
        lock.wait()
    }
}

impl Steps for RunningBuild {
    fn step(&mut self, now: Millis) -> Result<Advance> {
        if self.build.is_none()
            && let Some(advance) = self.begin(now)?
        {
            return Ok(advance);
        }
        if self.must_lock()
            && self.build.as_ref().is_some_and(IndexBuild::is_filled)
            && let Some(wait) = self.lock()
        {
            return Ok(Advance::Locked(wait));
        }
        let may_finish = self.lock.is_some() || !self.must_lock();
        match &mut self.build {
            Some(build) => match build.step(now, may_finish)? {
                BuildProgress::More(advance) => {
                    if !build.is_filled() {
                        self.lock = None;
                    }
                    Ok(advance)
                }
                BuildProgress::Done { after } => {
                    let built = BuiltIndexes {
                        before: build.before,
                        after,
                        created_collection: self.created_collection,
                        existed: build.existed(self.change.indexes.len()),
                    };
                    Ok(Advance::Done(Done::BuiltIndexes(built)))
                }
            },
            None => Ok(Advance::More),
        }
    }
}

// === impl IndexBuild ===

impl IndexBuild {
    /// Creates a build that fills the indexes with these numbers and sets the default together with them.
    fn new(
        collection: Arc<Collection>,
        now: Millis,
        numbers: Vec<IndexNumber>,
        default: Option<(DefaultTtl, TsIndex)>,
        before: i32,
    ) -> Self {
        let dates = DateRuleChange::Finish(numbers.clone());
        let unfinished = |number| UnfinishedIndex {
            number,
            from: RecordId::FIRST,
            duplicate: None,
        };
        Self {
            dates: DateRuleMigration::new(Arc::clone(&collection), dates),
            collection,
            now,
            unfinished: numbers.into_iter().map(unfinished).collect(),
            finished: Vec::new(),
            default,
            before,
            over: false,
        }
    }

    /// Returns how many of the wanted indexes existed. The one that shows the default is always set again.
    fn existed(&self, wanted: usize) -> Existed {
        match self.finished.len() {
            _ if self.default.is_some() => Existed::None,
            0 => Existed::All,
            built if built < wanted => Existed::Some,
            _ => Existed::None,
        }
    }

    /// Whether the build changes anything.
    fn changes(&self) -> bool {
        !self.finished.is_empty() || !self.unfinished.is_empty() || self.default.is_some()
    }

    /// Whether all indexes are filled.
    fn is_filled(&self) -> bool {
        self.unfinished.is_empty()
    }

    fn step(&mut self, now: Millis, may_finish: bool) -> Result<BuildProgress> {
        self.now = now;
        let slice = TimeSlice::begin();
        while let Some(mut current) = self.unfinished.pop() {
            match self.fill(&mut current) {
                Ok(true) => self.finished.push(current.number),
                Ok(false) => self.unfinished.push(current),
                Err(error) => {
                    self.unfinished.push(current);
                    return Err(error);
                }
            }
            if slice.is_over() && !self.unfinished.is_empty() {
                return Ok(BuildProgress::More(Advance::More));
            }
        }
        if !may_finish {
            return Ok(BuildProgress::More(Advance::More));
        }
        let prepared = prepare(&mut self.dates, &slice);
        if let Some(advance) = prepared.map_err(|Dropped| self.collection_dropped())? {
            return Ok(BuildProgress::More(advance));
        }
        let Some(after) = self.finish()? else {
            return Ok(BuildProgress::More(Advance::More));
        };
        self.over = true;
        Ok(BuildProgress::Done { after })
    }

    /// Indexes the next hundred documents. Returns `true` when the index is complete.
    fn fill(&self, current: &mut UnfinishedIndex) -> Result<bool> {
        let filled = self
            .collection
            .write(self.now, |writer| {
                let UnfinishedIndex {
                    number,
                    from,
                    duplicate,
                } = &mut *current;
                let filled = writer.index_some(*number, *from, CHUNK, duplicate);
                let view = writer.view();
                match (filled, duplicate.take()) {
                    (Ok(Filled::Whole), Some((reason, later))) => {
                        match is_held(&reason, &view).then(|| view.get(later)).flatten() {
                            Some(later) => {
                                Err(build_failure(&self.collection, &reason, &view, later.bytes))
                            }
                            // A document was removed meanwhile, and other duplicates may be left.
                            None => Ok(Filled::Before(RecordId::FIRST)),
                        }
                    }
                    (Ok(filled), found) => {
                        *duplicate = found;
                        Ok(filled)
                    }
                    (Err(reason), _) => Err(build_failure(&self.collection, &reason, &view, &[])),
                }
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

    /// Puts all filled indexes into use together, so that a failed build has expired no document by a date. Returns the
    /// number of indexes afterwards, or `None` if expired documents must be removed first.
    fn finish(&self) -> Result<Option<i32>> {
        // A new index can only shorten lives, but a default can lengthen them.
        let completed = match &self.default {
            None => self
                .collection
                .write(self.now, |writer| {
                    self.complete(writer)?;
                    Ok(count_indexes(&writer.view()))
                })
                .map(Ok),
            Some((default, ts_index)) => {
                let until = TimeSlice::begin().until();
                self.collection
                    .drain_then(self.now, until, |rules: &mut Rules<'_>| {
                        // Checked again, because the mode may have changed since.
                        let mode = rules.view().options().indexing_mode;
                        check_mode(mode, *default, Code::CannotCreateIndex)?;
                        self.complete(rules)?;
                        default_ttl::set(rules, *default, Some(ts_index.clone()));
                        if let Some(index) = shown_default(&rules.view()) {
                            let indexes = vec![index];
                            rules.record(|| LogOp::CreateIndexes { indexes });
                        }
                        Ok(count_indexes(&rules.view()))
                    })
            }
        };
        match completed.map_err(|Dropped| self.collection_dropped())? {
            Ok(after) => after.map(Some),
            Err(_) => Ok(None),
        }
    }

    fn complete(&self, writer: &mut Writer<'_>) -> Result<()> {
        let own = |number| writer.view().numbered(number).is_some();
        if !self.finished.iter().all(|&number| own(number)) {
            return Err(self.aborted("dropIndexes command"));
        }
        writer.finish_indexes(&self.finished);
        self.record(writer);
        Ok(())
    }

    /// Tells the log of changes which indexes were built: one by one if there was nothing to fill them with, as MongoDB does.
    fn record(&self, writer: &Writer<'_>) {
        let view = writer.view();
        let built = view
            .indexes()
            .filter(|index| self.finished.contains(&index.number));
        let mut built: Vec<_> = built
            .map(|index| DocBuf::build(|out| index.spec.describe(out)))
            .collect();
        let at_once = match view.totals().count {
            0 => 1,
            _ => built.len(),
        };
        while !built.is_empty() {
            let rest = built.split_off(at_once.min(built.len()));
            let indexes = std::mem::replace(&mut built, rest);
            writer.record(|| LogOp::CreateIndexes { indexes });
        }
    }

    /// Returns the error for a build that another client aborted.
    fn aborted(&self, reason: &str) -> Error {
        let name = self.collection.namespace();
        Error::new(Code::IndexBuildAborted, reason).caused(&failed(&self.collection, &name))
    }

    fn collection_dropped(&self) -> Error {
        let (name, uuid) = (self.collection.namespace(), self.collection.uuid());
        self.aborted(&format!("Collection {name}({uuid}) is being dropped"))
    }
}

/// All or none: a build that fails, or whose client leaves, drops the indexes that it has built so far.
impl Drop for IndexBuild {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let unfinished = self.unfinished.iter().map(|index| index.number);
        let own: Vec<_> = unfinished.chain(self.finished.iter().copied()).collect();
        let _ = self
            .collection
            .write(self.now, |writer| writer.abandon_indexes(&own));
    }
}

/// Returns whether the document that holds the key is still there.
fn is_held(reason: &Refused, view: &View<'_>) -> bool {
    matches!(reason, Refused::Duplicate { holder, .. } if view.get(*holder).is_some())
}

/// Returns the error of a build that the document makes fail.
fn build_failure(
    collection: &Collection,
    reason: &Refused,
    view: &View<'_>,
    document: &[u8],
) -> Error {
    refused(reason, view, document).caused(&failed(collection, view.namespace()))
}

/// Returns the start of the message for a failed build. In MongoDB each build has an id.
fn failed(collection: &Collection, name: &Namespace) -> String {
    let (build, uuid) = (uuid::Uuid::new_v4(), collection.uuid());
    format!("Index build failed: {build}: Collection {name} ( {uuid} )")
}
