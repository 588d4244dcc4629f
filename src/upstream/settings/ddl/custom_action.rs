//! `customAction`: Cosmos DB's way to create and change collections. It runs the other commands one by one.
//!
//! A cluster has no throughput to provision, and a shard key is set with `shardCollection`. Both are refused by name.

use bson::{Bson, Document, doc};
use bytes::Bytes;

use super::switch::same_key;
use super::{
    create, create_indexes, database, documents, drop_collection, drop_indexes, is_ok, list_indexes,
};
use crate::args::{Arg, required};
use crate::error::{Code, Error, Result};
use crate::ttl::is_ts_key;
use crate::upstream::settings::RuleSettings;
use crate::upstream::settings::collection::NameKind;
use crate::upstream::settings::record::is_named;
use crate::upstream::{Ask, Lost};
use crate::value::{Doc, DocBuf};
use crate::wire::Request;

/// What is done to replace the indexes of a collection. Indexes that have the name or the key of an old one cannot be
/// created beside it, so they come last.
#[derive(Debug, Default, PartialEq)]
struct IndexChanges {
    first: Vec<Document>,
    old: Vec<String>,
    last: Vec<Document>,
}

/// The arguments of an action.
#[derive(Default)]
struct CustomAction {
    collection: Option<String>,
    indexes: Option<Vec<Document>>,
    show_indexes: bool,
}

pub async fn custom_action(
    settings: &RuleSettings,
    ask: &mut impl Ask,
    request: &Request,
) -> Result<Bytes, Lost> {
    let database = database(request)?;
    let name = request.body().first();
    let name = name.and_then(|first| first.value.as_str()).unwrap_or("");
    let fields: &[&str] = match name {
        "CreateCollection" | "UpdateCollection" => &["collection", "indexes"],
        "GetCollection" => &["collection", "showIndexes"],
        "CreateDatabase" | "UpdateDatabase" | "GetDatabase" | "GetChangeStreamTokens" => {
            return Err(not_here(name).into());
        }
        _ => {
            return Err(Lost::from(Error::new(
                Code::CommandNotSupported,
                format!("customAction '{name}' is not supported"),
            )));
        }
    };
    let action = CustomAction::parse(request, fields)?;
    let collection = required(action.collection.as_deref(), "customAction", "collection")?;
    let found = settings.0.find(database, collection).await?;
    match (name, found.shape) {
        ("CreateCollection", NameKind::Missing) => {}
        ("CreateCollection", _) => {
            return Err(Lost::from(Error::new(
                Code::NamespaceExists,
                format!("Collection {database}.{collection} already exists."),
            )));
        }
        (_, NameKind::Missing) => {
            return Err(Lost::from(Error::new(
                Code::NamespaceNotFound,
                format!("Collection {database}.{collection} not found."),
            )));
        }
        _ => {}
    }
    let reply = match name {
        "CreateCollection" => action.create(settings, ask, database, collection).await?,
        "UpdateCollection" => action.update(settings, ask, database, collection).await?,
        _ => action.get(settings, ask, database, collection).await?,
    };
    Ok(reply)
}

fn not_here(what: &str) -> Error {
    Error::not_implemented(format!("customAction with '{what}' in front of a cluster"))
}

/// Returns a command as the client could have sent it.
fn command(database: &str, mut body: Document) -> Request {
    body.insert("$db", database);
    Request::new(DocBuf::from(&body).into_bytes())
}

fn done() -> Bytes {
    Bytes::from(DocBuf::from(doc! {"ok": 1.0}).into_bytes())
}

fn key(index: &Document) -> Document {
    index.get_document("key").cloned().unwrap_or_default()
}

fn is_id(index: &Document) -> bool {
    let key = key(index);
    key.len() == 1 && key.contains_key("_id")
}

fn is_ts(index: &Document) -> bool {
    is_ts_key(DocBuf::from(key(index)).as_doc())
}

// === impl CustomAction ===

impl CustomAction {
    fn parse(request: &Request, known: &[&str]) -> Result<Self> {
        let mut action = Self::default();
        for elem in request.body().iter().skip(1) {
            let arg = Arg::new("customAction", elem);
            match arg.name() {
                "offerThroughput" | "autoScaleSettings" | "shardKey" => {
                    return Err(not_here(arg.name()));
                }
                "collection" if known.contains(&"collection") => {
                    action.collection = arg.str()?.map(ToOwned::to_owned);
                }
                "indexes" if known.contains(&"indexes") => {
                    action.indexes = arg.docs()?.map(|_| wanted(request)).transpose()?;
                }
                "showIndexes" if known.contains(&"showIndexes") => {
                    action.show_indexes = arg.bool()?.unwrap_or(false);
                }
                "collection" | "indexes" | "showIndexes" => return Err(arg.unknown()),
                // What every command may have: the session, the database, the client's API version.
                other if other.starts_with('$') || COMMON.contains(&other) => {}
                _ => return Err(arg.unknown()),
            }
        }
        Ok(action)
    }

    async fn create(
        &self,
        settings: &RuleSettings,
        ask: &mut impl Ask,
        database: &str,
        collection: &str,
    ) -> Result<Bytes, Lost> {
        let make = command(database, doc! {"create": collection});
        let reply = create(settings, ask, &make).await?;
        let indexes = self.indexes.clone().unwrap_or_default();
        if !is_ok(&reply) || indexes.is_empty() {
            return Ok(reply);
        }
        let add = doc! {"createIndexes": collection, "indexes": indexes};
        let added = create_indexes(settings, ask, &command(database, add)).await;
        if !added.as_ref().is_ok_and(is_ok) {
            let undo = command(database, doc! {"drop": collection});
            // The client gets the first error.
            let _ = drop_collection(settings, ask, &undo).await;
            return added;
        }
        Ok(done())
    }

    async fn update(
        &self,
        settings: &RuleSettings,
        ask: &mut impl Ask,
        database: &str,
        collection: &str,
    ) -> Result<Bytes, Lost> {
        let Some(wanted) = &self.indexes else {
            return Ok(done());
        };
        let there = match indexes(settings, ask, database, collection).await? {
            Ok(there) => there,
            Err(reply) => return Ok(reply),
        };
        let plan = IndexChanges::new(there.clone(), wanted);
        let make = |indexes: &[Document]| {
            let body = doc! {"createIndexes": collection, "indexes": indexes.to_vec()};
            command(database, body)
        };
        let gone = |names: Vec<String>| {
            command(database, doc! {"dropIndexes": collection, "index": names})
        };
        let mut reply = done();
        if !plan.first.is_empty() {
            reply = create_indexes(settings, ask, &make(&plan.first)).await?;
        }
        if is_ok(&reply) && !plan.old.is_empty() {
            reply = drop_indexes(settings, ask, &gone(plan.old.clone())).await?;
        }
        if is_ok(&reply) && !plan.last.is_empty() {
            let last = create_indexes(settings, ask, &make(&plan.last)).await;
            if !last.as_ref().is_ok_and(is_ok) {
                // Nothing stays half done. The client gets the first error.
                let dropped = there.iter().filter(|index| {
                    let is_gone = |name: &String| is_named(index, name);
                    plan.old.iter().any(is_gone)
                });
                let dropped: Vec<_> = dropped.cloned().collect();
                if !dropped.is_empty() {
                    let _ = create_indexes(settings, ask, &make(&dropped)).await;
                }
                let names = plan.first.iter();
                let names = names.filter_map(|index| index.get_str("name").ok());
                let names: Vec<_> = names.map(ToOwned::to_owned).collect();
                if !names.is_empty() {
                    let _ = drop_indexes(settings, ask, &gone(names)).await;
                }
            }
            reply = last?;
        }
        Ok(match is_ok(&reply) {
            true => done(),
            false => reply,
        })
    }

    async fn get(
        &self,
        settings: &RuleSettings,
        ask: &mut impl Ask,
        database: &str,
        collection: &str,
    ) -> Result<Bytes, Lost> {
        // Also without its indexes, so that the cluster checks the client's rights.
        let there = match indexes(settings, ask, database, collection).await? {
            Ok(there) => there,
            Err(reply) => return Ok(reply),
        };
        let mut shown = doc! {"database": database, "collection": collection};
        if self.show_indexes {
            let with_namespace = |mut index: Document| {
                index.insert("ns", format!("{database}.{collection}"));
                Bson::from(index)
            };
            let there: Vec<_> = there.into_iter().map(with_namespace).collect();
            shown.insert("indexes", there);
        }
        shown.insert("ok", 1.0);
        Ok(Bytes::from(DocBuf::from(&shown).into_bytes()))
    }
}

/// Fields that any command may have.
const COMMON: [&str; 8] = [
    "lsid",
    "txnNumber",
    "comment",
    "maxTimeMS",
    "writeConcern",
    "apiVersion",
    "apiStrict",
    "apiDeprecationErrors",
];

/// Returns the wanted indexes but the one on `_id`, which must be among them and exists anyway.
fn wanted(request: &Request) -> Result<Vec<Document>> {
    let mut specs = Vec::new();
    for spec in documents(request, "indexes") {
        let read = Document::from_reader(spec.bytes());
        specs.push(read.map_err(|error| Error::bad_value(error.to_string()))?);
    }
    if !specs.iter().any(is_id) {
        return Err(Error::bad_value(
            "customAction 'indexes' must contain the index on _id",
        ));
    }
    specs.retain(|spec| !is_id(spec));
    Ok(specs)
}

/// Returns the indexes that the client sees, or the cluster's error.
async fn indexes(
    settings: &RuleSettings,
    ask: &mut impl Ask,
    database: &str,
    collection: &str,
) -> Result<Result<Vec<Document>, Bytes>, Lost> {
    // More than a collection can have.
    let list = doc! {"listIndexes": collection, "cursor": {"batchSize": 1_000}};
    let reply = list_indexes(settings, ask, &command(database, list)).await?;
    if !is_ok(&reply) {
        return Ok(Err(reply));
    }
    let rows = Doc::new(&reply).get("cursor").as_doc();
    let rows = rows.and_then(|cursor| cursor.get("firstBatch").as_array());
    let rows = rows.unwrap_or(Doc::EMPTY).iter();
    let read = rows.filter_map(|row| Document::from_reader(row.value.as_doc()?.bytes()).ok());
    Ok(Ok(read.collect()))
}

// === impl IndexChanges ===

impl IndexChanges {
    fn new(mut old: Vec<Document>, wanted: &[Document]) -> Self {
        old.retain(|index| !is_id(index));
        let mut plan = Self::default();
        let mut new = Vec::new();
        for spec in wanted {
            if is_ts(spec) && spec.contains_key("expireAfterSeconds") {
                // A new default replaces the old one by itself.
                old.retain(|index| !is_ts(index));
                plan.last.push(spec.clone());
                continue;
            }
            match old.iter().position(|index| is_same(index, spec)) {
                Some(same) => drop(old.swap_remove(same)),
                None => new.push(spec.clone()),
            }
        }
        for spec in new {
            let clashes = |index: &Document| {
                index.get("name") == spec.get("name") || same_key(&key(index), &key(&spec))
            };
            match old.iter().any(clashes) {
                true => plan.last.push(spec),
                false => plan.first.push(spec),
            }
        }
        let names = old.iter().filter_map(|index| index.get_str("name").ok());
        plan.old = names.map(ToOwned::to_owned).collect();
        plan
    }
}

/// Returns whether an index is there as it is wanted. (The version may be left out.)
fn is_same(there: &Document, wanted: &Document) -> bool {
    let without_version = |index: &Document| {
        let options = index
            .iter()
            .filter(|(name, _)| !["v", "key"].contains(&name.as_str()));
        let options = options.map(|(name, value)| (name.clone(), value.clone()));
        options.collect::<std::collections::BTreeMap<String, Bson>>()
    };
    same_key(&key(there), &key(wanted)) && without_version(there) == without_version(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_indexes_are_kept_created_and_dropped() {
        let there = vec![
            doc! {"v": 2, "key": {"_id": 1}, "name": "_id_"},
            doc! {"v": 2, "key": {"a": 1}, "name": "a_1"},
            doc! {"v": 2, "key": {"b": 1}, "name": "b_1"},
            doc! {"v": 2, "key": {"_ts": 1}, "name": "_ts_1", "expireAfterSeconds": 20},
        ];
        let unique = doc! {"key": {"b": 1}, "name": "b_1", "unique": true};
        let default = doc! {"key": {"_ts": 1}, "name": "_ts_1", "expireAfterSeconds": 30};
        let fresh = doc! {"key": {"c": 1}, "name": "c_1"};
        let wanted = [
            doc! {"key": {"a": 1}, "name": "a_1"},
            default.clone(),
            unique.clone(),
            fresh.clone(),
        ];
        let plan = IndexChanges {
            first: vec![fresh],
            old: vec!["b_1".into()],
            last: vec![default, unique],
        };
        assert_eq!(IndexChanges::new(there.clone(), &wanted), plan);
        // The default is switched off by leaving it out.
        let mut plan = IndexChanges::new(there, &wanted[..1]);
        plan.old.sort();
        assert_eq!(plan.old, ["_ts_1", "b_1"].map(String::from));
    }
}
