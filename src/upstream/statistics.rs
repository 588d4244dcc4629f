//! Sizes and counts: the cluster's, without the documents that have ended and without what Sundown adds.
//!
//! Documents are counted anew, which is exact. The space that files and indexes take on disk is the cluster's business:
//! there an ended document counts until it is deleted.

use bson::{Bson, Document, doc};
use bytes::Bytes;

use super::CollectionRules;
use super::ask::{Ask, Lost};
use super::command_rules::CommandRules;
use super::rewrite::{Rulebook, with_body, with_fields};
use super::settings::{Measured, MeasuredPart, RuleSettings, is_physical_name};
use crate::command::find;
use crate::error::{Error, Result};
use crate::value::{ArrayBuilder, Doc, DocBuf, Value, ValueRef, is_true};
use crate::wire::Request;

/// Runs the command.
pub async fn run(
    settings: &RuleSettings,
    ask: &mut impl Ask,
    request: Request,
) -> Result<Bytes, Lost> {
    let first = request.body().first();
    let command = first.and_then(|first| find(first.name_bytes()));
    match command.map_or("", |command| command.name) {
        "collStats" => coll_stats(settings, ask, request).await,
        "dataSize" => data_size(settings, ask, request).await,
        "dbStats" => db_stats(settings, ask, request).await,
        "validate" => validate(settings, ask, request).await,
        other => Err(Error::not_implemented(format!("{other} with --upstream")).into()),
    }
}

async fn coll_stats(
    settings: &RuleSettings,
    ask: &mut impl Ask,
    request: Request,
) -> Result<Bytes, Lost> {
    let (database, collection, scale) = (database(&request), target(&request), scale(&request));
    let rules = settings.rules(&database, &collection).await?;
    let now = settings.now();
    let reply = ask.ask(request).await?;
    let Some(mut stats) = good(&reply).filter(|_| !rules.is_none()) else {
        return Ok(reply);
    };
    let measured = settings
        .measure(&database, &collection, &rules, now)
        .await?;
    correct(&mut stats, measured, scale);
    Ok(bytes(&stats))
}

async fn data_size(
    settings: &RuleSettings,
    ask: &mut impl Ask,
    request: Request,
) -> Result<Bytes, Lost> {
    let named = target(&request);
    let split = named
        .split_once('.')
        .filter(|(database, _)| !database.is_empty());
    let Some((database, collection)) = split else {
        // The cluster says what is wrong with it.
        return ask.ask(request).await;
    };
    super::rewrite::check_database(database)?;
    let rules = settings.rules(database, collection).await?;
    if rules.is_none() {
        return ask.ask(request).await;
    }
    let now = settings.now();
    let reply = ask.ask(request.clone()).await?;
    let Some(mut sizes) = good(&reply) else {
        return Ok(reply);
    };
    let (measured, is_over) = match MeasuredPart::of(request.body()) {
        None => {
            let all = settings.measure(database, collection, &rules, now).await?;
            (all, false)
        }
        Some(part) => {
            let part = settings.measure_part(database, collection, &rules, now, &part);
            part.await?
        }
    };
    set(&mut sizes, "size", measured.bytes);
    set(&mut sizes, "numObjects", measured.count);
    if !is_over {
        sizes.remove("maxReached");
    }
    Ok(bytes(&sizes))
}

async fn db_stats(
    settings: &RuleSettings,
    ask: &mut impl Ask,
    request: Request,
) -> Result<Bytes, Lost> {
    let (database, scale) = (database(&request), scale(&request));
    let reply = ask.ask(request).await?;
    let Some(mut stats) = good(&reply) else {
        return Ok(reply);
    };
    let ruled = settings.ruled(&database).await?;
    if ruled.is_empty() {
        return Ok(reply);
    }
    let now = settings.now();
    let (mut objects, mut data, mut indexes, mut index_bytes) = (0, 0, 0, 0);
    for (name, rules) in ruled {
        let known = settings.cluster_figures(&database, &name).await?;
        let measured = settings.measure(&database, &name, &rules, now).await?;
        objects += figure(&known, "count") - measured.count;
        data += figure(&known, "size") - measured.bytes;
        for (name, size) in known.get_document("indexSizes").into_iter().flatten() {
            if is_physical_name(name) {
                indexes += 1;
                index_bytes += whole(size);
            }
        }
    }
    let count = figure(&stats, "objects") - objects;
    let scaled = |bytes: i64| bytes as f64 / scale;
    set(&mut stats, "objects", count);
    lower(&mut stats, "dataSize", scaled(data));
    lower(&mut stats, "indexes", indexes as f64);
    lower(&mut stats, "indexSize", scaled(index_bytes));
    lower(&mut stats, "totalSize", scaled(index_bytes));
    let size = stats.get("dataSize").map_or(0.0, float);
    let average = if count == 0 {
        0.0
    } else {
        size * scale / count as f64
    };
    if stats.contains_key("avgObjSize") {
        stats.insert("avgObjSize", average);
    }
    // The figures of single shards.
    stats.remove("raw");
    Ok(bytes(&stats))
}

/// What has ended is deleted first, so that documents and index entries are counted alike.
async fn validate(
    settings: &RuleSettings,
    ask: &mut impl Ask,
    request: Request,
) -> Result<Bytes, Lost> {
    let (database, collection) = (database(&request), target(&request));
    let rules = settings.rules(&database, &collection).await?;
    if rules.is_none() {
        return ask.ask(request).await;
    }
    if !is_true(request.body().get("metadata")) {
        let now = settings.now();
        settings
            .free_ended(&database, &collection, &rules, now)
            .await?;
    }
    let reply = ask.ask(request).await?;
    let Some(mut found) = good(&reply) else {
        return Ok(reply);
    };
    let mut gone = 0;
    for part in ["keysPerIndex", "indexDetails"] {
        if let Ok(indexes) = found.get_document_mut(part) {
            gone = gone.max(remove_physical(indexes).0);
        }
    }
    lower(&mut found, "nIndexes", gone as f64);
    Ok(bytes(&found))
}

/// What becomes of an aggregate.
pub enum WithFigures {
    Reply(Bytes),
    /// It is still to be run, in this form.
    Request(Request),
}

/// Puts the exact figures in the place of a leading `$collStats`, if its collection has rules. All other aggregates stay as they are.
pub async fn with_figures(
    settings: &RuleSettings,
    ask: &mut impl Ask,
    request: Request,
    book: &CommandRules,
) -> Result<WithFigures, Lost> {
    let Some(stage) = leading_stage(&request) else {
        return Ok(WithFigures::Request(request));
    };
    let rules = book.rules(&database(&request), &target(&request));
    // An explain shows what the cluster runs.
    if rules.is_none() || is_true(request.body().get("explain")) {
        return Ok(WithFigures::Request(request));
    }
    let figures = figures(settings, ask, &request, stage, &rules);
    Ok(match Box::pin(figures).await? {
        Err(reply) => WithFigures::Reply(reply),
        Ok(reply) if goes_on(&request) => WithFigures::Request(on_row(&request, &reply)),
        Ok(reply) => WithFigures::Reply(bytes(&reply)),
    })
}

/// Returns the `$collStats` with which an aggregate begins.
fn leading_stage(request: &Request) -> Option<Doc<'_>> {
    let body = request.body();
    body.first().filter(|first| first.name() == "aggregate")?;
    let stages = body.get("pipeline").as_array()?;
    let stage = stages.iter().next()?.value.as_doc()?;
    stage.get("$collStats").as_doc().map(|_| stage)
}

/// Returns whether the row of the statistics is not yet the first batch that the client wants.
fn goes_on(request: &Request) -> bool {
    let body = request.body();
    let stages = body.get("pipeline").as_array().unwrap_or(Doc::EMPTY);
    let batch = body.get("cursor").as_doc().unwrap_or(Doc::EMPTY);
    stages.iter().nth(1).is_some() || batch.get("batchSize").as_f64() == Some(0.0)
}

/// Returns the cluster's reply to the stage alone, with the exact figures. If it is an error, it is returned as it is.
async fn figures(
    settings: &RuleSettings,
    ask: &mut impl Ask,
    request: &Request,
    stage: Doc<'_>,
    rules: &CollectionRules,
) -> Result<std::result::Result<Document, Bytes>, Lost> {
    let (database, collection) = (database(request), target(request));
    let mut stages = Vec::new();
    let mut only = ArrayBuilder::begin(&mut stages);
    only.push_doc(stage);
    only.end();
    let fields = [
        ("pipeline", ValueRef::array(Doc::new(&stages))),
        ("cursor", ValueRef::document(Doc::EMPTY)),
    ];
    let now = settings.now();
    let reply = ask
        .ask(with_body(request, with_fields(request.body(), &fields)))
        .await?;
    let Some(mut answer) = good(&reply) else {
        return Ok(Err(reply));
    };
    let Some(row) = only_row(&mut answer) else {
        return Err(Error::not_implemented(
            "$collStats in front of a sharded cluster, on a collection with a TTL,",
        )
        .into());
    };
    let measured = settings.measure(&database, &collection, rules, now).await?;
    set(row, "count", measured.count);
    if let Ok(stats) = row.get_document_mut("storageStats") {
        let spec = stage.get("$collStats").as_doc().unwrap_or(Doc::EMPTY);
        let scale = spec.get("storageStats").as_doc().map_or(1.0, scale_of);
        correct(stats, measured, scale);
    }
    Ok(Ok(answer))
}

/// Returns the only row of a reply, in which there is one for each shard.
fn only_row(reply: &mut Document) -> Option<&mut Document> {
    let cursor = reply.get_document_mut("cursor").ok()?;
    match cursor.get_array_mut("firstBatch").ok()?.as_mut_slice() {
        [Bson::Document(row)] => Some(row),
        _ => None,
    }
}

/// Returns the aggregate with its later stages, on a row that is known.
fn on_row(request: &Request, reply: &Document) -> Request {
    let body = request.body();
    let cursor = reply.get_document("cursor");
    let rows = cursor.and_then(|cursor| cursor.get_array("firstBatch"));
    let rows = doc! {"$documents": {"$literal": rows.cloned().unwrap_or_default()}};
    let mut stages = Vec::new();
    let mut all = ArrayBuilder::begin(&mut stages);
    all.push_doc(DocBuf::from(&rows).as_doc());
    let later = body.get("pipeline").as_array().unwrap_or(Doc::EMPTY);
    for stage in later.iter().skip(1) {
        all.push(stage.value);
    }
    all.end();
    let aggregate = Value::int32(1);
    let fields = [
        ("aggregate", aggregate.as_ref()),
        ("pipeline", ValueRef::array(Doc::new(&stages))),
    ];
    with_body(request, with_fields(body, &fields))
}

/// Puts the exact figures into those of the cluster.
fn correct(stats: &mut Document, measured: Measured, scale: f64) {
    set(stats, "count", measured.count);
    set(stats, "size", (measured.bytes as f64 / scale) as i64);
    match measured.bytes.checked_div(measured.count) {
        Some(average) => set(stats, "avgObjSize", average),
        None => drop(stats.remove("avgObjSize")),
    }
    if let Ok(details) = stats.get_document_mut("indexDetails") {
        remove_physical(details);
    }
    let removed = stats.get_document_mut("indexSizes").map(remove_physical);
    let (indexes, bytes) = removed.unwrap_or_default();
    lower(stats, "nindexes", indexes as f64);
    lower(stats, "totalIndexSize", bytes as f64);
    lower(stats, "totalSize", bytes as f64);
    // The figures of single shards.
    stats.remove("shards");
}

/// Removes Sundown's own indexes. Returns how many they were and the sum of their values.
fn remove_physical(indexes: &mut Document) -> (i64, i64) {
    let own: Vec<String> = indexes
        .keys()
        .filter(|name| is_physical_name(name))
        .cloned()
        .collect();
    let removed = own.iter().filter_map(|name| indexes.remove(name));
    removed.fold((0, 0), |(count, sum), value| {
        (count + 1, sum + whole(&value))
    })
}

/// Returns the reply if the cluster did what it was asked.
fn good(reply: &Bytes) -> Option<Document> {
    is_true(Doc::new(reply).get("ok"))
        .then(|| Document::from_reader(&reply[..]).ok())
        .flatten()
}

fn bytes(reply: &Document) -> Bytes {
    Bytes::from(DocBuf::from(reply).into_bytes())
}

fn database(request: &Request) -> String {
    let named = request.body().get("$db").as_str();
    let named = named.or(request.query_database.as_deref());
    named.unwrap_or_default().to_owned()
}

/// The value of the command's first field.
fn target(request: &Request) -> String {
    let first = request.body().first();
    let name = first.and_then(|elem| elem.value.as_str());
    name.unwrap_or_default().to_owned()
}

fn scale(request: &Request) -> f64 {
    scale_of(request.body())
}

/// The number by which the cluster has divided all sizes.
fn scale_of(options: Doc<'_>) -> f64 {
    let scale = options.get("scale").as_f64().unwrap_or(1.0);
    scale.trunc().max(1.0)
}

fn float(value: &Bson) -> f64 {
    match value {
        Bson::Int32(n) => f64::from(*n),
        Bson::Int64(n) => *n as f64,
        Bson::Double(n) => *n,
        _ => 0.0,
    }
}

fn whole(value: &Bson) -> i64 {
    float(value) as i64
}

fn figure(stats: &Document, name: &str) -> i64 {
    stats.get(name).map_or(0, whole)
}

/// Replaces a figure that the cluster has shown.
fn set(stats: &mut Document, name: &str, figure: i64) {
    let new = match (stats.get(name), i32::try_from(figure)) {
        (None, _) => return,
        (Some(Bson::Double(_)), _) => Bson::Double(figure as f64),
        (_, Ok(small)) => Bson::Int32(small),
        _ => Bson::Int64(figure),
    };
    stats.insert(name, new);
}

/// Lowers a figure that the cluster has shown.
fn lower(stats: &mut Document, name: &str, by: f64) {
    match stats.get(name) {
        Some(Bson::Double(n)) => {
            let new = (n - by).max(0.0);
            stats.insert(name, new);
        }
        Some(value) => {
            let new = (float(value) - by).max(0.0) as i64;
            set(stats, name, new);
        }
        None => {}
    }
}
