//! The explained command: its plan, and the work that it would do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::shape::Shape;
use super::tree::{OuterStage, PlanTree};
use super::work::{self, CountedRows, ExplainWork, ExplainWrite};
use crate::command::aggregate::Aggregate;
use crate::command::count::Count;
use crate::command::delete::Deletes;
use crate::command::distinct::Distinct;
use crate::command::find::{self, Find};
use crate::command::update::Updates;
use crate::command::write::{self, RunningAction, Selecting};
use crate::command::{Call, find_and_modify};
use crate::effort::Effort;
use crate::engine::plan::winning_plan;
use crate::engine::stats::totals;
use crate::engine::write::{Deleting, Selection, Shows, Updating};
use crate::engine::{EngineSources, Reading};
use crate::error::{Code, Error, Result};
use crate::query::Vars;
use crate::query::sort::Sort;
use crate::query::stage::{self, Empty, PipelineLimits, RowBatch, Rows, SourceSpec};
use crate::value::{Doc, DocBuf, Value};

pub(super) struct ExplainSubject {
    pub namespace: String,
    /// The filter with every shorthand expanded.
    pub parsed: DocBuf,
    /// `None` for a pipeline that generates its own rows.
    pub tree: Option<PlanTree>,
    pub shape: Shape,
    pub work: ExplainWork,
    /// The stages after the source, if there are any.
    pub stages: Vec<StageDescription>,
}

pub(super) struct StageDescription {
    pub name: &'static str,
    pub spec: Value,
    n: Arc<AtomicU64>,
}

// === impl StageDescription ===

impl StageDescription {
    pub fn returned(&self) -> u64 {
        self.n.load(Ordering::Relaxed)
    }
}

/// Returns the access to a collection that does not exist.
fn nothing() -> DocBuf {
    DocBuf::build(|out| {
        out.put_str("stage", "EOF")
            .put_str("type", "nonExistentNamespace");
    })
}

fn written(sort: &Sort) -> DocBuf {
    DocBuf::build(|out| {
        for (path, descending) in sort.parts() {
            out.put_i32(path.as_str(), if descending { -1 } else { 1 });
        }
    })
}

// === impl ExplainSubject ===

impl ExplainSubject {
    pub fn of(call: &Call<'_>) -> Result<Self> {
        match call.command.name {
            "find" => Self::of_find(call),
            "count" => Self::of_count(call),
            "distinct" => Self::of_distinct(call),
            "aggregate" => Self::of_aggregate(call),
            "update" => {
                let updating = write::only::<Updates>(call)?;
                Self::of_update(call, updating)
            }
            "delete" => {
                let deleting = write::only::<Deletes>(call)?;
                Self::of_delete(call, deleting)
            }
            "findAndModify" => {
                let action = find_and_modify::explained(call)?;
                let database = call.database();
                if call.context.catalog.in_database(database).is_empty() {
                    return Err(Error::new(
                        Code::NamespaceNotFound,
                        format!("database {database} does not exist"),
                    ));
                }
                match action {
                    RunningAction::Update(updating) => Self::of_update(call, *updating),
                    RunningAction::Remove(deleting) => {
                        Self::of_write(call, deleting.search.selection, None, false, Shows::Before)
                    }
                }
            }
            "explain" => Err(Error::new(
                Code::IllegalOperation,
                "Explain cannot explain itself.",
            )),
            name => Err(Error::new(
                Code::IllegalOperation,
                format!("Cannot explain cmd: {name}"),
            )),
        }
    }

    /// Returns whether it is explained as one plan, without the stages of a pipeline.
    pub fn is_plan(&self) -> bool {
        self.stages.is_empty() && self.tree.is_some()
    }

    fn of_find(call: &Call<'_>) -> Result<Self> {
        let find = Find::read(call)?;
        let prepared = find.prepare(call)?;
        let reading = prepared.reading;
        let filter = reading.filter.describe()?;
        let mut shape = Shape::new(&call.namespace(find.collection), filter.as_doc());
        shape.order(find.filter.unwrap_or(Doc::EMPTY));
        let mut outer = Vec::new();
        if let Some(limit) = find.limit {
            outer.push(OuterStage::Limit(limit));
        }
        if let Some(fields) = find.projection {
            outer.push(OuterStage::Projection {
                simple: is_simple(fields),
                spec: DocBuf::from(fields),
            });
            shape.projection(fields);
        }
        if find.skip > 0 {
            outer.push(OuterStage::Skip(find.skip));
        }
        if let Some(sort) = find.sort {
            shape.sort(sort);
        }
        let wanted = Arc::clone(&reading.filter);
        let mut subject = Self::of_reading(
            call,
            find.collection,
            reading,
            prepared.sources,
            prepared.vars,
            prepared.limits,
            outer,
            shape,
        )?;
        // Index keys have no fields for the projection.
        let projection = prepared.projection.filter(|_| !find.return_key);
        if let (ExplainWork::Read(read), Some(projection)) = (&mut subject.work, projection) {
            read.then(|rows| find::project(rows, projection, wanted));
        }
        Ok(subject)
    }

    fn of_count(call: &Call<'_>) -> Result<Self> {
        let count = Count::read(call)?;
        let collection = count.collection;
        let found = call.context.catalog.get(call.database(), collection)?;
        if let Some(found) = found
            && count.is_of_all()
        {
            let all = totals(&found, call.read_point()).count;
            let namespace = call.namespace(collection);
            return Ok(Self {
                parsed: DocBuf::new(),
                tree: Some(PlanTree {
                    outer: Vec::new(),
                    access: DocBuf::build(|out| {
                        out.put_str("stage", "RECORD_STORE_FAST_COUNT");
                    }),
                    sort_limit: None,
                }),
                shape: Shape::new(&namespace, Doc::EMPTY),
                work: ExplainWork::FastCount(count.of(all)),
                stages: Vec::new(),
                namespace,
            });
        }
        let (skip, limit) = (count.skip, count.limit);
        let selecting = Selecting::plain(count.filter, count.hint);
        Self::of_scan(call, collection, selecting, |reading| {
            (reading.skip, reading.limit, reading.count_only) = (skip, limit, true);
            vec![OuterStage::Count]
        })
    }

    fn of_distinct(call: &Call<'_>) -> Result<Self> {
        let distinct = Distinct::read(call)?;
        let selecting = Selecting::plain(distinct.filter, distinct.hint);
        let mut subject = Self::of_scan(call, distinct.collection, selecting, |_| Vec::new())?;
        subject.shape.other(&format!(" distinct {}", distinct.key));
        Ok(subject)
    }

    fn of_scan(
        call: &Call<'_>,
        collection: &str,
        selecting: Selecting<'_>,
        adapt: impl FnOnce(&mut Reading) -> Vec<OuterStage>,
    ) -> Result<Self> {
        let (selection, _) = selecting.parse(&call.vars(), |_| Ok(()))?;
        let Selection {
            wanted,
            vars,
            hint,
            names_ts,
            ..
        } = selection;
        let filter = wanted.into_filter();
        let shape = Shape::new(&call.namespace(collection), filter.describe()?.as_doc());
        let spec = SourceSpec {
            filter: Some(filter),
            ..SourceSpec::default()
        };
        let mut reading = Reading::new(spec, hint, names_ts);
        let outer = adapt(&mut reading);
        let catalog = Arc::clone(&call.context.catalog);
        let sources = Arc::new(EngineSources::new(catalog, call.read_point(), false));
        let limits = PipelineLimits::new(true, call.context.query_memory);
        Self::of_reading(
            call, collection, reading, sources, vars, limits, outer, shape,
        )
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a read, once")]
    fn of_reading(
        call: &Call<'_>,
        collection: &str,
        reading: Reading,
        sources: Arc<EngineSources>,
        vars: Vars,
        limits: PipelineLimits,
        mut outer: Vec<OuterStage>,
        shape: Shape,
    ) -> Result<Self> {
        let namespace = call.namespace(collection);
        let parsed = reading.filter.describe()?;
        let planned = sources.plan(call.database(), collection, &reading)?;
        let Some(planned) = planned else {
            return Ok(Self {
                namespace,
                parsed,
                tree: Some(PlanTree {
                    outer: outer
                        .into_iter()
                        .filter(|outer| matches!(outer, OuterStage::Count))
                        .collect(),
                    access: nothing(),
                    sort_limit: None,
                }),
                shape,
                work: ExplainWork::Nothing,
                stages: Vec::new(),
            });
        };
        let sort = reading.sort.as_deref().map(written);
        let access = planned.winning_plan(sort.as_ref().map(DocBuf::as_doc))?;
        let opened = planned.open_walk();
        let mut sort_limit = None;
        if !opened.sorted {
            // A blocking sort absorbs the limit.
            sort_limit = reading
                .limit
                .map(|limit| limit.saturating_add(reading.skip));
            outer.retain(|outer| !matches!(outer, OuterStage::Limit(_)));
        }
        let (rows, counted) = sources.rows_counted(opened, reading);
        let returned = Arc::new(AtomicU64::new(0));
        let rows = Box::new(CountedRows {
            rows,
            n: Arc::clone(&returned),
        });
        Ok(Self {
            namespace,
            parsed,
            tree: Some(PlanTree {
                outer,
                access,
                sort_limit,
            }),
            shape,
            work: ExplainWork::Read(Box::new(work::ExplainRead {
                rows,
                sources,
                vars,
                limits,
                counted,
                effort: Effort::default(),
                returned,
                batch: RowBatch::new(),
                ended: false,
            })),
            stages: Vec::new(),
        })
    }

    fn of_aggregate(call: &Call<'_>) -> Result<Self> {
        let aggregate = Aggregate::read(call)?;
        if call.body().has("writeConcern") {
            return Err(Error::failed_to_parse(
                "Aggregation explain does not support the'writeConcern' option",
            ));
        }
        let prepared = aggregate.prepare(call)?;
        let namespace = prepared.namespace;
        let mut stages = Vec::new();
        let (mut subject, rest) = match aggregate.collection {
            Some(name) if !prepared.pipeline.is_own_source() => {
                let (spec, rest) = prepared.pipeline.clone().split_source();
                let mut outer = Vec::new();
                outer.extend(spec.limit.map(OuterStage::Limit));
                if spec.skip > 0 {
                    outer.push(OuterStage::Skip(spec.skip));
                }
                let reading = Reading::new(spec, aggregate.hint.clone(), prepared.show_ts);
                let shape = Shape::new(&namespace, reading.filter.describe()?.as_doc());
                let subject = Self::of_reading(
                    call,
                    name,
                    reading,
                    prepared.sources,
                    prepared.vars,
                    prepared.limits,
                    outer,
                    shape,
                )?;
                (subject, rest)
            }
            _ => {
                let subject = Self {
                    shape: Shape::new(&namespace, Doc::EMPTY),
                    namespace,
                    parsed: DocBuf::new(),
                    tree: None,
                    work: ExplainWork::Read(Box::new(work::ExplainRead {
                        rows: Box::new(Empty),
                        sources: prepared.sources,
                        vars: prepared.vars,
                        limits: prepared.limits,
                        counted: Arc::default(),
                        effort: Effort::default(),
                        returned: Arc::default(),
                        batch: RowBatch::new(),
                        ended: false,
                    })),
                    stages: Vec::new(),
                };
                (subject, prepared.pipeline.clone())
            }
        };
        for stage in stage::names(aggregate.pipeline) {
            if let Some(row) = stage::STAGES.find(stage.name_bytes()) {
                subject.shape.stage(row, stage.value);
            }
        }
        let (rest, output) = rest.split_output();
        let mut open = |input: Box<dyn Rows>| {
            rest.open_with(input, |step, rows| {
                let n = Arc::new(AtomicU64::new(0));
                stages.push((step, Arc::clone(&n)));
                Box::new(CountedRows { rows, n })
            })
        };
        if let ExplainWork::Read(reading) = &mut subject.work {
            let input = std::mem::replace(&mut reading.rows, Box::new(Empty));
            reading.rows = open(input);
        } else {
            drop(open(Box::new(Empty)));
        }
        // The output stage is shown, but it does not write.
        stages.extend(output.as_ref().map(|step| (step, Arc::default())));
        for (step, n) in stages {
            let (name, spec) = step.shown()?;
            subject.stages.push(StageDescription { name, spec, n });
        }
        Ok(subject)
    }

    fn of_update(call: &Call<'_>, updating: Updating) -> Result<Self> {
        let Updating {
            search,
            update,
            upsert,
            shows,
            ..
        } = updating;
        Self::of_write(call, search.selection, Some(update), upsert, shows)
    }

    fn of_delete(call: &Call<'_>, deleting: Deleting) -> Result<Self> {
        Self::of_write(call, deleting.search.selection, None, false, Shows::Nothing)
    }

    fn of_write(
        call: &Call<'_>,
        selection: Selection,
        update: Option<crate::query::update::Update>,
        upsert: bool,
        shows: Shows,
    ) -> Result<Self> {
        let name = call.collection()?;
        let namespace = call.namespace(name);
        let collection = call.context.catalog.get(call.database(), name)?;
        let (access, picker) = match collection {
            None => (nothing(), None),
            Some(collection) => {
                let plan = selection.plan(&collection, call.read_point())?;
                let sort = selection.sort.as_ref().map(written);
                let sort = sort.as_ref().map(DocBuf::as_doc);
                let access = winning_plan(&plan, selection.wanted.filter(), sort, false)?;
                (access, Some(selection.picker(collection, plan)))
            }
        };
        let outer = match update {
            Some(_) => OuterStage::Update,
            None => OuterStage::Delete {
                multi: selection.multi,
            },
        };
        let parsed = selection.wanted.filter().describe()?;
        Ok(Self {
            shape: Shape::new(&namespace, parsed.as_doc()),
            namespace,
            parsed,
            tree: Some(PlanTree {
                // Where there is no collection, there is nothing to write to.
                outer: picker.is_some().then_some(outer).into_iter().collect(),
                access,
                sort_limit: (!selection.multi && selection.sort.is_some()).then_some(1),
            }),
            work: ExplainWork::Write(Box::new(ExplainWrite {
                picker,
                selection,
                update,
                upsert,
                shows,
                current: Vec::new(),
                effort: Effort::default(),
                matched: 0,
                modified: 0,
                ended: false,
            })),
            stages: Vec::new(),
        })
    }
}

/// Whether the projection only includes or excludes plain field names.
fn is_simple(fields: Doc<'_>) -> bool {
    fields.iter().all(|elem| {
        let plain = elem.value.as_num().is_some() || elem.value.as_bool().is_some();
        plain && !elem.name().contains(['.', '$'])
    })
}
