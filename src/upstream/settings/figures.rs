//! Figures about the collections with rules, asked with Sundown's own rights: whoever may see statistics need not be allowed
//! to read documents.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bson::{Bson, Document, doc};

use super::RuleSettings;
use super::change::delete_ended;
use super::collection::{self, CollectionInfo};
use super::record::{document, number};
use super::store::SettingsStore;
use crate::error::{Code, Error, Result};
use crate::ttl::TS_FIELD;
use crate::upstream::rewrite::EndedPredicate;
use crate::upstream::{CollectionRules, HIDDEN_FIELD};
use crate::value::{Doc, DocBuf, Millis};

/// The documents of a collection that have not ended, without Sundown's own fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Measured {
    pub count: i64,
    pub bytes: i64,
}

/// The part of a collection that dataSize asks for.
#[derive(Debug)]
pub struct MeasuredPart {
    /// The documents from one key of an index on and below another: the key pattern, and the two keys.
    range: Option<[Document; 3]>,
    /// Counting stops above these totals. 0 means no limit.
    most: Measured,
}

/// The code of a find whose `min` does not come before its `max`.
const EMPTY_RANGE: Code = Code::Location(51175);

/// The bytes of the fields that Sundown adds: type, name with its end, and eight bytes of value.
const HIDDEN_BYTES: i32 = 1 + 9 + 8;
const TS_BYTES: i32 = 1 + 4 + 8;

// === impl RuleSettings ===

impl RuleSettings {
    /// Counts the documents that have not ended. The cluster examines every document of the collection.
    pub async fn measure(
        &self,
        database: &str,
        collection: &str,
        rules: &CollectionRules,
        now: Millis,
    ) -> Result<Measured> {
        let (alive, size) = living(rules, now);
        let sum = doc! {"_id": null, "count": {"$sum": 1_i64}, "bytes": {"$sum": size}};
        let aggregate = doc! {
            "aggregate": collection, "pipeline": [{"$match": alive}, {"$group": sum}], "cursor": {},
        };
        let rows = self.0.cluster.rows(database, aggregate).await?;
        let figure = |name: &str| rows.first()?.get(name).and_then(number);
        Ok(Measured {
            count: figure("count").unwrap_or(0),
            bytes: figure("bytes").unwrap_or(0),
        })
    }

    /// Counts the documents of a part that have not ended. Also returns whether it has stopped above a limit.
    pub async fn measure_part(
        &self,
        database: &str,
        collection: &str,
        rules: &CollectionRules,
        now: Millis,
        part: &MeasuredPart,
    ) -> Result<(Measured, bool)> {
        let (alive, size) = living(rules, now);
        let mut find = doc! {
            "find": collection, "filter": alive, "projection": {"_id": 0, "bytes": size},
        };
        if let Some(range) = &part.range {
            let found = collection::find(&self.0.cluster, database, collection).await?;
            find.extend(options_of(range, &found)?);
        }
        let mut measured = Measured::default();
        let mut cursor = match self.0.cluster.cursor(database, find).await {
            Err(error) if error.code() == EMPTY_RANGE => return Ok((measured, false)),
            cursor => cursor?,
        };
        loop {
            let rows = SettingsStore::slice(&mut cursor).await?;
            if rows.is_empty() {
                return Ok((measured, false));
            }
            for row in rows {
                measured.count += 1;
                measured.bytes += row.get("bytes").and_then(number).unwrap_or(0);
                if part.is_exceeded(measured) {
                    return Ok((measured, true));
                }
            }
        }
    }

    /// Returns the collections of a database that have rules.
    pub async fn ruled(&self, database: &str) -> Result<Vec<(String, Arc<CollectionRules>)>> {
        let list = doc! {"listCollections": 1, "nameOnly": true, "filter": {"type": "collection"}};
        let mut ruled = Vec::new();
        for row in self.0.cluster.rows(database, list).await? {
            let name = row.get_str("name").unwrap_or_default();
            let rules = self.rules(database, name).await?;
            if !rules.is_none() {
                ruled.push((name.to_owned(), rules));
            }
        }
        Ok(ruled)
    }

    /// Returns the cluster's own figures of a collection. They are empty if it does not exist any more.
    pub async fn cluster_figures(&self, database: &str, collection: &str) -> Result<Document> {
        let stats = doc! {"collStats": collection};
        match self.0.cluster.run(database, stats).await {
            Err(error) if error.code() == Code::NamespaceNotFound => Ok(Document::new()),
            reply => reply,
        }
    }

    /// Deletes the documents that have ended. Returns how many those were.
    pub async fn free_ended(
        &self,
        database: &str,
        collection: &str,
        rules: &CollectionRules,
        now: Millis,
    ) -> Result<u64> {
        let namespace = format!("{database}.{collection}");
        let mut deleted = delete_ended(&self.0.cluster, &namespace, rules, now, None).await?;
        if let Some((former, until)) = rules.former_at(now) {
            deleted += delete_ended(&self.0.cluster, &namespace, former, until, None).await?;
        }
        let counter = &self.0.sweeper.deleted;
        counter.fetch_add(deleted, Ordering::Relaxed);
        Ok(deleted)
    }
}

// === impl MeasuredPart ===

impl MeasuredPart {
    /// Returns the part that a dataSize asks for, which the cluster has accepted. `None` if it is the whole collection.
    pub fn of(command: Doc<'_>) -> Option<Self> {
        let number = |name| command.get(name).as_num();
        let limit = |name| number(name).map_or(0, |n| n.to_i64_saturating().max(0));
        let key = |name| {
            let key = command.get(name).as_doc().filter(|key| !key.is_empty());
            document(&DocBuf::from(key?))
        };
        let range = key("min").zip(key("max")).map(|(min, max)| {
            let inferred = || min.keys().map(|name| (name.clone(), Bson::from(1)));
            let pattern = key("keyPattern").unwrap_or_else(|| inferred().collect());
            [pattern, min, max]
        });
        let most = Measured {
            count: limit("maxObjects"),
            bytes: limit("maxSize"),
        };
        (range.is_some() || most != Measured::default()).then_some(Self { range, most })
    }

    fn is_exceeded(&self, measured: Measured) -> bool {
        let over = |found, most| most > 0 && found > most;
        over(measured.count, self.most.count) || over(measured.bytes, self.most.bytes)
    }
}

/// Returns the filter for documents that have not ended, and the expression for the size that clients see.
fn living(rules: &CollectionRules, now: Millis) -> (Document, Bson) {
    let alive = EndedPredicate::new(rules, now).alive(Doc::EMPTY);
    let alive = document(&alive).unwrap_or_default();
    let added = |field: &str, kind: &str, bytes: i32| doc! {"$cond": [{"$eq": [{"$type": format!("${field}")}, kind]}, bytes, 0]};
    let mut size = Bson::from(doc! {"$bsonSize": "$$ROOT"});
    if rules.stamped {
        size = doc! {"$subtract": [size, added(HIDDEN_FIELD, "date", HIDDEN_BYTES)]}.into();
    }
    if rules.stores_ts {
        size = doc! {"$subtract": [size, added(TS_FIELD, "long", TS_BYTES)]}.into();
    }
    (alive, size)
}

/// Returns the options of a find that reads a range of the first index whose key begins with a pattern. Where the index has more
/// fields, both keys go on with the smallest values.
fn options_of([pattern, min, max]: &[Document; 3], found: &CollectionInfo) -> Result<Document> {
    let begins = |index: &&Document| {
        let key = index.get_document("key").into_iter().flatten();
        let restricts = ["sparse", "partialFilterExpression", "collation", "hidden"];
        let is_same =
            |((name, direction), (wanted, other)): ((&String, &Bson), (&String, &Bson))| {
                name == wanted && number(direction) == number(other)
            };
        index
            .get_document("key")
            .is_ok_and(|key| key.len() >= pattern.len())
            && key.zip(pattern).all(is_same)
            && !restricts.iter().any(|name| index.contains_key(name))
    };
    let index = found.client_indexes().find(begins).ok_or_else(|| {
        Error::new(
            Code::OperationFailed,
            "couldn't find valid index containing key pattern",
        )
    })?;
    let name = index.get_str("name").unwrap_or_default();
    let key = index.get_document("key").cloned().unwrap_or_default();
    let whole = |end: &Document| -> Document {
        let mut given = end.values().cloned();
        let rest = |direction: &Bson| match number(direction) {
            Some(..0) => Bson::MaxKey,
            _ => Bson::MinKey,
        };
        let fields = key.iter();
        fields
            .map(|(name, direction)| {
                (
                    name.clone(),
                    given.next().unwrap_or_else(|| rest(direction)),
                )
            })
            .collect()
    };
    Ok(doc! {"hint": name, "min": whole(min), "max": whole(max)})
}
