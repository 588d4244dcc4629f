//! `$facet`: several pipelines over the same rows, with their results side by side in one row.
//!
//! Each batch of the input is given to every pipeline in turn. The source of a pipeline returns the batch once and then
//! pauses, and stages pass the pause on. So all pipelines advance through the input together, and the input is not stored.

use std::sync::Arc;

use parking_lot::Mutex;

use super::stage_context::InnerRules;
use super::{
    Flow, Pipeline, PipelineInput, RowBatch, RowContext, Rows, Stage, StageContext, StageOp,
    levels, sort::too_much,
};
use crate::error::{Error, Result};
use crate::query::{Survey, expr};
use crate::value::{ArrayBuilder, Doc, DocBuilder, Value, ValueRef, check_computed};

struct Facet {
    parts: Vec<(Box<str>, Pipeline)>,
}

struct FacetRows {
    input: Box<dyn Rows>,
    stage: Arc<Facet>,
    parts: Vec<FacetBranch>,
    /// The part that processes the current batch.
    at: usize,
    started: bool,
    /// The bytes of all results so far.
    held: usize,
}

/// The number of full memory budgets that all parts share. Up to this many parts have the budget of a whole pipeline each.
const SHARES: usize = 10;

struct FacetBranch {
    rows: Box<dyn Rows>,
    feed: Arc<Mutex<BranchInput>>,
    found: RowBatch,
    /// The elements of the result, as the body of an array.
    result: Vec<u8>,
    count: u32,
    done: bool,
}

/// The current input of a pipeline.
#[derive(Default)]
struct BranchInput {
    batch: Arc<RowBatch>,
    fresh: bool,
    end: bool,
}

/// The source of a pipeline in `$facet`.
struct FacetSource(Arc<Mutex<BranchInput>>);

const WITHIN: InnerRules = InnerRules {
    same_rows: true,
    refusal: (40600, "to be used within a $facet stage"),
    not_a_document: |ty| {
        Error::location(
            40171,
            format!(
                "elements of arrays in $facet spec must be non-empty objects, found: {}",
                ty.alias()
            ),
        )
    },
};

/// Visits the pipelines in a specification.
pub(super) fn inner<'v>(spec: ValueRef<'v>, visit: &mut dyn FnMut(Doc<'v>)) {
    let parts = spec.as_doc().into_iter().flatten();
    parts
        .filter_map(|part| part.value.as_array())
        .for_each(visit);
}

pub(super) fn parse(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let mut parts: Vec<(Box<str>, Pipeline)> = Vec::new();
    each_part(value, context, |name, stages, inside| {
        parts.push((name.into(), Pipeline::parse(stages, inside)?));
        Ok(())
    })?;
    push(Stage::StageOp(Arc::new(Facet { parts })));
    Ok(())
}

/// Checks the names of the stages inside.
pub(super) fn check_early(value: ValueRef<'_>, context: &StageContext<'_>) -> Result<()> {
    each_part(value, context, |_, stages, inside| {
        levels::check_early(stages, inside)
    })
}

/// Visits the pipelines, and the place of each.
fn each_part(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
    mut visit: impl FnMut(&str, Doc<'_>, &StageContext<'_>) -> Result<()>,
) -> Result<()> {
    let spec = value
        .as_doc()
        .filter(|spec| !spec.is_empty())
        .ok_or_else(|| {
            Error::location(
                40169,
                format!("the $facet specification must be a non-empty object, but found: $facet: {value}"),
            )
        })?;
    for elem in spec {
        let name = elem.name();
        expr::check_name(name)?;
        let stages = elem.value.as_array().ok_or_else(|| {
            Error::location(
                40170,
                format!(
                    "arguments to $facet must be arrays, {name} is type {}",
                    elem.value.ty().alias()
                ),
            )
        })?;
        let inside = context.inside(&WITHIN, context.scope)?;
        visit(name, stages, &inside)?;
    }
    Ok(())
}

// === impl Facet ===

impl StageOp for Facet {
    fn open(self: Arc<Self>, input: Box<dyn Rows>) -> Box<dyn Rows> {
        let parts = self
            .parts
            .iter()
            .map(|(_, pipeline)| FacetBranch::open(pipeline))
            .collect();
        Box::new(FacetRows {
            input,
            stage: self,
            parts,
            at: 0,
            started: false,
            held: 0,
        })
    }

    fn inner(&self, visit: &mut dyn FnMut(&Pipeline, PipelineInput<'_>)) {
        for (_, pipeline) in &self.parts {
            visit(pipeline, PipelineInput::SameRows);
        }
    }

    fn survey(&self, survey: &mut Survey<'_>) {
        for (_, pipeline) in &self.parts {
            pipeline.survey(survey);
        }
        survey.carry();
    }

    fn optimised(&self) -> Result<Option<Arc<dyn StageOp>>> {
        let mut parts = Vec::with_capacity(self.parts.len());
        for (name, pipeline) in &self.parts {
            parts.push((name.clone(), pipeline.clone().optimise()?));
        }
        Ok(Some(Arc::new(Self { parts })))
    }
}

// === impl FacetBranch ===

impl FacetBranch {
    fn open(pipeline: &Pipeline) -> Self {
        let feed = Arc::new(Mutex::new(BranchInput::default()));
        Self {
            rows: pipeline.open_in_classic_engine(Box::new(FacetSource(feed.clone()))),
            feed,
            found: RowBatch::new(),
            result: Vec::new(),
            count: 0,
            done: false,
        }
    }

    /// Runs the pipeline. Returns `true` if it needs the next batch or is done, and `false` if the time slice is over.
    fn run(&mut self, cx: &mut RowContext<'_>, held: &mut usize) -> Result<bool> {
        while !self.done {
            self.found.restart(usize::MAX);
            let flow = self.rows.fill(cx, &mut self.found)?;
            for row in self.found.iter() {
                ArrayBuilder::element(&mut self.result, self.count, |out| {
                    out.extend_from_slice(row.doc.bytes());
                });
                self.count += 1;
                *held += row.doc.bytes().len();
            }
            if self.result.len() > cx.limits.memory {
                return Err(too_much("$facet", cx));
            }
            match flow {
                Flow::End => self.done = true,
                Flow::Pause => {
                    let feed = self.feed.lock();
                    return Ok(!feed.fresh && !feed.end);
                }
                Flow::More if cx.out_of_time() => return Ok(false),
                Flow::More => {}
            }
        }
        Ok(true)
    }

    fn suspend(&mut self) -> usize {
        self.found.clear();
        self.found.suspend() + self.result.capacity() + self.rows.suspend()
    }
}

// === impl FacetRows ===

impl Rows for FacetRows {
    fn fill(&mut self, cx: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
        let mut worked = false;
        loop {
            if self.started {
                let mut within = cx.with_vars(cx.vars);
                within.limits.memory = cx.limits.memory * SHARES / self.parts.len().max(SHARES);
                while let Some(part) = self.parts.get_mut(self.at) {
                    if !part.run(&mut within, &mut self.held)? {
                        return Ok(Flow::Pause);
                    }
                    if self.held > cx.limits.memory {
                        return Err(too_much("$facet", cx));
                    }
                    self.at += 1;
                    worked = true;
                }
                if self.parts.iter().all(|part| part.done) {
                    self.finish(out)?;
                    return Ok(Flow::End);
                }
                if worked && cx.out_of_time() {
                    return Ok(Flow::Pause);
                }
            }
            let mut batch = RowBatch::new();
            let flow = self.input.fill(cx, &mut batch)?;
            if flow == Flow::Pause && batch.is_empty() {
                self.at = self.parts.len();
                return Ok(Flow::Pause);
            }
            let batch = Arc::new(batch);
            for part in &mut self.parts {
                let mut feed = part.feed.lock();
                feed.fresh = true;
                feed.end |= flow == Flow::End;
                feed.batch = batch.clone();
            }
            self.at = 0;
            self.started = true;
        }
    }

    fn suspend(&mut self) -> usize {
        self.parts
            .iter_mut()
            .map(FacetBranch::suspend)
            .sum::<usize>()
            + self.input.suspend()
    }
}

impl FacetRows {
    fn finish(&mut self, out: &mut RowBatch) -> Result<()> {
        let size: usize = self.parts.iter().map(|part| part.result.len()).sum();
        check_computed(size)?;
        out.push_doc(None, |doc: &mut DocBuilder<'_>| {
            for ((name, _), part) in self.stage.parts.iter().zip(&self.parts) {
                doc.put(name, array_of(&part.result).as_ref());
            }
        });
        Ok(())
    }
}

/// Builds an array of these elements.
fn array_of(elements: &[u8]) -> Value {
    let mut bytes = Vec::with_capacity(elements.len() + 5);
    let mut array = DocBuilder::begin(&mut bytes);
    array.put_body(elements);
    array.end();
    Value::array(bytes)
}

// === impl FacetSource ===

impl Rows for FacetSource {
    fn fill(&mut self, _: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
        let mut feed = self.0.lock();
        if std::mem::take(&mut feed.fresh) {
            for row in feed.batch.iter() {
                out.push(row.doc, row.origin);
            }
            feed.batch = Arc::default();
            if !feed.end {
                return Ok(Flow::More);
            }
        }
        Ok(if feed.end { Flow::End } else { Flow::Pause })
    }

    fn suspend(&mut self) -> usize {
        0
    }
}
