//! `$unionWith`: appends the rows of another collection.

use std::sync::Arc;

use super::levels::{self, brings_rows};
use super::lookup::SubPipeline;
use super::lookup_spec::collection;
use super::stage_context::{InnerRules, stage_is_no_document, stages_of};
use super::{
    CollectionName, Flow, Pipeline, PipelineInput, RowBatch, RowContext, Rows, Stage, StageContext,
    StageOp,
};
use crate::args::fields;
use crate::error::{Error, Result};
use crate::query::Survey;
use crate::query::filter::Filter;
use crate::value::{Doc, Type, ValueRef};

struct UnionWith {
    from: Option<CollectionName>,
    sub: SubPipeline,
}

struct UnionWithRows {
    stage: Arc<UnionWith>,
    /// The input and, after its end, the other collection.
    rows: Box<dyn Rows>,
    second: bool,
}

const WITHIN: InnerRules = InnerRules {
    same_rows: false,
    refusal: (31441, "within a $unionWith's sub-pipeline"),
    not_a_document: stage_is_no_document,
};

/// The options of the stage, and the place of its pipeline.
struct UnionWithOptions<'a> {
    from: Option<CollectionName>,
    stages: Option<Doc<'a>>,
    inside: StageContext<'a>,
}

pub(super) fn parse(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let given = read(value, context)?;
    let full = match given.stages {
        Some(stages) => Pipeline::parse(stages, &given.inside)?,
        None => Pipeline::default(),
    };
    push(Stage::StageOp(Arc::new(UnionWith {
        from: given.from,
        sub: SubPipeline::new(full),
    })));
    Ok(())
}

/// Checks the options, and the names of the stages inside.
pub(super) fn check_early(value: ValueRef<'_>, context: &StageContext<'_>) -> Result<()> {
    let given = read(value, context)?;
    let stages = given.stages.unwrap_or(Doc::EMPTY);
    levels::check_early(stages, &given.inside)
}

fn read<'a>(value: ValueRef<'a>, context: &StageContext<'a>) -> Result<UnionWithOptions<'a>> {
    let (mut coll, mut db, mut pipeline) = (value.as_str(), None, None);
    if coll.is_none() {
        let spec = value.as_doc().ok_or_else(|| {
            Error::failed_to_parse(format!(
                "the $unionWith stage specification must be an object or string, but found {}",
                value.ty().alias()
            ))
        })?;
        for option in fields("$unionWith", spec) {
            let text = || option.exactly(Type::String, ValueRef::as_str);
            let before = match option.name() {
                "coll" => coll.replace(text()?).is_some(),
                "db" => db.replace(text()?).is_some(),
                "pipeline" => pipeline.replace(stages_of(option.value())?).is_some(),
                _ => return Err(option.unknown()),
            };
            if before {
                return Err(option.duplicate());
            }
        }
        if db.is_some_and(|db| db != context.db) {
            return Err(Error::not_implemented("$unionWith across databases"));
        }
    }
    let from = coll.map(|coll| collection(context.db, coll)).transpose()?;
    let mut inside = context.inside(&WITHIN, context.scope)?;
    inside.coll = coll;
    if from.is_none() && !pipeline.is_some_and(brings_rows) {
        return Err(Error::failed_to_parse(
            "$unionWith stage without explicit collection must have a pipeline with $documents as first stage",
        ));
    }
    Ok(UnionWithOptions {
        from,
        stages: pipeline,
        inside,
    })
}

// === impl UnionWith ===

impl StageOp for UnionWith {
    fn open(self: Arc<Self>, input: Box<dyn Rows>) -> Box<dyn Rows> {
        Box::new(UnionWithRows {
            stage: self,
            rows: input,
            second: false,
        })
    }

    fn inner(&self, visit: &mut dyn FnMut(&Pipeline, PipelineInput<'_>)) {
        let on = self
            .from
            .as_ref()
            .map_or(PipelineInput::Nothing, PipelineInput::Collection);
        visit(&self.sub.full, on);
    }

    fn survey(&self, survey: &mut Survey<'_>) {
        self.sub.full.survey(survey);
    }

    fn with_match(&self, filter: &Arc<Filter>) -> Result<Option<Arc<dyn StageOp>>> {
        let full = self.sub.full.clone().then(Stage::Match(Arc::clone(filter)));
        Ok(Some(Arc::new(Self {
            from: self.from.clone(),
            sub: SubPipeline::new(full.optimise()?),
        })))
    }

    fn optimised(&self) -> Result<Option<Arc<dyn StageOp>>> {
        Ok(Some(Arc::new(Self {
            from: self.from.clone(),
            sub: self.sub.optimised()?,
        })))
    }
}

// === impl UnionWithRows ===

impl Rows for UnionWithRows {
    fn fill(&mut self, cx: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
        let flow = self.rows.fill(cx, out)?;
        if flow != Flow::End || self.second {
            return Ok(flow);
        }
        self.second = true;
        self.rows = self.stage.sub.open(cx, self.stage.from.as_ref())?;
        Ok(if cx.out_of_time() {
            Flow::Pause
        } else {
            Flow::More
        })
    }

    fn suspend(&mut self) -> usize {
        self.rows.suspend()
    }
}
