//! The collections that pipelines and finds read.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::access::Walk;
use super::choose::choose;
use super::id_order::order_ids;
use super::key_bounds::{MinMaxBounds, between};
use super::matching_records::matching_records;
use super::plan::{Hint, Plan, PlanSummary, winning_plan};
use super::report::{ReportContext, ServerLists, report};
use super::write::append_ts;
use super::{CollectionRows, ObjectIds, SourceHandles, merge, out};
use crate::effort::{Effort, Weigh};
use crate::error::{Code, Error, Result};
use crate::query::filter::Filter;
use crate::query::sort::Sort;
use crate::query::stage::{
    CollectionName, Empty, Origin, Output, Report, RowBatch, RowContext, Rows, Sink, SourceSpec,
    Sources,
};
use crate::storage::{Catalog, Collection, ReadPoint};
use crate::value::{Doc, DocBuf, ValueRef};

/// The sources that one command, and the cursor that it leaves behind, can read.
pub struct EngineSources {
    catalog: Arc<Catalog>,
    handles: SourceHandles,
    /// Every document is shown with its `_ts`.
    show_ts: bool,
    /// Set for pipelines, which may write or report.
    more: Option<PipelineResources>,
    /// What the first collection is read from.
    first: OnceLock<PlanSummary>,
}

/// The resources that only pipelines need.
struct PipelineResources {
    ids: Arc<ObjectIds>,
    host: String,
    /// For `$merge`: see [`super::write::WriteTarget`].
    outside_lock: bool,
    /// For `$currentOp`, `$listLocalSessions` and `$listSessions`.
    server: Option<Box<dyn ServerLists>>,
    weigh: Weigh,
}

/// A read of a collection: filter, sort, skip and limit, in this order.
pub struct Reading {
    pub filter: Arc<Filter>,
    pub sort: Option<Arc<Sort>>,
    pub hint: Option<Hint>,
    pub between: Option<MinMaxBounds>,
    pub skip: u64,
    pub limit: Option<u64>,
    pub show_ts: bool,
    /// Only the number of rows matters.
    pub count_only: bool,
}

/// A collection with the plan for reading it.
pub struct Planned<'f> {
    collection: Arc<Collection>,
    plan: Plan<'f>,
    reading: &'f Reading,
}

/// A walk that has not started yet.
pub struct OpenedWalk {
    pub walk: Walk,
    /// The walk yields the documents in the order of the sort.
    pub sorted: bool,
}

/// The counter for the documents that `$out` has written.
pub(super) struct WriteEffort {
    handles: SourceHandles,
    weigh: Weigh,
}

// === impl WriteEffort ===

impl WriteEffort {
    pub fn new(handles: &SourceHandles, weigh: Weigh) -> Self {
        Self {
            handles: handles.clone(),
            weigh,
        }
    }

    pub fn inserted(&self, bytes: usize) {
        self.handles.add_effort(Effort {
            inserted: (self.weigh)(bytes),
            ..Effort::default()
        });
    }
}

// === impl Reading ===

impl Reading {
    /// Creates a reading from `spec`, of all documents if `spec` has no filter. With `show_ts` the documents are read with
    /// their `_ts`.
    pub fn new(spec: SourceSpec, hint: Option<Hint>, show_ts: bool) -> Self {
        Self {
            filter: spec.filter.unwrap_or_else(|| Arc::new(Filter::all())),
            sort: spec.sort,
            hint,
            between: None,
            skip: spec.skip,
            limit: spec.limit,
            show_ts,
            count_only: spec.count_only,
        }
    }
}

// === impl EngineSources ===

impl EngineSources {
    /// Creates the sources of a command that reads at `at`.
    pub fn new(catalog: Arc<Catalog>, at: ReadPoint, show_ts: bool) -> Self {
        Self {
            catalog,
            handles: SourceHandles::new(at),
            show_ts,
            more: None,
            first: OnceLock::new(),
        }
    }

    /// Adds the resources of a pipeline, which may also write (`$out`, `$merge`) and report (`$collStats`). `host` is this
    /// server's `HOST:PORT`. Only a stage that tells about the whole server needs `server`.
    #[must_use]
    pub fn for_pipeline(
        mut self,
        ids: Arc<ObjectIds>,
        host: String,
        outside_lock: bool,
        server: Option<Box<dyn ServerLists>>,
        weigh: Weigh,
    ) -> Self {
        self.more = Some(PipelineResources {
            ids,
            host,
            outside_lock,
            server,
            weigh,
        });
        self
    }

    fn more(&self) -> Result<&PipelineResources> {
        self.more
            .as_ref()
            .ok_or_else(|| Error::new(Code::InternalError, "only a pipeline writes and reports"))
    }

    pub fn handles(&self) -> &SourceHandles {
        &self.handles
    }

    /// Returns what the first collection is read from. Others follow it: `$lookup` and `$unionWith` read them.
    pub fn summary(&self) -> Option<&PlanSummary> {
        self.first.get()
    }

    /// Returns the rows of a collection. A collection that does not exist has none.
    pub fn read(
        &self,
        database: &str,
        collection: &str,
        reading: Reading,
    ) -> Result<Box<dyn Rows>> {
        Ok(match self.open_walk(database, collection, &reading)? {
            Some(opened) => self.rows(opened, reading),
            None => Box::new(Empty),
        })
    }

    /// Plans the read and opens its walk, if the collection exists.
    pub fn open_walk(
        &self,
        database: &str,
        collection: &str,
        reading: &Reading,
    ) -> Result<Option<OpenedWalk>> {
        let planned = self.plan(database, collection, reading)?;
        Ok(planned.map(Planned::open_walk))
    }

    /// Plans the read, if the collection exists: for a caller that also shows the plan.
    pub fn plan<'f>(
        &self,
        database: &str,
        collection: &str,
        reading: &'f Reading,
    ) -> Result<Option<Planned<'f>>> {
        let Some(collection) =
            self.catalog
                .get_at(database, collection, self.handles.read_point())?
        else {
            return Ok(None);
        };
        let at = self.handles.read_point();
        let (sort, hint) = (reading.sort.as_deref(), reading.hint.as_ref());
        let plan = match &reading.between {
            Some(ends) => between(&collection, hint, ends, sort, at)?,
            None => {
                order_ids(&collection, &reading.filter, sort, hint, at)?;
                choose(&collection, &reading.filter, sort, hint, at)?
            }
        };
        Ok(Some(Planned {
            collection,
            plan,
            reading,
        }))
    }

    /// Returns the documents of a walk as rows.
    pub fn rows(&self, opened: OpenedWalk, reading: Reading) -> Box<dyn Rows> {
        self.rows_counted(opened, reading).0
    }

    /// Returns the documents of a walk as rows, together with the counter of the work that finding them takes.
    pub fn rows_counted(
        &self,
        opened: OpenedWalk,
        reading: Reading,
    ) -> (Box<dyn Rows>, Arc<Mutex<Effort>>) {
        let OpenedWalk { walk, sorted } = opened;
        self.first.get_or_init(|| walk.summary());
        let Reading {
            filter,
            sort,
            skip,
            limit,
            count_only,
            ..
        } = reading;
        let rows = CollectionRows::new(walk, filter, &self.handles, skip, limit);
        let counted = rows.counted();
        let rows = match sort {
            Some(sort) if !sorted => rows.sorted(sort),
            sort => Box::new(rows.in_order(sort).count_only(count_only)),
        };
        (rows, counted)
    }

    /// Returns the rows of a collection that the front of a pipeline asks for.
    pub fn read_spec(
        &self,
        database: &str,
        collection: &str,
        spec: &SourceSpec,
        hint: Option<Hint>,
    ) -> Result<Box<dyn Rows>> {
        let reading = Reading::new(spec.clone(), hint, self.show_ts);
        self.read(database, collection, reading)
    }
}

impl Sources for EngineSources {
    fn open(
        &self,
        cx: &RowContext<'_>,
        from: &CollectionName,
        spec: &SourceSpec,
    ) -> Result<Box<dyn Rows>> {
        let filter = spec.filter.as_ref();
        let Some(filter) = filter.and_then(|filter| filter.bound(cx.vars)) else {
            return self.read_spec(&from.db, &from.coll, spec, None);
        };
        let spec = SourceSpec {
            filter: Some(Arc::new(filter)),
            ..spec.clone()
        };
        self.read_spec(&from.db, &from.coll, &spec, None)
    }

    fn find_equal(
        &self,
        _: &RowContext<'_>,
        from: &CollectionName,
        field: &str,
        keys: &[ValueRef<'_>],
        each: &mut dyn FnMut(Doc<'_>, Option<Origin>) -> Result<()>,
    ) -> Result<bool> {
        let Some(collection) =
            self.catalog
                .get_at(&from.db, &from.coll, self.handles.read_point())?
        else {
            return Ok(true);
        };
        let source = self.handles.add(&collection);
        let mut effort = Effort::default();
        let found = collection.read(self.handles.read_point(), |view| {
            let Some(matching_records) = matching_records(view, field, keys) else {
                return Ok(false);
            };
            let mut scratch = Vec::new();
            for (id, stored) in matching_records {
                effort.documents += 1;
                let mut doc = Doc::new(stored.bytes);
                if self.show_ts {
                    scratch.clear();
                    append_ts(doc, stored.ts, &mut scratch);
                    doc = Doc::new(&scratch);
                }
                let record = id.0;
                each(doc, Some(Origin { source, record }))?;
            }
            Ok(true)
        });
        self.handles.add_effort(effort);
        found
    }

    fn sink(&self, cx: &RowContext<'_>, output: &Arc<Output>) -> Result<Box<dyn Sink>> {
        let catalog = Arc::clone(&self.catalog);
        let more = self.more()?;
        let ids = Arc::clone(&more.ids);
        match &**output {
            Output::Replace(into) => {
                let effort = WriteEffort::new(&self.handles, more.weigh);
                Ok(Box::new(out::begin(catalog, ids, into, effort, cx)?))
            }
            Output::Merge(merge) => {
                let resources = merge::Resources {
                    catalog,
                    ids,
                    outside_lock: more.outside_lock,
                    weigh: more.weigh,
                    handles: self.handles.clone(),
                };
                Ok(Box::new(merge::begin(resources, Arc::clone(merge), cx)?))
            }
        }
    }

    fn command(&self) -> u32 {
        self.handles.command()
    }

    fn report(
        &self,
        _: &RowContext<'_>,
        on: &CollectionName,
        what: &Report,
        out: &mut RowBatch,
    ) -> Result<()> {
        let more = self.more()?;
        let about = ReportContext {
            catalog: &self.catalog,
            host: &more.host,
            at: self.handles.read_point(),
            server: more.server.as_deref(),
        };
        report(&about, on, what, out)
    }
}

// === impl Planned ===

impl Planned<'_> {
    /// Returns the plan as explain shows it under `winningPlan`, with the sort as the client wrote it.
    pub fn winning_plan(&self, sort: Option<Doc<'_>>) -> Result<DocBuf> {
        winning_plan(
            &self.plan,
            &self.reading.filter,
            sort,
            self.reading.skip > 0,
        )
    }

    pub fn open_walk(self) -> OpenedWalk {
        let Plan {
            access,
            sort_covered,
            exact,
            ..
        } = self.plan;
        let walk = Walk::new(self.collection, access)
            .exact(exact)
            .in_order(sort_covered && self.reading.sort.is_some())
            .show_ts(self.reading.show_ts);
        OpenedWalk {
            walk,
            sorted: sort_covered,
        }
    }
}
