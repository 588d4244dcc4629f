//! The client's stages behind `$changeStream`.

use crate::error::{Code, Error, Result};
use crate::query::stage::Transform;
use crate::query::{Filter, Scope, Vars};
use crate::upstream::rewrite::root;
use crate::value::{ArrayBuilder, ClusterTime, Doc, Elem, Millis, ValueRef, equal};

/// The stages, parsed.
#[derive(Default)]
pub struct EventStages(Vec<EventStage>);

enum EventStage {
    Match(Filter),
    Map(Transform),
}

/// Stages that MongoDB allows in a change stream, and that map one event to one event.
const MAPS: &[&str] = &[
    "$addFields",
    "$project",
    "$replaceRoot",
    "$replaceWith",
    "$set",
    "$unset",
];

/// Stages that MongoDB allows, too. They are not built here.
const REFUSED: &[&str] = &["$changeStreamSplitLargeEvent", "$redact"];

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
    /// Parses the stages. Returns `None` if one of them is not allowed in a change stream: the cluster refuses it.
    pub fn parse(stages: &[Elem<'_>]) -> Result<Option<Self>> {
        let scope = Scope::new();
        let mut parsed = Vec::new();
        for stage in stages {
            let stage = stage.value.as_doc().filter(|stage| stage.count() == 1);
            let Some(stage) = stage.and_then(Doc::first) else {
                return Ok(None);
            };
            match (stage.name(), stage.value.as_doc()) {
                ("$match", Some(filter)) => {
                    parsed.push(EventStage::Match(Filter::parse(filter, &scope)?));
                }
                (name, _) if MAPS.contains(&name) => {
                    let mut map = Transform::default();
                    map.push(name, stage.value, &scope)?;
                    parsed.push(EventStage::Map(map));
                }
                (name, _) if REFUSED.contains(&name) => {
                    return Err(Error::not_implemented(format!(
                        "{name} in a change stream that sees a collection with a TTL, in front of a cluster,"
                    )));
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(Self(parsed)))
    }

    /// Returns what the client gets of an event. `None` if a stage leaves it out.
    pub fn apply(&self, event: Doc<'_>, now: Millis) -> Result<Option<Vec<u8>>> {
        let vars = Vars::at(now).with_cluster_time(ClusterTime::first_of(now));
        let mut current = event.bytes().to_vec();
        for stage in &self.0 {
            match stage {
                EventStage::Match(filter) => {
                    if !filter.matches(Doc::new(&current), &vars)? {
                        return Ok(None);
                    }
                }
                EventStage::Map(map) => current = map.apply(Doc::new(&current), &vars)?,
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
