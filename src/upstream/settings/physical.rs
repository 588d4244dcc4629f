//! Sundown's own indexes in a collection with a DefaultTTL. With them ended documents are deleted; clients never see them.

use bson::{Bson, Document, doc};

use super::collection::{self, CollectionInfo};
use super::record::{is_named, number};
use super::store::SettingsStore;
use crate::error::Result;
use crate::ttl::{DefaultTtl, OwnTtl};
use crate::upstream::HIDDEN_FIELD;

/// The index with which the cluster's TTL monitor deletes documents that inherit the default. It is hidden, so that no query
/// of a client uses it.
pub(super) const DEFAULT_INDEX: &str = "_sundown_default";
/// The index with which the sweeper finds documents that have a `ttl`. A hidden one could not be used in a hint.
pub(super) const OWN_INDEX: &str = "_sundown_own";
/// The cluster deletes this many seconds late, so that a wrong clock never makes it delete early.
const LATE: i64 = 60;

/// Returns whether an index, as listIndexes shows it, is Sundown's own.
pub fn is_physical(index: &Document) -> bool {
    index.get_str("name").is_ok_and(is_physical_name)
}

/// Returns whether this is the name of an index of Sundown's own.
pub fn is_physical_name(name: &str) -> bool {
    name == DEFAULT_INDEX || name == OWN_INDEX
}

/// Returns the `expireAfterSeconds` of the cluster's index.
fn expiry(default: DefaultTtl) -> Option<i64> {
    match default {
        DefaultTtl::Seconds(n) => Some((i64::from(n) + LATE).min(i32::MAX.into())),
        DefaultTtl::Never | DefaultTtl::Off => None,
    }
}

/// Returns the expiry of the cluster's index, if there is one.
fn current(found: &CollectionInfo) -> Option<i64> {
    let mut indexes = found.indexes.iter();
    let index = indexes.find(|index| is_named(index, DEFAULT_INDEX))?;
    number(index.get("expireAfterSeconds")?)
}

fn has(found: &CollectionInfo, name: &str) -> bool {
    let mut indexes = found.indexes.iter();
    indexes.any(|index| is_named(index, name))
}

/// Makes the indexes ready before this default is installed. The cluster must not delete by it yet.
pub(super) async fn prepare(
    cluster: &SettingsStore,
    namespace: &str,
    found: &CollectionInfo,
    new: DefaultTtl,
) -> Result<()> {
    let (database, collection) = namespace.split_once('.').unwrap_or((namespace, ""));
    let mut missing: Vec<Document> = Vec::new();
    if new != DefaultTtl::Off && !has(found, OWN_INDEX) {
        missing.push(doc! {
            "key": {OwnTtl::FIELD: 1, HIDDEN_FIELD: 1},
            "name": OWN_INDEX,
            "partialFilterExpression": {OwnTtl::FIELD: {"$exists": true}},
        });
    }
    match (expiry(new), current(found)) {
        (Some(_), None) => missing.push(doc! {
            "key": {HIDDEN_FIELD: 1},
            "name": DEFAULT_INDEX,
            "hidden": true,
            "partialFilterExpression": {OwnTtl::FIELD: Bson::Null},
            "expireAfterSeconds": i32::MAX,
        }),
        (Some(new), Some(old)) if new > old => {
            set_expiry(cluster, database, collection, new).await?;
        }
        _ => {}
    }
    if missing.is_empty() {
        return Ok(());
    }
    let mut create = doc! {"createIndexes": collection};
    if cluster.kind().await?.replicated {
        // Otherwise it waits for all members, also for one that is down.
        create.insert("commitQuorum", "majority");
    }
    create.insert("indexes", &missing);
    match cluster.run(database, create.clone()).await {
        // FerretDB says that hidden indexes are not supported yet. No other error makes the index visible.
        Err(error) if error.message().contains("hidden indexes") => {
            for index in &mut missing {
                index.remove("hidden");
            }
            create.insert("indexes", missing);
            cluster.run(database, create).await.map(drop)
        }
        created => created.map(drop),
    }
}

/// Lets the indexes follow the default that was installed.
pub(super) async fn follow(
    cluster: &SettingsStore,
    namespace: &str,
    found: &CollectionInfo,
    default: DefaultTtl,
) -> Result<()> {
    let (database, collection) = namespace.split_once('.').unwrap_or((namespace, ""));
    let mut gone = Vec::new();
    match (expiry(default), current(found)) {
        (Some(new), Some(old)) if new != old => {
            set_expiry(cluster, database, collection, new).await?;
        }
        (None, Some(_)) => gone.push(DEFAULT_INDEX),
        _ => {}
    }
    if default == DefaultTtl::Off && has(found, OWN_INDEX) {
        gone.push(OWN_INDEX);
    }
    for index in gone {
        let drop = doc! {"dropIndexes": collection, "index": index};
        if let Err(error) = cluster.run(database, drop).await {
            // Somebody else may have dropped it. And the reply of FerretDB cannot be read by the driver: its `ok` is a boolean.
            let left = collection::find(cluster, database, collection).await?;
            if has(&left, index) {
                return Err(error);
            }
        }
    }
    Ok(())
}

async fn set_expiry(
    cluster: &SettingsStore,
    database: &str,
    collection: &str,
    seconds: i64,
) -> Result<()> {
    let change = doc! {
        "collMod": collection,
        "index": {"name": DEFAULT_INDEX, "expireAfterSeconds": seconds},
    };
    cluster.run(database, change).await.map(drop)
}
