//! The client's stages behind `$changeStream`.

use crate::error::{Code, Error, Result};
use crate::query::expr::check_depth;
use crate::query::stage::{Pipeline, Stage, StageContext};
use crate::query::{Scope, Vars, bind_let};
use crate::upstream::rewrite::root;
use crate::value::{ArrayBuilder, ClusterTime, Doc, Elem, Millis, ValueRef, equal};

/// The stages, parsed.
pub struct EventStages {
    stages: Pipeline,
    /// The variables of the command, and the time at which the stream was opened.
    vars: Vars,
}

/// Stages that MongoDB allows in a change stream, and that turn one event into one event or none.
const ALLOWED: &[&str] = &[
    "$addFields",
    "$match",
    "$project",
    "$redact",
    "$replaceRoot",
    "$replaceWith",
    "$set",
    "$unset",
];

/// A stage that MongoDB allows, too. The tokens of its fragments can only be made by the cluster.
const REFUSED: &str = "$changeStreamSplitLargeEvent";

/// Fields of an event in which nothing is hidden: the cluster may select events by them.
const OPEN: &[&str] = &[
    "clusterTime",
    "documentKey",
    "lsid",
    "ns",
    "operationType",
    "to",
    "txnNumber",
    "wallTime",
];

// === impl EventStages ===

impl EventStages {
    /// Parses the stages, which may use the variables of the command. Returns `None` if one of them is not allowed in a change
    /// stream: the cluster refuses it.
    pub fn parse(stages: &[Elem<'_>], lets: Doc<'_>, now: Millis) -> Result<Option<Self>> {
        let mut bytes = Vec::new();
        let mut all = ArrayBuilder::begin(&mut bytes);
        for stage in stages {
            let spec = stage.value.as_doc().filter(|stage| stage.count() == 1);
            let name = spec.and_then(Doc::first).map_or("", |stage| stage.name());
            if name == REFUSED {
                return Err(Error::not_implemented(format!(
                    "{name} in a change stream that sees a collection with a TTL, in front of a cluster,"
                )));
            }
            if !ALLOWED.contains(&name) {
                return Ok(None);
            }
            all.push(stage.value);
        }
        all.end();
        let vars = Vars::at(now).with_cluster_time(ClusterTime::first_of(now));
        let (scope, vars) = bind_let(&vars, &Scope::new(), lets)?;
        // They read events, whatever the stream watches.
        let place = StageContext::new(&scope, "", Some(""));
        let stages = Pipeline::parse(Doc::new(&bytes), &place)?;
        Ok(Some(Self { stages, vars }))
    }

    /// Returns what the client gets of an event. `None` if a stage leaves it out.
    pub fn apply(&self, event: Doc<'_>, now: Millis) -> Result<Option<Vec<u8>>> {
        let vars = self.vars.moved_to(now);
        let mut current = event.bytes().to_vec();
        for step in self.stages.steps() {
            match &step.stage {
                Stage::Match(filter) => {
                    if !filter.matches(Doc::new(&current), &vars)? {
                        return Ok(None);
                    }
                }
                Stage::StageOp(op) => {
                    let mut next = Vec::new();
                    let map = op.as_map().ok_or_else(|| unmapped(step.row.name))?;
                    if !map.apply(Doc::new(&current), &vars, &mut next)? {
                        return Ok(None);
                    }
                    check_depth(ValueRef::document(Doc::new(&next)))?;
                    current = next;
                }
                _ => return Err(unmapped(step.row.name)),
            }
        }
        let token = event.get("_id");
        let kept = Doc::new(&current).get("_id");
        if !equal(token, kept) {
            return Err(Error::new(
                Code::ChangeStreamFatalError,
                "Encountered an event whose _id field, which contains the resume token, was modified by the pipeline. \
                 Modifying the _id field of an event makes it impossible to resume the stream from that point. Only \
                 transformations that retain the unmodified _id field are allowed.",
            ));
        }
        Ok(Some(current))
    }
}

/// No stage that is allowed does more than map an event.
fn unmapped(stage: &str) -> Error {
    Error::new(
        Code::InternalError,
        format!("{stage} cannot run in a change stream"),
    )
}

/// Writes those of the first stages by which the cluster may select events before it sends them.
pub fn push_selection(stages: &[Elem<'_>], out: &mut ArrayBuilder<'_>) {
    let filters = stages.iter().map_while(|stage| {
        let filter = stage.value.as_doc()?.get("$match");
        filter.as_doc().map(|_| filter)
    });
    for filter in filters.filter(|filter| is_open(*filter)) {
        out.doc().put("$match", filter);
    }
}

/// Returns whether a filter reads nothing in which something may be hidden.
fn is_open(filter: ValueRef<'_>) -> bool {
    let fields = filter.as_doc().into_iter().flatten();
    fields.into_iter().all(|elem| match elem.name() {
        "$and" | "$or" | "$nor" => {
            let parts = elem.value.as_array().into_iter().flatten();
            parts.into_iter().all(|part| is_open(part.value))
        }
        name => OPEN.contains(&root(name)),
    })
}
