//! A parsed pipeline: its stages, the part that a source can handle, and how it is opened.

use std::sync::Arc;

use super::depth::{self, Depth};
use super::document_map::{DocumentMap, Mapped, map};
use super::facts::{Entry, InChangeStream, Position, RowsFrom, RunsOn, StageParser};
use super::levels::row_of;
use super::rows::rows_before_failure;
use super::stage_context::StageContext;
use super::table::STAGES;
use super::transform::Transform;
use super::{
    ChangeStream, CollectionName, Output, Rows, SourceSpec, limit, match_, optimise, skip, sort,
};
use crate::error::{Code, Error, Result};
use crate::query::filter::Filter;
use crate::query::sort::Sort;
use crate::query::{PathOrigin, Projection, Survey};
use crate::value::{Doc, DocBuf, Elem, Path, Value};
use crate::vocabulary::Status;

/// MongoDB's limit on the number of stages.
const MAX_STAGES: usize = 1000;

/// The stages of an `aggregate`, or of a pipeline inside a stage.
#[derive(Clone, Default)]
pub struct Pipeline {
    pub(super) steps: Vec<PipelineStep>,
}

/// One parsed stage, and what the client wrote (for explain).
#[derive(Clone)]
pub struct PipelineStep {
    pub row: &'static Entry,
    pub spec: Value,
    pub stage: Stage,
    /// The number of nesting levels that it can add to a row.
    levels: usize,
}

/// A parsed stage. Stages that a planner examines have variants of their own.
#[derive(Clone)]
pub enum Stage {
    Match(Arc<Filter>),
    /// A sort and, behind it, a limit.
    Sort(Arc<Sort>, Option<u64>),
    Skip(u64),
    Limit(u64),
    StageOp(Arc<dyn StageOp>),
}

/// Any other stage. It is parsed once and opened each time it runs.
pub trait StageOp: Send + Sync {
    fn open(self: Arc<Self>, input: Box<dyn Rows>) -> Box<dyn Rows>;

    /// Opens the stage as MongoDB's classic engine runs it, if that is told from the newer one.
    fn open_in_classic_engine(self: Arc<Self>, input: Box<dyn Rows>) -> Box<dyn Rows> {
        self.open(input)
    }

    /// Opens the stage as MongoDB's newer engine runs it for a stage of the classic one, if that is told from a result that goes to
    /// the client.
    fn open_before_classic_engine(self: Arc<Self>, input: Box<dyn Rows>) -> Box<dyn Rows> {
        self.open(input)
    }

    /// Returns whether MongoDB hands the stage to its newer engine if all stages before it are handed over, too.
    fn runs_in_newer_engine(&self) -> bool {
        false
    }

    /// Returns the target that the stage writes to.
    fn output(&self) -> Option<&Arc<Output>> {
        None
    }

    /// Returns the changes that the stage follows.
    fn change_stream(&self) -> Option<&ChangeStream> {
        None
    }

    /// Returns whether only the number of input rows matters.
    fn only_counts(&self) -> bool {
        false
    }

    /// Returns whether equal input gives equal output (not so for `$sample`), regardless of its inner pipelines.
    fn is_deterministic(&self) -> bool {
        true
    }

    /// Returns whether the stage drops rows by their number only, like `$limit`.
    fn limits_rows(&self) -> bool {
        false
    }

    /// Returns whether each input row gives at least one output row.
    fn keeps_every_row(&self) -> bool {
        false
    }

    /// Returns where the value at a path of the output rows comes from, for stages whose output rows stand for input rows.
    fn origin(&self, _: &Path) -> PathOrigin {
        PathOrigin::Computed
    }

    /// Returns the stage as a map of single documents, if it is one.
    fn as_map(&self) -> Option<&Arc<dyn DocumentMap>> {
        None
    }

    /// For a stage that adds rows of its own to those of its input: returns the stage with only those rows that pass the
    /// filter.
    fn with_match(&self, _: &Arc<Filter>) -> Result<Option<Arc<dyn StageOp>>> {
        Ok(None)
    }

    /// Returns the stage with optimised inner pipelines, if it has any.
    fn optimised(&self) -> Result<Option<Arc<dyn StageOp>>> {
        Ok(None)
    }

    /// Reports the fields that the stage and its inner pipelines name.
    fn survey(&self, survey: &mut Survey<'_>);

    /// Visits every pipeline directly inside the stage, with its input. If the stage itself reads the documents of a
    /// collection, it passes [`Pipeline::EMPTY`] with that collection.
    fn inner(&self, _: &mut dyn FnMut(&Pipeline, PipelineInput<'_>)) {}
}

/// The input of a pipeline.
#[derive(Debug, Clone, Copy)]
pub enum PipelineInput<'a> {
    Collection(&'a CollectionName),
    /// The input of the enclosing stage.
    SameRows,
    /// No collection. The pipeline begins with a stage that has rows of its own.
    Nothing,
}

// === impl Pipeline ===

impl Pipeline {
    pub const EMPTY: Pipeline = Pipeline { steps: Vec::new() };

    pub fn parse(stages: Doc<'_>, context: &StageContext<'_>) -> Result<Self> {
        let count = stages.count();
        if count > MAX_STAGES {
            return Err(Error::location(
                7749501,
                format!("Pipeline length must be no longer than {MAX_STAGES} stages"),
            ));
        }
        let mut steps = Vec::with_capacity(count);
        let mut rows = Vec::with_capacity(count);
        for (index, elem) in stages.iter().enumerate() {
            let spec = elem.value.as_doc();
            let spec = spec.ok_or_else(|| context.not_a_document(elem.value.ty()))?;
            rows.push(parse_stage(spec, &context.at(index == 0), &mut steps)?);
        }
        check_places(&rows, change_stream_of(&steps).is_some(), context)?;
        Ok(Self { steps })
    }

    pub fn steps(&self) -> &[PipelineStep] {
        &self.steps
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the first stages, this many.
    pub fn leading(&self, count: usize) -> Pipeline {
        Self {
            steps: self.steps.iter().take(count).cloned().collect(),
        }
    }

    /// Returns whether the pipeline begins with a stage that has rows of its own (`$documents`, `$collStats`).
    pub fn is_own_source(&self) -> bool {
        self.steps
            .first()
            .is_some_and(|step| step.row.facts.rows_from != RowsFrom::Input)
    }

    /// Returns a pipeline that gives the same rows for less work.
    pub fn optimise(mut self) -> Result<Self> {
        for step in &mut self.steps {
            if let Stage::StageOp(op) = &step.stage
                && let Some(optimised) = op.optimised()?
            {
                step.stage = Stage::StageOp(optimised);
            }
        }
        optimise::optimise(&mut self.steps)?;
        Ok(self)
    }

    /// Appends a stage.
    pub(super) fn then(mut self, stage: Stage) -> Self {
        self.steps.push(PipelineStep::made(stage));
        self
    }

    /// Returns the target that the pipeline writes to, if any.
    pub fn output(&self) -> Option<&Arc<Output>> {
        match &self.steps.last()?.stage {
            Stage::StageOp(op) => op.output(),
            _ => None,
        }
    }

    /// Returns the changes that the pipeline follows, if it begins with `$changeStream`.
    pub fn change_stream(&self) -> Option<&ChangeStream> {
        change_stream_of(&self.steps)
    }

    /// Visits this pipeline and all nested ones, at every level.
    pub fn each_level(
        &self,
        on: PipelineInput<'_>,
        visit: &mut dyn FnMut(&Pipeline, PipelineInput<'_>),
    ) {
        visit(self, on);
        for step in &self.steps {
            if let Stage::StageOp(op) = &step.stage {
                op.inner(&mut |pipeline, on| pipeline.each_level(on, visit));
            }
        }
    }

    /// Reports the fields that the stages name, in their order.
    pub fn survey(&self, survey: &mut Survey<'_>) {
        for step in &self.steps {
            match &step.stage {
                Stage::Match(filter) => filter.survey(survey),
                Stage::Sort(sort, _) => sort.survey(survey),
                Stage::Skip(_) | Stage::Limit(_) => {}
                Stage::StageOp(op) => op.survey(survey),
            }
            survey.settle();
        }
    }

    pub(super) fn is_deterministic(&self) -> bool {
        let mut all = !Survey::of("", |survey| self.survey(survey)).is_random;
        self.each_level(PipelineInput::Nothing, &mut |pipeline, _| {
            all &= pipeline.steps.iter().all(|step| match &step.stage {
                Stage::StageOp(op) => op.is_deterministic(),
                _ => true,
            });
        });
        all
    }

    /// Splits off the part that a source can handle: filter, then sort, then skip, then limit.
    pub fn split_source(mut self) -> (SourceSpec, Pipeline) {
        let mut spec = SourceSpec::default();
        let mut split = 0;
        for step in &self.steps {
            let ordered = spec.sort.is_some() || spec.skip > 0 || spec.limit.is_some();
            match &step.stage {
                Stage::Match(filter) if !ordered && spec.filter.is_none() => {
                    spec.filter = Some(filter.clone());
                }
                Stage::Sort(sort, limit) if !ordered => {
                    spec.sort = Some(sort.clone());
                    spec.limit = *limit;
                }
                Stage::Skip(count) => {
                    spec.skip = spec.skip.saturating_add(*count);
                    // The limit counts the rows behind the skip.
                    spec.limit = spec.limit.map(|limit| limit.saturating_sub(*count));
                }
                Stage::Limit(count) => {
                    spec.limit = Some(spec.limit.map_or(*count, |before| before.min(*count)));
                }
                _ => break,
            }
            split += 1;
        }
        self.steps.drain(..split);
        spec.count_only = matches!(self.steps.first(), Some(PipelineStep { stage: Stage::StageOp(op), .. }) if op.only_counts());
        (spec, self)
    }

    /// Returns whether the pipeline is one `$project` that only includes fields, or has no stages. MongoDB makes that a part of
    /// the find before it.
    pub fn only_includes(&self) -> bool {
        match self.steps.as_slice() {
            [] => true,
            [step] => {
                let Stage::StageOp(op) = &step.stage else {
                    return false;
                };
                let projection = op.as_map().and_then(|map| map.projection());
                projection.is_some_and(Projection::only_includes)
            }
            _ => false,
        }
    }

    /// Splits off the first stage.
    pub(super) fn split_first(mut self) -> (Pipeline, Pipeline) {
        let rest = self.steps.split_off(self.steps.len().min(1));
        (self, Pipeline { steps: rest })
    }

    /// Splits off the last stage if it writes.
    pub fn split_output(mut self) -> (Pipeline, Option<PipelineStep>) {
        let output = match self.output() {
            Some(_) => self.steps.pop(),
            None => None,
        };
        (self, output)
    }

    /// Opens the stages on a source.
    pub fn open(&self, source: Box<dyn Rows>) -> Box<dyn Rows> {
        self.open_with(source, |_, rows| rows)
    }

    /// Opens the stages on a source, as MongoDB's classic engine runs them.
    pub fn open_in_classic_engine(&self, source: Box<dyn Rows>) -> Box<dyn Rows> {
        self.open_from(source, false, |_, rows| rows)
    }

    /// Opens the stages on a source. `behind` wraps the output of every stage.
    pub fn open_with<'s>(
        &'s self,
        source: Box<dyn Rows>,
        behind: impl FnMut(&'s PipelineStep, Box<dyn Rows>) -> Box<dyn Rows>,
    ) -> Box<dyn Rows> {
        self.open_from(source, true, behind)
    }

    /// Returns whether there is a stage at this place that MongoDB's newer engine does not run.
    fn is_classic(&self, at: usize) -> bool {
        self.steps.get(at).is_some_and(|step| match &step.stage {
            Stage::StageOp(op) => !op.runs_in_newer_engine(),
            _ => true,
        })
    }

    fn open_from<'s>(
        &'s self,
        source: Box<dyn Rows>,
        mut is_newer: bool,
        mut behind: impl FnMut(&'s PipelineStep, Box<dyn Rows>) -> Box<dyn Rows>,
    ) -> Box<dyn Rows> {
        let mut rows = source;
        let mut depth = Depth::default();
        // How many of the next steps are already part of a transform.
        let mut done = 0;
        let mut is_query = true;
        for (at, step) in self.steps.iter().enumerate() {
            rows = match &step.stage {
                _ if done > 0 => {
                    done -= 1;
                    rows
                }

                Stage::Match(filter) => match_::rows(rows, filter.clone()),
                Stage::Skip(count) => skip::rows(rows, *count),
                Stage::Limit(count) => limit::rows(rows, *count),
                Stage::StageOp(op) => match Transform::with_places(&self.steps[at..]) {
                    Some(transform) => {
                        done = transform.len() - 1;
                        map(rows, move |row, vars, out| {
                            out.extend_from_slice(&transform.apply(row.doc, vars)?);
                            Ok(true)
                        })
                    }
                    None if is_newer && self.is_classic(at + 1) => {
                        op.clone().open_before_classic_engine(rows)
                    }
                    None if is_newer => op.clone().open(rows),
                    None => op.clone().open_in_classic_engine(rows),
                },
                Stage::Sort(by, limit) => {
                    let rows = sort::rows(rows, by.clone(), *limit);
                    match limit {
                        None => rows,
                        Some(limit) => limit::rows(rows, *limit),
                    }
                }
            };
            // The first filters, sorts and limits belong to the query below. Then groups and joins are handed over.
            let is_op = matches!(step.stage, Stage::StageOp(_));
            is_query &= !is_op;
            is_newer &= match &step.stage {
                Stage::StageOp(op) => op.runs_in_newer_engine(),
                _ => is_query,
            };
            rows = behind(step, depth.check_after(step.levels, rows));
            // MongoDB reads many documents at once, and a $project in the first place is a part of that.
            let is_read = at == 0 && step.row.name == "$project";
            // $facet takes all rows before it passes on the first one.
            let next = self.steps.get(at + 1).map(|next| next.row.name);
            if next.is_some_and(|next| next != "$facet") && !is_read {
                rows = rows_before_failure(rows);
            }
        }
        depth.at_end(rows)
    }
}

// === impl PipelineStep ===

impl PipelineStep {
    /// Creates a step for a stage that no client wrote. The stage has a variant of its own.
    pub(super) fn made(stage: Stage) -> Self {
        let row = stage.name().and_then(|name| STAGES.find(name.as_bytes()));
        Self {
            row: row.expect("the table has every stage with a variant of its own"),
            spec: Value::missing(),
            stage,
            levels: 0,
        }
    }

    /// Returns the stage as explain shows it: its name and its argument.
    pub fn shown(&self) -> Result<(&'static str, Value)> {
        let count = |count: u64| Value::int64(i64::try_from(count).unwrap_or(i64::MAX));
        let spec = match &self.stage {
            Stage::Match(filter) => Value::document(filter.describe()?.into_bytes()),
            Stage::Sort(sort, limit) => Value::document(
                DocBuf::build(|out| {
                    let mut key = out.doc("sortKey");
                    for (path, descending) in sort.parts() {
                        key.put_i32(path.as_str(), if descending { -1 } else { 1 });
                    }
                    key.end();
                    if let Some(limit) = limit {
                        out.put("limit", count(*limit).as_ref());
                    }
                })
                .into_bytes(),
            ),
            Stage::Skip(number) | Stage::Limit(number) => count(*number),
            Stage::StageOp(_) => self.spec.clone(),
        };
        Ok((self.stage.name().unwrap_or(self.row.name), spec))
    }
}

// === impl Stage ===

impl Stage {
    /// Returns the name of a stage with a variant of its own.
    fn name(&self) -> Option<&'static str> {
        match self {
            Self::Match(_) => Some("$match"),
            Self::Sort(..) => Some("$sort"),
            Self::Skip(_) => Some("$skip"),
            Self::Limit(_) => Some("$limit"),
            Self::StageOp(_) => None,
        }
    }
}

/// Returns the name and the argument of a stage.
pub(super) fn only_field(stage: Doc<'_>) -> Result<Elem<'_>> {
    let mut fields = stage.iter();
    match (fields.next(), fields.next()) {
        (Some(field), None) => Ok(field),
        _ => Err(Error::location(
            40323,
            "A pipeline stage specification object must contain exactly one field.",
        )),
    }
}

fn change_stream_of(steps: &[PipelineStep]) -> Option<&ChangeStream> {
    match &steps.first()?.stage {
        Stage::StageOp(op) => op.change_stream(),
        _ => None,
    }
}

/// Parses one stage document and returns the row of the stage. A stage that is not built adds nothing.
fn parse_stage(
    spec: Doc<'_>,
    context: &StageContext<'_>,
    steps: &mut Vec<PipelineStep>,
) -> Result<&'static Entry> {
    let field = only_field(spec)?;
    let row = row_of(field.name())?;
    if let RunsOn::Only { db, coll } = row.facts.runs_on
        && (context.db, context.coll) != (db, Some(coll))
    {
        return Err(Error::new(
            Code::InvalidNamespace,
            format!("{} may only be run against {db}.{coll}", row.name),
        ));
    }
    let Status::Ready(parse) = row.status else {
        return Ok(row);
    };
    let levels = depth::levels(field.value);
    let before = steps.len();
    let mut push = |stage| {
        let first = steps.len() == before;
        steps.push(PipelineStep {
            row,
            spec: if first {
                field.value.to_value()
            } else {
                Value::missing()
            },
            levels: match &stage {
                Stage::StageOp(_) => levels,
                _ => 0,
            },
            stage,
        });
    };
    match parse {
        StageParser::Stages(parse) => parse(field.value, context, &mut push)?,
        StageParser::Each(parse) => {
            push(Stage::StageOp(Arc::new(Mapped(parse(
                field.value,
                context,
            )?))));
        }
    }
    Ok(row)
}

/// Checks that every stage is allowed at its place. MongoDB has parsed all stages by then, and checks in this order.
fn check_places(
    rows: &[&'static Entry],
    in_change_stream: bool,
    context: &StageContext<'_>,
) -> Result<()> {
    if !context.is_over_same_rows() {
        rows.first()
            .map_or(Ok(()), |first| check_input(first, context))?;
        check_in_change_stream(rows, in_change_stream)?;
    }
    for row in rows {
        match (context.within, context.in_facet) {
            (Some(within), _) if !within.same_rows && !row.facts.in_sub => {
                return Err(within.refuse(row.name));
            }
            (_, Some(facet)) if !row.facts.in_facet => return Err(facet.refuse(row.name)),
            _ => {}
        }
    }
    for (index, row) in rows.iter().enumerate() {
        match row.facts.position {
            Position::First { code } if index > 0 => {
                let message = "is only valid as the first stage in a pipeline";
                return Err(Error::location(code, format!("{} {message}", row.name)));
            }
            Position::Last if index + 1 < rows.len() => {
                let message = "can only be the final stage in the pipeline";
                return Err(Error::location(40601, format!("{} {message}", row.name)));
            }
            _ => {}
        }
    }
    rows.iter().try_for_each(|row| STAGES.ready(row).map(drop))
}

/// Checks that the first stage suits what the command runs on: a collection or a database.
fn check_input(first: &Entry, context: &StageContext<'_>) -> Result<()> {
    let refuse = |message| Err(Error::new(Code::InvalidNamespace, message));
    match (first.facts.runs_on, context.coll) {
        (RunsOn::Collection, None) => refuse(format!(
            "{{aggregate: 1}} is not valid for '{}'; a collection is required.",
            first.name
        )),
        (RunsOn::Database, Some(_)) => refuse(format!(
            "'{}' can only be run with {{aggregate: 1}}",
            first.name
        )),
        _ => Ok(()),
    }
}

/// Checks that the stages behind `$changeStream` leave events what they are.
fn check_in_change_stream(rows: &[&'static Entry], in_change_stream: bool) -> Result<()> {
    for (at, row) in rows.iter().enumerate() {
        match row.facts.in_change_stream {
            InChangeStream::OnlyLast if !in_change_stream => {
                return Err(not_here(row.name, "can only be used in"));
            }
            InChangeStream::Never if in_change_stream && at > 0 => {
                return Err(not_here(row.name, "is not permitted in"));
            }
            InChangeStream::OnlyLast if at + 1 < rows.len() => {
                return Err(Error::location(
                    7182802,
                    format!("{} must be the last stage in the pipeline", row.name),
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

fn not_here(name: &str, why: &str) -> Error {
    let message = format!("{name} {why} a $changeStream pipeline");
    Error::new(Code::IllegalOperation, message)
}
