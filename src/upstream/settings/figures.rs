//! Figures about the collections with rules, asked with Sundown's own rights: whoever may see statistics need not be allowed
//! to read documents.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bson::{Bson, Document, doc};

use super::RuleSettings;
use super::change::delete_ended;
use super::record::{document, number};
use crate::error::{Code, Result};
use crate::ttl::TS_FIELD;
use crate::upstream::rewrite::EndedPredicate;
use crate::upstream::{CollectionRules, HIDDEN_FIELD};
use crate::value::{Doc, Millis};

/// The documents of a collection that have not ended, without Sundown's own fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Measured {
    pub count: i64,
    pub bytes: i64,
}

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
        let alive = EndedPredicate::new(rules, now).alive(Doc::EMPTY);
        let alive = document(&alive).unwrap_or_default();
        let added = |field: &str, kind: &str, bytes: i32| doc! {"$cond": [{"$eq": [{"$type": format!("${field}")}, kind]}, bytes, 0]};
        let mut size = vec![Bson::from(doc! {"$bsonSize": "$$ROOT"})];
        if rules.stamped {
            size.push(added(HIDDEN_FIELD, "date", HIDDEN_BYTES).into());
        }
        if rules.stores_ts {
            size.push(added(TS_FIELD, "long", TS_BYTES).into());
        }
        let size = size
            .into_iter()
            .reduce(|all, field| doc! {"$subtract": [all, field]}.into());
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
