//! `createIndexes`: makes indexes, in steps.
//!
//! New indexes are kept up by every write from the first step on, filled a hundred documents at a time, and used
//! when they are complete. If one cannot be made, none is.

use std::sync::Arc;

use super::args::required;
use super::drained::{prepare, rules_after};
use super::index_spec::{self, Wanted};
use super::{
    Access, Call, Command, Context, Flags, Needs, Outcome, Step, Task, collection_uuid,
    default_ttl, drained, list_indexes,
};
use crate::auth::Action;
use crate::engine::TimeSlice;
use crate::engine::write::{collection_for, refused};
use crate::error::{Code, Error, Result};
use crate::query::stage::Slice as _;
use crate::storage::index::{Index, IndexSpec};
use crate::storage::ttl::DefaultTtl;
use crate::storage::{
    Collection, IndexingMode, RecordId, Redating, Refused, TsIndex, View, Writer,
};
use crate::value::{DocBuilder, Millis};

pub(super) const COMMAND: Command =
    Command::ready("createIndexes", Access::Admin, "Makes indexes.", run)
        .with(Flags::STABLE.and(Flags::WRITE_CONCERN))
        .needs(Needs::Collection(Action::CreateIndex));

/// A collection has at most that many indexes.
const MAX_INDEXES: usize = 64;
/// Documents that are indexed in one lock hold.
const CHUNK: usize = 100;

/// Indexes that are being made.
struct Building {
    context: Arc<Context>,
    collection: Arc<Collection>,
    created_collection: bool,
    before: i32,
    /// Those not yet complete, the current one last.
    unfinished: Vec<Unfinished>,
    /// Filled, and taken away again if a later one fails.
    finished: Vec<String>,
    default: Option<(DefaultTtl, TsIndex)>,
    /// What the new indexes on dates say of each document, found before they say it.
    dates: Redating,
    over: bool,
}

struct Unfinished {
    name: String,
    from: RecordId,
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let name = call.collection()?;
    let mut specs = None;
    for arg in call.args().skip(1) {
        match arg.name() {
            "indexes" => specs = arg.docs()?,
            "collectionUUID" => collection_uuid::check(call, arg)?,
            "ignoreUnknownIndexOptions" => {
                arg.bool()?;
            }
            "commitQuorum" => {
                if !arg.is_null() && arg.value().as_str().is_none() && arg.int()?.is_none() {
                    return Err(arg.unknown());
                }
            }
            _ => return Err(arg.unknown()),
        }
    }
    let specs = required(specs, "createIndexes", "indexes")?;
    if specs.is_empty() {
        return Err(Error::bad_value(
            "Must specify at least one index to create",
        ));
    }
    let wanted = specs
        .into_iter()
        .map(index_spec::parse)
        .collect::<Result<Vec<_>>>()?;
    super::create::check_new_name(call.database(), name)?;
    let (collection, created_collection) =
        collection_for(&call.context.catalog, call.database(), name)?;
    begin(call, reply, collection, created_collection, wanted)
}

fn begin(
    call: &Call<'_>,
    reply: &mut DocBuilder<'_>,
    collection: Arc<Collection>,
    created_collection: bool,
    wanted: Vec<Wanted>,
) -> Result<Outcome> {
    let begun: Result<_> = collection
        .write(call.now, |writer| {
            let before = list_indexes::count(&writer.view());
            let (new, default) = sort_out(&writer.view(), wanted)?;
            let unfinished: Vec<_> = new
                .iter()
                .map(|spec| Unfinished {
                    name: spec.name.clone(),
                    from: RecordId::FIRST,
                })
                .collect();
            for spec in new {
                writer.begin_index(spec);
            }
            Ok((before, unfinished, default))
        })
        .map_err(|_| drained::dropped())?;
    let (before, unfinished, default) = begun?;
    let mut building = Building {
        context: Arc::clone(call.context),
        dates: Redating::new(Arc::clone(&collection)),
        collection,
        created_collection,
        before,
        unfinished,
        finished: Vec::new(),
        default,
        over: false,
    };
    match building.step(reply)? {
        Step::Done => Ok(Outcome::Reply),
        _ => Ok(Outcome::Work(Box::new(building))),
    }
}

type SortedOut = (Vec<IndexSpec>, Option<(DefaultTtl, TsIndex)>);

/// What really has to be made, after a look at what there is.
fn sort_out(view: &View<'_>, wanted: Vec<Wanted>) -> Result<SortedOut> {
    let mut new: Vec<IndexSpec> = Vec::new();
    let mut default = None;
    let none = view.options().indexing_mode == Some(IndexingMode::None);
    for wanted in wanted {
        match wanted {
            Wanted::Id => {}
            Wanted::Default {
                default: value,
                shown,
            } => {
                default_ttl::check_mode(
                    view.options().indexing_mode,
                    value,
                    Code::CannotCreateIndex,
                )?;
                default = Some((value, shown));
            }
            Wanted::Index(_) if none => {
                return Err(Error::new(
                    Code::CannotCreateIndex,
                    "Indexing mode 'none' allows no index but the one on _id",
                ));
            }
            Wanted::Index(spec) => {
                check_against_default(view, &spec)?;
                let existing = view.indexes().map(|index| &index.spec);
                if !exists(existing.chain(&new), &spec)? {
                    new.push(*spec);
                }
                // Asked here and not at the end: each is compared with all before it, and the collection is locked.
                if view.indexes().count() + new.len() + 1 > MAX_INDEXES {
                    return Err(Error::new(
                        Code::CannotCreateIndex,
                        format!("add index fails, too many indexes for {}", view.namespace()),
                    ));
                }
            }
        }
    }
    Ok((new, default))
}

/// The index that shows the default takes part in the rules about names and keys.
fn check_against_default(view: &View<'_>, spec: &IndexSpec) -> Result<()> {
    let Some(ts) = view.ts_index() else {
        return Ok(());
    };
    if view.index(&ts.name).is_some() {
        return Ok(());
    }
    let same_key = default_ttl::is_ts_key(spec.key.as_doc());
    if same_key {
        return Err(Error::new(
            Code::IndexOptionsConflict,
            format!(
                "An equivalent index already exists with different options. Requested index: {}, existing index: {}",
                spec.name, ts.name
            ),
        ));
    }
    if ts.name == spec.name {
        return Err(Error::new(
            Code::IndexKeySpecsConflict,
            format!(
                "An existing index has the same name as the requested index: {}",
                ts.name
            ),
        ));
    }
    Ok(())
}

/// A plain index on `_ts`, as the index that shows a default.
fn plain_ts_index(view: &View<'_>) -> Option<TsIndex> {
    let plain = view
        .indexes()
        .find(|index| default_ttl::is_ts_key(index.spec.key.as_doc()))?;
    Some(default_ttl::ts_index(
        Some(&plain.spec.name),
        Some(plain.spec.key.as_doc()),
    ))
}

/// Whether the very same index is there; an error if one is there that it would clash with.
fn exists<'a>(existing: impl Iterator<Item = &'a IndexSpec>, spec: &IndexSpec) -> Result<bool> {
    for there in existing {
        let same_name = there.name == spec.name;
        let same_kind = signature(there) == signature(spec);
        let describe =
            |spec: &IndexSpec| crate::value::DocBuf::build(|doc| spec.describe(doc)).to_string();
        if same_name && !same_kind {
            return Err(Error::new(
                Code::IndexKeySpecsConflict,
                format!(
                    "An existing index has the same name as the requested index. When index names are not specified, they \
                     are auto generated and can cause conflicts. Please refer to our documentation. Requested index: {}, \
                     existing index: {}",
                    describe(spec),
                    describe(there)
                ),
            ));
        }
        if same_kind && !same_name {
            return Err(Error::new(
                Code::IndexOptionsConflict,
                format!("Index already exists with a different name: {}", there.name),
            ));
        }
        if same_kind && same_name {
            if there.expire_after != spec.expire_after || there.hidden != spec.hidden {
                return Err(Error::new(
                    Code::IndexOptionsConflict,
                    format!(
                        "An equivalent index already exists with the same name but different options. Requested index: {}, \
                         existing index: {}",
                        describe(spec),
                        describe(there)
                    ),
                ));
            }
            return Ok(true);
        }
    }
    Ok(false)
}

/// What makes two indexes the same: key, uniqueness, and which documents they hold.
type Signature<'a> = (Vec<(&'a str, bool)>, bool, bool, Option<&'a [u8]>);

fn signature(spec: &IndexSpec) -> Signature<'_> {
    let names = spec.key.as_doc().iter().map(|elem| elem.name());
    (
        names.zip(spec.descending.iter().copied()).collect(),
        spec.unique,
        spec.sparse,
        spec.partial.as_ref().map(|partial| partial.filter.bytes()),
    )
}

// === impl Building ===

impl Building {
    /// Fills the next hundred documents. `true` when the index is complete.
    fn fill(&self, current: &mut Unfinished, now: Millis) -> Result<bool> {
        let filled = self
            .collection
            .write(now, |writer| {
                writer
                    .index_some(&current.name, current.from, CHUNK)
                    .map_err(|reason| build_failure(&self.collection, &reason, &writer.view()))
            })
            .map_err(|_| drained::dropped())?;
        match filled? {
            Some(next) => {
                current.from = next;
                Ok(false)
            }
            None => Ok(true),
        }
    }

    /// All are filled: they come into use together, so that a build that fails has ended no document by a date.
    fn finish(&mut self, reply: &mut DocBuilder<'_>) -> Result<Step> {
        let now = self.context.clock.now();
        if let Some((default, shown)) = self.default.clone() {
            // A plain index on _ts becomes the one that shows the default.
            let shown = self.collection.read(now, plain_ts_index).unwrap_or(shown);
            let until = TimeSlice::begin();
            let drained =
                self.collection
                    .drain_then(now, until.until(), |writer: &mut Writer<'_>| {
                        // Asked again: the mode may have been changed while there was something to drain.
                        let mode = writer.view().options().indexing_mode;
                        let allowed =
                            default_ttl::check_mode(mode, default, Code::CannotCreateIndex);
                        if allowed.is_ok() {
                            default_ttl::set(writer, default, Some(shown));
                        }
                        allowed
                    });
            match drained.map_err(|_| drained::dropped())? {
                Ok(set) => set?,
                Err(_) => return Ok(Step::More),
            }
        }
        self.collection
            .write(now, |writer| {
                writer.finish_indexes(|name| self.finished.iter().any(|own| own == name));
            })
            .map_err(|_| drained::dropped())?;
        self.over = true;
        let after = self.collection.read(now, list_indexes::count);
        reply
            .put_i32("numIndexesBefore", self.before)
            .put_i32("numIndexesAfter", after)
            .put_bool("createdCollectionAutomatically", self.created_collection);
        if after == self.before && self.finished.is_empty() && self.default.is_none() {
            reply.put_str("note", "all indexes already exist");
        }
        Ok(Step::Done)
    }
}

impl Task for Building {
    fn step(&mut self, reply: &mut DocBuilder<'_>) -> Result<Step> {
        let slice = TimeSlice::begin();
        let now = self.context.clock.now();
        while let Some(mut current) = self.unfinished.pop() {
            let complete = self.fill(&mut current, now);
            match complete {
                Ok(true) => self.finished.push(current.name),
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
                let ready = index.ready || finished.contains(&index.spec.name);
                ready.then(|| index.spec.clone())
            })
        };
        if let Some(step) = prepare(&mut self.dates, &slice, rules)? {
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
        let names = self.unfinished.iter().map(|index| &index.name);
        let names: Vec<_> = names.chain(&self.finished).collect();
        let now = self.context.clock.now();
        let _ = self.collection.write(now, |writer| {
            writer.drop_indexes(|name| names.iter().any(|own| *own == name))
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
    refused(reason, view, document).caused(&format!(
        "Index build failed: {}: Collection {} ( {} )",
        uuid::Uuid::new_v4(),
        view.namespace(),
        collection.uuid()
    ))
}
