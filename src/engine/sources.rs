//! Collections as pipelines and finds read them.

use std::sync::Arc;

use parking_lot::Mutex;

use super::access::Walk;
use super::choose::choose;
use super::holders::holders;
use super::id_order::order_ids;
use super::key_bounds::{Between, between};
use super::plan::Hint;
use super::report::{About, ListOperations, report};
use super::write::append_ts;
use super::{CollectionRows, Handles, ObjectIds, merge, out};
use crate::effort::{Effort, Weigh};
use crate::error::{Code, Error, Result};
use crate::query::filter::Filter;
use crate::query::sort::Sort;
use crate::query::stage::{
    self, Batch, Cx, Empty, Origin, Output, Report, Rows, Sink, SourceSpec, Sources, Target,
};
use crate::storage::{Catalog, ReadPoint};
use crate::value::{Doc, ValueRef};

/// What one command (and the cursor that it leaves behind) can reach.
pub struct EngineSources {
    catalog: Arc<Catalog>,
    handles: Handles,
    /// Every document is shown with its `_ts`.
    show_ts: bool,
    /// For pipelines that write or report.
    more: Option<More>,
}

/// What only pipelines need.
struct More {
    ids: Arc<ObjectIds>,
    host: String,
    /// For `$currentOp`.
    operations: Option<ListOperations>,
    weigh: Weigh,
}

/// What is read of a collection: filter, sort, skip, limit, in this order.
pub struct Reading {
    pub filter: Arc<Filter>,
    pub sort: Option<Arc<Sort>>,
    pub hint: Option<Hint>,
    pub between: Option<Between>,
    pub skip: u64,
    pub limit: Option<u64>,
    pub show_ts: bool,
    /// Only the number of rows matters.
    pub count_only: bool,
}

/// A way that was chosen, not yet walked.
pub struct Way {
    pub walk: Walk,
    /// It yields the documents in the order of the sort.
    pub sorted: bool,
}

/// Where the stages that write count what they have written.
pub(super) struct WriteEffort {
    handles: Handles,
    weigh: Weigh,
}

// === impl WriteEffort ===

impl WriteEffort {
    pub fn new(handles: &Handles, weigh: Weigh) -> Self {
        Self {
            handles: handles.clone(),
            weigh,
        }
    }

    pub fn add(&self, effort: Effort) {
        self.handles.add_effort(effort);
    }

    pub fn inserted(&self, bytes: usize) {
        self.add(Effort {
            inserted: (self.weigh)(bytes),
            ..Effort::default()
        });
    }

    pub fn changed(&self, bytes: usize) {
        self.add(Effort {
            changed: (self.weigh)(bytes),
            ..Effort::default()
        });
    }
}

// === impl Reading ===

impl Reading {
    /// Everything where `spec` has no filter. `show_ts`: the documents are read with their `_ts`.
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
    pub fn new(catalog: Arc<Catalog>, show_ts: bool) -> Self {
        Self {
            catalog,
            handles: Handles::default(),
            show_ts,
            more: None,
        }
    }

    /// For a pipeline, which may also write (`$out`, `$merge`) and report (`$collStats`). `host` is this server's `HOST:PORT`;
    /// `operations` are needed by `$currentOp` alone.
    #[must_use]
    pub fn for_pipeline(
        mut self,
        ids: Arc<ObjectIds>,
        host: String,
        operations: Option<ListOperations>,
        weigh: Weigh,
    ) -> Self {
        self.more = Some(More {
            ids,
            host,
            operations,
            weigh,
        });
        self
    }

    fn more(&self) -> Result<&More> {
        self.more
            .as_ref()
            .ok_or_else(|| Error::new(Code::InternalError, "only a pipeline writes and reports"))
    }

    pub fn handles(&self) -> &Handles {
        &self.handles
    }

    /// The rows of a collection; one that does not exist has none.
    pub fn read(
        &self,
        database: &str,
        collection: &str,
        reading: Reading,
        at: ReadPoint,
    ) -> Result<Box<dyn Rows>> {
        Ok(match self.way(database, collection, &reading, at)? {
            Some(way) => self.rows(way, reading),
            None => Box::new(Empty),
        })
    }

    /// The way to what is read, if the collection exists.
    pub fn way(
        &self,
        database: &str,
        collection: &str,
        reading: &Reading,
        at: ReadPoint,
    ) -> Result<Option<Way>> {
        let Some(collection) = self.catalog.get(database, collection)? else {
            return Ok(None);
        };
        let sort = reading.sort.as_deref();
        if let Some(ends) = &reading.between {
            let access = between(&collection, reading.hint.as_ref(), ends, at)?;
            return Ok(Some(Way {
                walk: Walk::new(collection, access).show_ts(reading.show_ts),
                sorted: sort.is_none_or(Sort::is_empty),
            }));
        }
        order_ids(&collection, &reading.filter, sort, at);
        let chosen = choose(
            &collection,
            &reading.filter,
            sort,
            reading.hint.as_ref(),
            at,
        )?;
        let walk = Walk::new(collection, chosen.access)
            .exact(chosen.exact)
            .show_ts(reading.show_ts);
        Ok(Some(Way {
            walk,
            sorted: chosen.sorted,
        }))
    }

    /// What a way leads to, as rows.
    pub fn rows(&self, way: Way, reading: Reading) -> Box<dyn Rows> {
        self.rows_counted(way, reading).0
    }

    /// The same, with the work that it takes to find them.
    pub fn rows_counted(&self, way: Way, reading: Reading) -> (Box<dyn Rows>, Arc<Mutex<Effort>>) {
        let Way { walk, sorted } = way;
        let Reading {
            filter,
            sort,
            skip,
            limit,
            count_only,
            ..
        } = reading;
        let Some(sort) = sort.filter(|_| !sorted) else {
            let rows = CollectionRows::new(walk, filter, &self.handles, skip, limit);
            let counted = rows.counted();
            return (Box::new(rows.count_only(count_only)), counted);
        };
        let found = Box::new(CollectionRows::new(walk, filter, &self.handles, 0, None));
        let counted = found.counted();
        let bound = limit.map(|limit| limit.saturating_add(skip));
        let mut rows = stage::sort(found, sort, bound);
        if skip > 0 {
            rows = stage::skip(rows, skip);
        }
        if let Some(limit) = limit {
            rows = stage::limit(rows, limit);
        }
        (rows, counted)
    }

    /// The rows of a collection, as the front of a pipeline asks for them.
    pub fn read_spec(
        &self,
        database: &str,
        collection: &str,
        spec: &SourceSpec,
        hint: Option<Hint>,
        at: ReadPoint,
    ) -> Result<Box<dyn Rows>> {
        let reading = Reading::new(spec.clone(), hint, self.show_ts);
        self.read(database, collection, reading, at)
    }
}

impl Sources for EngineSources {
    fn open(&self, cx: &Cx<'_>, from: &Target, spec: &SourceSpec) -> Result<Box<dyn Rows>> {
        self.read_spec(&from.db, &from.coll, spec, None, read_point(cx))
    }

    fn find_equal(
        &self,
        cx: &Cx<'_>,
        from: &Target,
        field: &str,
        keys: &[ValueRef<'_>],
        each: &mut dyn FnMut(Doc<'_>, Option<Origin>) -> Result<()>,
    ) -> Result<bool> {
        let Some(collection) = self.catalog.get(&from.db, &from.coll)? else {
            return Ok(true);
        };
        let source = self.handles.add(&collection);
        let mut effort = Effort::default();
        let found = collection.read(read_point(cx), |view| {
            let Some(holders) = holders(view, field, keys) else {
                return Ok(false);
            };
            let mut scratch = Vec::new();
            for (id, stored) in holders {
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

    fn sink(&self, cx: &Cx<'_>, output: &Arc<Output>) -> Result<Box<dyn Sink>> {
        let catalog = Arc::clone(&self.catalog);
        let more = self.more()?;
        let ids = Arc::clone(&more.ids);
        let effort = WriteEffort::new(&self.handles, more.weigh);
        match &**output {
            Output::Replace(into) => Ok(Box::new(out::begin(catalog, ids, into, effort, cx)?)),
            Output::Merge(merge) => {
                let merge = Arc::clone(merge);
                Ok(Box::new(merge::begin(catalog, ids, merge, effort, cx)?))
            }
        }
    }

    fn command(&self) -> u32 {
        self.handles.command()
    }

    fn report(&self, cx: &Cx<'_>, on: &Target, what: &Report, out: &mut Batch) -> Result<()> {
        let more = self.more()?;
        let about = About {
            catalog: &self.catalog,
            host: &more.host,
            at: read_point(cx),
            operations: more.operations.as_ref(),
        };
        report(&about, on, what, out)
    }
}

/// Where a pipeline's reads start from: each command that goes on with it has a `now` of its own.
pub(super) fn read_point(cx: &Cx<'_>) -> ReadPoint {
    ReadPoint::at(cx.vars.now())
}
