//! `aggregate`: runs a pipeline.

use std::sync::Arc;

use super::collation;
use super::cursor::{self, CursorOptions};
use super::frame::transaction::check_stage;
use super::rows::RowSource;
use super::watch::WatchSource;
use super::write::hint;
use super::{
    Access, Call, Command, Counter, Counters, Flags, Needs, Outcome, collection_uuid, explain,
    guard, server_lists,
};
use crate::args::{Arg, required};
use crate::auth::AuthTarget;
use crate::config::Topology;
use crate::cosmos;
use crate::engine::plan::Hint;
use crate::engine::{EngineSources, Watch, check_on};
use crate::error::{Code, Error, Result};
use crate::query::stage::{
    self, Empty, Need, Output, Pipeline, PipelineInput, PipelineLimits, RowsFrom, STAGES, Stable,
    StageContext,
};
use crate::query::{Scope, Survey, Vars, bind_let};
use crate::session::Source;
use crate::ttl::TS_FIELD;
use crate::value::{Doc, DocBuilder, Type, is_true};

pub(super) const COMMAND: Command = Command::ready(
    "aggregate",
    Access::Read,
    "Runs an aggregation pipeline over a collection or a database.",
    run,
)
.with(
    Flags::SNAPSHOT
        .and(Flags::TRANSACTION)
        .and(Flags::WRITE_CONCERN)
        .and(Flags::STABLE)
        .and(Flags::SECONDARY)
        .and(Flags::UNCOUNTED),
)
.needs(Needs::Asked(may));

/// The arguments of an aggregate.
pub(super) struct Aggregate<'a> {
    /// `None` for `{aggregate: 1}`.
    pub collection: Option<&'a str>,
    pub pipeline: Doc<'a>,
    pub let_vars: Option<Doc<'a>>,
    pub hint: Option<Hint>,
    pub allow_disk_use: Option<bool>,
    pub explain: bool,
    batch_size: Option<u32>,
}

/// A pipeline that was parsed and checked: it can be opened, or explained.
pub(super) struct PreparedAggregate {
    pub pipeline: Pipeline,
    pub sources: Arc<EngineSources>,
    pub vars: Vars,
    pub limits: PipelineLimits,
    pub namespace: String,
    pub show_ts: bool,
    is_slow: bool,
}

/// Checks the rights for the target collection and the first stage. The rights for other stages, nested ones included, are
/// checked once the pipeline is parsed ([`guard::check_pipeline`]).
fn may(call: &Call<'_>) -> Result<bool> {
    let stages = call.arg("pipeline").and_then(|arg| arg.value().as_array());
    let first = stages.and_then(|stages| stage::names(stages).next());
    let first = first.and_then(|first| Some((STAGES.find(first.name_bytes())?, first.value)));
    let on = match call.target().as_str() {
        Some(name) => AuthTarget::Collection(call.database(), name),
        None => AuthTarget::Database(call.database()),
    };
    Ok(guard::may_begin(call, first, on))
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    call.context
        .counters
        .add(Counters::shard(call.client.id), Counter::Query, 1);
    let aggregate = Aggregate::read(call)?;
    if aggregate.explain {
        return explain::of_aggregate(call, reply);
    }
    let (source, opening) = aggregate.open(call)?;
    cursor::open(call, reply, source, opening)
}

/// Uses the collections that stages read, besides the one that the command names.
fn use_collections(call: &mut Call<'_>, pipeline: &Pipeline) -> Result<()> {
    let mut names = Vec::new();
    pipeline.each_level(PipelineInput::SameRows, &mut |_, on| {
        if let PipelineInput::Collection(name) = on {
            names.push((name.db.clone(), name.coll.clone()));
        }
    });
    names
        .iter()
        .try_for_each(|(database, name)| call.use_collection(database, name))
}

// === impl Aggregate ===

impl<'a> Aggregate<'a> {
    /// Reads the fields of an aggregate, which may be the command itself or nested in an explain.
    pub fn read(call: &Call<'a>) -> Result<Self> {
        let collection = target(call)?;
        let (mut pipeline, mut has_cursor) = (None, false);
        let mut aggregate = Self {
            collection,
            pipeline: Doc::EMPTY,
            let_vars: None,
            hint: None,
            allow_disk_use: None,
            explain: false,
            batch_size: None,
        };
        for arg in call.args().skip(1) {
            match arg.name() {
                "pipeline" => {
                    pipeline = Some(arg.value().as_array().ok_or_else(|| {
                        Error::type_mismatch("'pipeline' option must be specified as an array")
                    })?);
                }
                "cursor" => {
                    has_cursor = true;
                    let spec = arg.value().as_doc().ok_or_else(|| {
                        Error::type_mismatch("cursor field must be missing or an object")
                    })?;
                    aggregate.batch_size = cursor::batch_size("cursor", spec)?;
                }
                "let" => aggregate.let_vars = arg.doc()?,
                "hint" => aggregate.hint = hint(&arg)?,
                "allowDiskUse" => aggregate.allow_disk_use = Some(arg.bool_not_null()?),
                "explain" if call.is_api_strict() => {
                    return Err(Error::new(
                        Code::APIStrictError,
                        "BSON field 'aggregate.explain' is not allowed with apiStrict:true.",
                    ));
                }
                "explain" => aggregate.explain = flag(&arg)?,
                "collation" => collation::read(&arg)?,
                "bypassDocumentValidation"
                | "bypassEmptyTsReplacement"
                | "isMapReduceCommand"
                | "rawData" => {
                    arg.bool()?;
                }
                "fromMongos"
                | "fromRouter"
                | "needsMerge"
                | "needsSortedMerge"
                | "exchange"
                | "encryptionInformation"
                | "isClusterQueryWithoutShardKeyCmd"
                | "requestReshardingResumeToken"
                | "resumeAfter" => {
                    if !arg.is_null() && is_true(arg.value()) {
                        return Err(arg.not_implemented());
                    }
                }
                "collectionUUID" if collection.is_some() => collection_uuid::check(call, arg)?,
                "querySettings" => {
                    arg.doc()?;
                }
                _ => return Err(arg.unknown()),
            }
        }
        aggregate.pipeline = required(pipeline, "aggregate", "pipeline")?;
        if !has_cursor && !aggregate.explain {
            return Err(Error::failed_to_parse(
                "The 'cursor' option is required, except for aggregate with the explain argument",
            ));
        }
        if call.is_api_strict() {
            check_stable(aggregate.pipeline)?;
        }
        Ok(aggregate)
    }

    /// Parses the pipeline, checks it and collects everything it needs to run.
    pub fn prepare(&self, call: &Call<'_>) -> Result<PreparedAggregate> {
        let vars = call.vars();
        let (scope, vars) = match self.let_vars {
            None => (call.scope(), vars),
            Some(spec) => {
                let bound = bind_let(&vars, &call.scope(), spec);
                bound.map_err(|error| self.first_mistake(call, error))?
            }
        };
        let scope = scope.noting();
        let context = StageContext::new(&scope, call.database(), self.collection);
        let pipeline = Pipeline::parse(self.pipeline, &context)
            .map_err(|error| self.first_mistake(call, error))?;
        for step in pipeline.steps() {
            check_stage(call, step.row.name)?;
        }
        let target = self
            .collection
            .map(|name| stage::CollectionName::new(call.database(), name));
        let on = target
            .as_ref()
            .map_or(PipelineInput::Nothing, PipelineInput::Collection);
        guard::check_pipeline(call, &pipeline, on)?;
        if self.collection.is_none() && pipeline.is_empty() {
            return Err(Error::new(
                Code::InvalidNamespace,
                "{aggregate: 1} is not valid for an empty pipeline.",
            ));
        }
        let about_server = pipeline
            .steps()
            .first()
            .filter(|step| step.row.facts.rows_from == RowsFrom::Server);
        if let Some(step) = about_server {
            only_local(call.body(), step.row.name)?;
        }
        if pipeline.change_stream().is_some() {
            check_change_stream(call)?;
        }
        let mut asks_server = false;
        pipeline.each_level(PipelineInput::SameRows, &mut |level, _| {
            let first = level.steps().first().map(|step| &step.row.facts);
            asks_server |= first.is_some_and(|facts| {
                facts.rows_from == RowsFrom::Server
                    || matches!(facts.needs, Need::ListSessions | Need::CollStats)
            });
        });
        let server = asks_server.then(|| server_lists::lists(call));
        if pipeline.output().is_some() && read_level(call.body()) == Some("linearizable") {
            return Err(Error::new(
                Code::InvalidOptions,
                "$out and $merge cannot be used with a 'linearizable' read concern level",
            ));
        }
        let context = call.context;
        if let Some(Output::Merge(merge)) = pipeline.output().map(Arc::as_ref) {
            check_on(&context.catalog, merge, call.read_point())?;
        }
        scope.check_pipeline()?;
        let surveyed = Survey::of(TS_FIELD, |survey| pipeline.survey(survey));
        let pipeline = pipeline.optimise()?;
        let show_ts = surveyed.names_field || context.config.expose_ts;
        let catalog = Arc::clone(&context.catalog);
        let sources = EngineSources::new(catalog, call.read_point(), show_ts);
        let sources = sources.for_pipeline(
            Arc::clone(&context.ids),
            context.machine(),
            context.config.writes_outside_lock,
            server,
            cosmos::weigh,
        );
        let limits = PipelineLimits::new(self.allow_disk_use.unwrap_or(true), context.query_memory);
        Ok(PreparedAggregate {
            pipeline,
            sources: Arc::new(sources),
            vars,
            limits,
            namespace: call.namespace(self.collection.unwrap_or("$cmd.aggregate")),
            show_ts,
            is_slow: surveyed.is_slow,
        })
    }

    /// Returns the error of an early check, which MongoDB makes first, or else this one.
    fn first_mistake(&self, call: &Call<'_>, later: Error) -> Error {
        let scope = Scope::new().noting();
        let context = StageContext::new(&scope, call.database(), self.collection);
        let early = stage::check_early(self.pipeline, &context);
        early.err().unwrap_or(later)
    }

    /// Prepares the pipeline and opens it on its source.
    fn open(&self, call: &mut Call<'_>) -> Result<(Box<dyn Source>, CursorOptions)> {
        let PreparedAggregate {
            pipeline,
            sources,
            vars,
            limits,
            namespace,
            is_slow,
            ..
        } = self.prepare(call)?;
        if call.is_in_transaction() {
            use_collections(call, &pipeline)?;
        }
        let opening = CursorOptions {
            is_slow,
            writes: pipeline.output().is_some(),
            awaits: pipeline.change_stream().is_some(),
            ..CursorOptions::plain(namespace, self.batch_size)
        };
        if let Some(stream) = pipeline.change_stream() {
            let watch = Watch::open(&call.context.catalog, stream.clone(), call.read_point());
            let source = WatchSource::new(watch, &pipeline, sources, vars, limits);
            return Ok((Box::new(source), opening));
        }
        // Without stages of its own this is a find, and ends like one.
        let (rows, ends_late) = match self.collection {
            Some(name) if !pipeline.is_own_source() => {
                let (spec, rest) = pipeline.split_source();
                let hint = self.hint.clone();
                let found = sources.read_spec(call.database(), name, &spec, hint)?;
                (rest.open(found), !rest.only_includes())
            }
            _ => (pipeline.open(Box::new(Empty)), true),
        };
        let source = RowSource::new(rows, sources, vars, limits).ends_late(ends_late);
        Ok((Box::new(source), opening))
    }
}

fn read_level(command: Doc<'_>) -> Option<&str> {
    command.get("readConcern").as_doc()?.get("level").as_str()
}

/// Refuses every read concern but `local`, for a stage that reports on the server itself.
fn only_local(command: Doc<'_>, stage: &str) -> Result<()> {
    match read_level(command) {
        None | Some("local") => Ok(()),
        Some(level) => Err(Error::new(
            Code::InvalidOptions,
            format!(
                "Command aggregate does not support {{ readConcern: {{ level: \"{level}\", provenance: \"clientSupplied\" }} }} \
                 :: caused by :: Aggregation stage {stage} cannot run with a readConcern other than 'local', or in a \
                 multi-document transaction. Current readConcern: {level}"
            ),
        )),
    }
}

/// Checks that this server has change streams, as MongoDB does not without a replica set, and that the read concern fits.
fn check_change_stream(call: &Call<'_>) -> Result<()> {
    if call.context.config.topology == Topology::Standalone {
        return Err(Error::location(
            40573,
            "The $changeStream stage is only supported on replica sets",
        ));
    }
    match read_level(call.body()) {
        None | Some("majority") => Ok(()),
        Some(level) => Err(Error::new(
            Code::InvalidOptions,
            format!(
                "Command aggregate does not support {{ readConcern: {{ level: \"{level}\", provenance: \"clientSupplied\" }} }} \
                 :: caused by :: Aggregation stage $changeStream cannot run with a readConcern other than 'majority'. \
                 Current readConcern: {level}"
            ),
        )),
    }
}

/// Returns the name of the collection, or `None` for `{aggregate: 1}`.
fn target<'a>(call: &Call<'a>) -> Result<Option<&'a str>> {
    let value = call.target();
    match value.as_num() {
        None => call.collection().map(Some),
        Some(number) if number.to_f64() == 1.0 => Ok(None),
        Some(_) => Err(Error::bad_value(
            "Invalid command format: the 'aggregate' field must specify a collection name or 1",
        )),
    }
}

/// Reads a boolean. Anything else is an error, even null.
fn flag(arg: &Arg<'_>) -> Result<bool> {
    arg.value()
        .as_bool()
        .ok_or_else(|| arg.wrong_type(&[Type::Bool]))
}

/// Refuses stages outside the stable API, at every nesting level. For commands with `apiStrict`.
fn check_stable(pipeline: Doc<'_>) -> Result<()> {
    let refuse = |words: String| Err(Error::new(Code::APIStrictError, words));
    stage::each_stage(pipeline, &mut |row, spec| match row.facts.stable {
        Stable::Always => Ok(()),
        Stable::If(is_stable, _) if is_stable(spec) => Ok(()),
        Stable::If(_, words) => refuse(words.to_owned()),
        Stable::Never => refuse(format!(
            "{} is not allowed with 'apiStrict: true' in API Version 1",
            row.name
        )),
    })
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, bson, doc};

    use crate::command::tests::server::{ask, server};
    use crate::config::Config;

    /// A stage outside the stable API is refused at every nesting level, before the pipeline is parsed.
    #[test]
    fn the_stable_api_is_enforced_in_inner_pipelines() {
        let mut server = server(Config::default());
        ask(
            &mut server,
            doc! {"insert": "e", "documents": [{}], "$db": "d"},
        );
        let stats = bson!([{"$indexStats": {}}]);
        let within = |stages: Bson| bson!([{"$unionWith": {"coll": "e", "pipeline": stages}}]);
        let refused = "$indexStats is not allowed with 'apiStrict: true' in API Version 1";
        let count = "only the 'count' option to $collStats is supported in API Version 1";
        for (pipeline, expected) in [
            (stats.clone(), Some(refused)),
            (within(stats.clone()), Some(refused)),
            (
                bson!([{"$lookup": {"from": "e", "as": "x", "pipeline": within(stats.clone())}}]),
                Some(refused),
            ),
            (
                bson!([{"$match": {"$bad": 1}}, {"$facet": {"f": within(stats.clone())}}]),
                Some(refused),
            ),
            (
                within(bson!([{"$collStats": {"storageStats": {}}}])),
                Some(count),
            ),
            (within(bson!([{"$collStats": {"count": {}}}])), None),
            (
                within(bson!([{"$listSessions": {}}])),
                Some("$listSessions is not allowed with 'apiStrict: true' in API Version 1"),
            ),
            (within(bson!([{"$match": {}}])), None),
            // Like mongod, the server checks for unknown names first.
            (
                bson!([{"$nope": 1}, {"$indexStats": {}}]),
                Some("Unrecognized pipeline stage name: '$nope'"),
            ),
        ] {
            let reply = ask(
                &mut server,
                doc! {
                    "aggregate": "c", "pipeline": pipeline.clone(), "cursor": {}, "$db": "d",
                    "apiVersion": "1", "apiStrict": true,
                },
            );
            assert_eq!(reply.get_str("errmsg").ok(), expected, "{pipeline}");
            assert!(
                expected.is_none() || matches!(reply.get_i32("code"), Ok(323 | 40324)),
                "{reply}"
            );
        }
    }

    /// `$lookup` finds the same documents with and without an index on the foreign field.
    #[test]
    fn a_join_by_equality_does_not_depend_on_indexes() {
        let mut server = server(Config::default());
        let values = [
            bson!(1),
            bson!(1.0),
            bson!("x"),
            Bson::Null,
            bson!({"b": 2}),
            bson!(2),
        ];
        let arrays = [bson!([1, 2]), bson!(["x"]), bson!([[1]]), bson!([])];
        let foreign = |with_arrays: bool| -> Vec<Document> {
            let all = values.iter().chain(arrays.iter().filter(|_| with_arrays));
            let mut made: Vec<Document> = all
                .enumerate()
                .map(|(n, value)| doc! {"_id": n as i32, "f": value, "g": n as i32 % 2})
                .collect();
            made.push(doc! {"_id": 90, "g": 1});
            made
        };
        let rows: Vec<Document> = values
            .iter()
            .chain(&arrays)
            .enumerate()
            .map(|(n, value)| doc! {"_id": n as i32, "l": value})
            .chain([doc! {"_id": 90}, doc! {"_id": 91, "l": [1, "x", 1, 2]}])
            .collect();
        ask(
            &mut server,
            doc! {"insert": "rows", "documents": rows, "$db": "d"},
        );
        let indexes = [
            doc! {"key": {"f": 1}},
            doc! {"key": {"f": -1}},
            doc! {"key": {"f": 1, "g": -1}},
            doc! {"key": {"f": 1}, "sparse": true},
            doc! {"key": {"f": 1}, "hidden": true},
            doc! {"key": {"f": 1}, "partialFilterExpression": {"g": 1}},
        ];
        for with_arrays in [false, true] {
            let mut join = |index: Option<&Document>| {
                ask(&mut server, doc! {"drop": "foreign", "$db": "d"});
                let documents = foreign(with_arrays);
                ask(
                    &mut server,
                    doc! {"insert": "foreign", "documents": documents, "$db": "d"},
                );
                if let Some(index) = index {
                    let mut index = index.clone();
                    index.insert("name", "i");
                    let made = ask(
                        &mut server,
                        doc! {"createIndexes": "foreign", "indexes": [index], "$db": "d"},
                    );
                    assert!(made.get_f64("ok").is_ok_and(|ok| ok == 1.0), "{made}");
                }
                let lookup =
                    doc! {"from": "foreign", "localField": "l", "foreignField": "f", "as": "j"};
                // A `$lookup` with a pipeline takes another path through the code than one without.
                let mut piped = lookup.clone();
                piped.insert("pipeline", [doc! {"$match": {}}]);
                piped.insert("as", "p");
                let sorted = |field: &str| doc! {"$sortArray": {"input": format!("${field}._id"), "sortBy": 1}};
                let reply = ask(
                    &mut server,
                    doc! {
                        "aggregate": "rows",
                        "pipeline": [
                            {"$lookup": lookup}, {"$lookup": piped},
                            {"$project": {"j": sorted("j"), "p": sorted("p")}},
                        ],
                        "cursor": {},
                        "$db": "d",
                    },
                );
                let cursor = reply.get_document("cursor").expect("a cursor");
                cursor.get_array("firstBatch").expect("rows").clone()
            };
            let without = join(None);
            for index in &indexes {
                assert_eq!(join(Some(index)), without, "{index} {with_arrays}");
            }
            for row in without {
                let row = row.as_document().expect("a row");
                assert_eq!(row.get("j"), row.get("p"), "{row}");
            }
        }
    }
}
