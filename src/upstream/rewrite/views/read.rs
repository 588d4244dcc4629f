//! `find`, `count` and `distinct` as aggregates. The stages are those that follow the ones of the view.

use crate::error::{Code, Error, Result};
use crate::upstream::rewrite::fields::doc_or_empty;
use crate::value::{ArrayBuilder, Doc, DocBuf, DocBuilder, ValueRef, is_true};

/// Options of a find that an aggregate does not have.
const NOT_IN_AGGREGATE: &[&str] = &[
    "allowPartialResults",
    "max",
    "min",
    "noCursorTimeout",
    "readOnce",
    "returnKey",
    "showRecordId",
    "tailable",
];

/// Fields of the three commands that become stages, or that an aggregate has elsewhere.
const TURNED: &[&str] = &[
    "batchSize",
    "count",
    "distinct",
    "fields",
    "filter",
    "find",
    "key",
    "limit",
    "projection",
    "query",
    "singleBatch",
    "skip",
    "sort",
];

pub fn find(command: Doc<'_>) -> Result<DocBuf> {
    let limit = number(command, "limit");
    let is_set = |name: &&&str| match command.get(**name) {
        option if option.as_doc().is_some_and(Doc::is_empty) => false,
        option => is_true(option),
    };
    let refused = NOT_IN_AGGREGATE.iter().find(is_set);
    // A driver asks for one document in one batch. Then the cursor is exhausted anyway.
    let batch = (limit != 1 && is_true(command.get("singleBatch"))).then_some(&"singleBatch");
    if let Some(name) = refused.or(batch) {
        let why = match *name {
            "tailable" => "Tailable cursors are not supported in aggregation.".to_owned(),
            name => format!("Option {name} not supported in aggregation."),
        };
        return Err(Error::new(Code::InvalidPipelineOperator, why));
    }
    let sort = doc_or_empty(command, "sort");
    let natural = sort.get("$natural");
    let projection = doc_or_empty(command, "projection");
    Ok(aggregate(command, |stages, options| {
        put_stage("$match", doc_or_empty(command, "filter"), stages);
        if natural.is_missing() {
            put_stage("$sort", sort, stages);
        } else {
            options.doc("hint").put("$natural", natural);
        }
        put_window(command, stages);
        put_stage("$project", projection, stages);
    }))
}

pub fn count(command: Doc<'_>) -> DocBuf {
    aggregate(command, |stages, _| {
        put_stage("$match", doc_or_empty(command, "query"), stages);
        put_window(command, stages);
        stages.doc().put_str("$count", "n");
    })
}

/// The values at the path, as a find would see them: each element of an array counts, but not those of an array inside it.
pub fn distinct(command: Doc<'_>) -> Result<DocBuf> {
    let key = command.get("key").as_str().unwrap_or_default();
    let is_index = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if key.split('.').any(is_index) {
        return Err(Error::not_implemented(
            "distinct by the position in an array, on a view that reads a collection with a TTL, in front of a cluster,",
        ));
    }
    Ok(aggregate(command, |stages, _| {
        put_stage("$match", doc_or_empty(command, "query"), stages);
        let ends = key.match_indices('.').map(|(at, _)| at);
        for prefix in ends.filter_map(|end| key.get(..end)) {
            put_unwind(prefix, stages);
            // What is no object has no fields. Behind an array, a path would look into it once more.
            let mut stage = stages.doc();
            let mut filter = stage.doc("$match");
            let mut test = filter.doc("$expr");
            let mut sides = test.array("$eq");
            sides.doc().put_str("$type", &format!("${prefix}"));
            sides.push_str("object");
            sides.end();
            test.end();
            filter.end();
            stage.end();
        }
        put_unwind(key, stages);
        let mut stage = stages.doc();
        let mut group = stage.doc("$group");
        group.put_null("_id");
        group.doc("values").put_str("$addToSet", &format!("${key}"));
        group.end();
        stage.end();
    }))
}

/// Writes the aggregate: the stages, and all fields of the command that are not turned into stages.
fn aggregate(
    command: Doc<'_>,
    write: impl FnOnce(&mut ArrayBuilder<'_>, &mut DocBuilder<'_>),
) -> DocBuf {
    DocBuf::build_sized(command.bytes().len() + 128, |out| {
        let name = command
            .first()
            .map_or(ValueRef::MISSING, |first| first.value);
        out.put("aggregate", name);
        let mut bytes = Vec::new();
        let mut stages = ArrayBuilder::begin(&mut bytes);
        let options = DocBuf::build(|options| write(&mut stages, options));
        stages.end();
        out.put("pipeline", ValueRef::array(Doc::new(&bytes)));
        let mut cursor = out.doc("cursor");
        if command.first().is_some_and(|first| first.name() == "find") {
            cursor.put("batchSize", command.get("batchSize"));
        }
        cursor.end();
        out.put_body(options.as_doc().body());
        for elem in command {
            let name = elem.name();
            let dropped = TURNED.contains(&name)
                || NOT_IN_AGGREGATE.contains(&name)
                || options.as_doc().has(name);
            if !dropped {
                out.put(name, elem.value);
            }
        }
    })
}

fn put_stage(name: &str, spec: Doc<'_>, stages: &mut ArrayBuilder<'_>) {
    if !spec.is_empty() {
        stages.doc().put_doc(name, spec);
    }
}

/// Writes `$skip` and `$limit`. A count takes a negative limit for a positive one.
fn put_window(command: Doc<'_>, stages: &mut ArrayBuilder<'_>) {
    let (skip, limit) = (number(command, "skip"), number(command, "limit"));
    if skip > 0 {
        stages.doc().put_i64("$skip", skip);
    }
    if limit != 0 {
        stages.doc().put_i64("$limit", limit.saturating_abs());
    }
}

fn put_unwind(path: &str, stages: &mut ArrayBuilder<'_>) {
    let mut stage = stages.doc();
    let mut unwind = stage.doc("$unwind");
    unwind.put_str("path", &format!("${path}"));
    unwind.put_bool("preserveNullAndEmptyArrays", true);
    unwind.end();
    stage.end();
}

fn number(command: Doc<'_>, name: &str) -> i64 {
    let number = command.get(name).as_num();
    number.map_or(0, |number| number.to_i64_saturating())
}
