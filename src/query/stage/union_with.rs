//! `$unionWith`: behind the rows, those of another collection.

use std::sync::Arc;

use super::levels::brings_rows;
use super::lookup::Sub;
use super::lookup_spec::{collection, duplicate_field};
use super::place::{Within, stage_is_no_document, stages_of};
use super::{Batch, Cx, Flow, On, Op, Pipeline, Place, Rows, Stage, Target};
use crate::error::{Error, Result};
use crate::query::Naming;
use crate::value::{Type, ValueRef};

struct UnionWith {
    from: Option<Target>,
    sub: Sub,
}

struct Running {
    stage: Arc<UnionWith>,
    /// The input, and once it has ended the other collection.
    rows: Box<dyn Rows>,
    second: bool,
}

const WITHIN: Within = Within {
    same_rows: false,
    refusal: (31441, "within a $unionWith's sub-pipeline"),
    not_a_document: stage_is_no_document,
};

pub(super) fn parse(
    value: ValueRef<'_>,
    place: &Place<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let (mut coll, mut pipeline) = (None, None);
    match value.ty() {
        Type::String => coll = value.as_str(),
        Type::Document => {
            let mut db = None;
            for elem in value.as_doc().into_iter().flatten() {
                let twice = match elem.name() {
                    name @ ("coll" | "db") => {
                        let text = elem.value.as_str().ok_or_else(|| {
                            Error::wrong_type("$unionWith", name, elem.value.ty(), &[Type::String])
                        })?;
                        let slot = if name == "coll" { &mut coll } else { &mut db };
                        slot.replace(text).is_some()
                    }
                    "pipeline" => pipeline.replace(stages_of(elem.value)?).is_some(),
                    other => return Err(Error::unknown_field("$unionWith", other)),
                };
                if twice {
                    return Err(duplicate_field("$unionWith", elem.name()));
                }
            }
            if db.is_some_and(|db| db != place.db) {
                return Err(Error::not_implemented("$unionWith across databases"));
            }
        }
        other => {
            return Err(Error::failed_to_parse(format!(
                "the $unionWith stage specification must be an object or string, but found {}",
                other.alias()
            )));
        }
    }
    let from = coll.map(|coll| collection(place.db, coll)).transpose()?;
    let mut inside = place.inside(&WITHIN, place.scope)?;
    inside.coll = coll;
    if from.is_none() && !pipeline.is_some_and(brings_rows) {
        return Err(if pipeline.is_some() {
            Error::failed_to_parse(
                "$unionWith stage without explicit collection must have a pipeline with $documents as first stage",
            )
        } else {
            Error::missing_field("$unionWith", "coll")
        });
    }
    let whole = match pipeline {
        Some(stages) => Pipeline::parse(stages, &inside)?,
        None => Pipeline::default(),
    };
    push(Stage::Op(Arc::new(UnionWith {
        from,
        sub: Sub::new(whole),
    })));
    Ok(())
}

// === impl UnionWith ===

impl Op for UnionWith {
    fn open(self: Arc<Self>, input: Box<dyn Rows>) -> Box<dyn Rows> {
        Box::new(Running {
            stage: self,
            rows: input,
            second: false,
        })
    }

    fn inner(&self, visit: &mut dyn FnMut(&Pipeline, On<'_>)) {
        let on = self.from.as_ref().map_or(On::Nothing, On::Collection);
        visit(&self.sub.whole, on);
    }

    fn names(&self, naming: &mut Naming<'_>) {
        self.sub.whole.names(naming);
    }
}

// === impl Running ===

impl Rows for Running {
    fn fill(&mut self, cx: &mut Cx<'_>, out: &mut Batch) -> Result<Flow> {
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

    fn at_rest(&mut self) -> usize {
        self.rows.at_rest()
    }
}
