//! Deleting what has ended under a rule, in slices.

use bson::{Bson, DateTime, Document, doc};

use super::super::record::document;
use super::super::store::{SLICE, SettingsStore};
use super::super::sweep::Sweep;
use crate::error::{Code, Result};
use crate::ttl::{DefaultTtl, OwnTtl};
use crate::upstream::{CollectionRules, DateRule, HIDDEN_FIELD};
use crate::value::Millis;

/// Returns the filter that finds the documents that have ended at this moment, or `None` if none can have ended.
pub(in crate::upstream::settings) fn ended(
    rules: &CollectionRules,
    at: Millis,
) -> Option<Document> {
    let mut ways: Vec<Document> = rules.dates.iter().map(|rule| by_date(rule, at)).collect();
    if rules.default != DefaultTtl::Off {
        ways.push(by_stamp(rules, at));
    }
    (!ways.is_empty()).then(|| doc! {"$or": ways})
}

/// Returns the filter for a TTL index on dates. A comparison with a date finds dates only, and the earliest of an array.
fn by_date(rule: &DateRule, at: Millis) -> Document {
    let latest = at.0.saturating_sub(i64::from(rule.seconds) * 1_000);
    let past = doc! {&rule.path: {"$lte": DateTime::from_millis(latest)}};
    match rule.filter.as_ref().and_then(document) {
        Some(filter) => doc! {"$and": [past, filter]},
        None => past,
    }
}

/// Returns the filter for the default and the documents' own `ttl`.
///
/// The expression must be total: `ttl` may hold anything, and an error would end the whole command.
fn by_stamp(rules: &CollectionRules, at: Millis) -> Document {
    let since = DateTime::from_millis(rules.since.0);
    let stamp = doc! {"$cond": [
        {"$eq": [{"$type": format!("${HIDDEN_FIELD}")}, "date"]}, format!("${HIDDEN_FIELD}"), since,
    ]};
    let after = |seconds: Bson| doc! {"$add": ["$$stamp", {"$multiply": [seconds, 1_000]}]};
    let inherited = match rules.default {
        DefaultTtl::Seconds(n) => Bson::from(doc! {"$cond": [
            {"$eq": ["$$own", 0]}, after(Bson::Int64(n.into())), Bson::Null,
        ]}),
        _ => Bson::Null,
    };
    let end = doc! {"$cond": [{"$gt": ["$$own", 0]}, after("$$own".into()), inherited]};
    // Null comes before all dates, and means never.
    let is_over = doc! {"$let": {
        "vars": {"end": end},
        "in": {"$and": [
            {"$gt": ["$$end", Bson::Null]},
            {"$lte": ["$$end", DateTime::from_millis(at.0)]},
        ]},
    }};
    doc! {"$expr": {"$let": {"vars": {"own": own_ttl(), "stamp": stamp}, "in": is_over}}}
}

/// Returns the expression for the meaning of a document's `ttl`: 0 for none, as [`OwnTtl::from_value`] has it.
fn own_ttl() -> Document {
    let field = format!("${}", OwnTtl::FIELD);
    let number = doc! {"$cond": [
        {"$in": [{"$type": &field}, ["int", "long", "double"]]}, &field, 0,
    ]};
    let is_meaningful = doc! {"$and": [
        {"$gte": ["$$number", -1]},
        {"$lte": ["$$number", i32::MAX]},
        {"$eq": ["$$number", {"$trunc": ["$$number", 0]}]},
    ]};
    doc! {"$let": {
        "vars": {"number": number},
        "in": {"$cond": [is_meaningful, "$$number", 0]},
    }}
}

/// Deletes everything that has ended under these rules at this moment. Returns how many documents that were. A sweep stops
/// when its settings no longer hold.
///
/// The deletes are confirmed by a majority: one that is rolled back later would bring documents back.
pub(in crate::upstream::settings) async fn delete_ended(
    cluster: &SettingsStore,
    namespace: &str,
    rules: &CollectionRules,
    at: Millis,
    sweep: Option<&Sweep<'_>>,
) -> Result<u64> {
    let (database, collection) = namespace.split_once('.').unwrap_or((namespace, ""));
    let Some(ended) = ended(rules, at) else {
        return Ok(0);
    };
    let find = doc! {
        "find": collection, "filter": ended.clone(), "projection": {"_id": 1}, "batchSize": SLICE,
    };
    let mut cursor = match cluster.cursor(database, find).await {
        Err(error) if error.code() == Code::NamespaceNotFound => return Ok(0),
        cursor => cursor?,
    };
    let mut deleted = 0;
    loop {
        let rows = SettingsStore::slice(&mut cursor).await?;
        if rows.is_empty() {
            return Ok(deleted);
        }
        let mut _turn = None;
        if let Some(sweep) = sweep {
            _turn = match sweep.hold().await {
                None => return Ok(deleted),
                held => held,
            };
        }
        deleted += delete(cluster, database, collection, rows, &ended).await?;
    }
}

/// Deletes the documents with these `_id`s that match the filter: one may have been written since it was found.
pub(in crate::upstream::settings) async fn delete(
    cluster: &SettingsStore,
    database: &str,
    collection: &str,
    rows: Vec<Document>,
    filter: &Document,
) -> Result<u64> {
    let ids: Vec<Bson> = rows
        .into_iter()
        .filter_map(|mut row| row.remove("_id"))
        .collect();
    let mut query = doc! {"_id": {"$in": ids}};
    query.extend(filter.clone());
    let delete = doc! {
        "delete": collection,
        "deletes": [{"q": query, "limit": 0}],
        "writeConcern": {"w": "majority"},
    };
    let reply = cluster.run(database, delete).await?;
    Ok(u64::try_from(reply.get_i32("n").unwrap_or(0)).unwrap_or(0))
}
