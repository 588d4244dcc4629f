//! A collection of the cluster, as far as the settings depend on it: its identity and its TTL indexes on dates.

use std::time::Instant;

use bson::{Document, doc};

use super::physical::is_physical;
use super::record::{number, read_uuid};
use super::store::SettingsStore;
use crate::clock::monotonic;
use crate::error::{Code, Result};
use crate::ttl::TS_FIELD;
use crate::upstream::{DateRule, HIDDEN_FIELD};
use crate::value::DocBuf;

/// What the cluster says about a name.
#[derive(Debug, Clone)]
pub(super) struct CollectionInfo {
    pub shape: NameKind,
    pub uuid: Option<[u8; 16]>,
    /// The options, as listCollections shows them.
    pub options: Document,
    /// The indexes, as listIndexes shows them. Sundown's own are among them.
    pub indexes: Vec<Document>,
    /// When the cluster was asked.
    pub sent: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameKind {
    Missing,
    Collection,
    View,
    TimeSeries,
}

/// Asks the cluster about a collection.
pub(super) async fn find(
    cluster: &SettingsStore,
    database: &str,
    collection: &str,
) -> Result<CollectionInfo> {
    let sent = monotonic();
    let mut found = CollectionInfo {
        shape: NameKind::Missing,
        uuid: None,
        options: Document::new(),
        indexes: Vec::new(),
        sent,
    };
    let list = doc! {"listCollections": 1, "filter": {"name": collection}};
    let rows = cluster.rows(database, list).await?;
    let Some(listed) = rows.first() else {
        return Ok(found);
    };
    found.shape = match listed.get_str("type") {
        Ok("view") => NameKind::View,
        Ok("timeseries") => NameKind::TimeSeries,
        _ => NameKind::Collection,
    };
    let info = listed.get_document("info").ok();
    found.uuid = info.and_then(|info| info.get("uuid")).and_then(read_uuid);
    if let Ok(options) = listed.get_document("options") {
        found.options = options.clone();
    }
    if found.shape != NameKind::View {
        found.indexes = list_indexes(cluster, database, collection).await?;
    }
    Ok(found)
}

async fn list_indexes(
    cluster: &SettingsStore,
    database: &str,
    collection: &str,
) -> Result<Vec<Document>> {
    let list = doc! {"listIndexes": collection};
    match cluster.rows(database, list).await {
        // It was dropped in between.
        Err(error) if error.code() == Code::NamespaceNotFound => Ok(Vec::new()),
        other => other,
    }
}

// === impl CollectionInfo ===

impl CollectionInfo {
    /// Returns the rules that end documents by a date in them.
    pub fn dates(&self) -> Vec<DateRule> {
        let indexes = self.indexes.iter().filter(|index| !is_physical(index));
        let mut rules: Vec<_> = indexes.filter_map(date_rule).collect();
        rules.extend(self.own_rule());
        rules
    }

    /// Returns the rule in the options of a clustered or time series collection.
    pub fn own_rule(&self) -> Option<DateRule> {
        let seconds = seconds(&self.options)?;
        let path = match self.options.get_document("timeseries") {
            Ok(series) => series.get_str("timeField").ok()?,
            Err(_) => "_id",
        };
        Some(DateRule {
            path: path.to_owned(),
            seconds,
            filter: None,
        })
    }

    /// Returns whether an index besides the one on `_id` is unique. A collection that does not exist may get one.
    pub fn has_unique_keys(&self) -> bool {
        let unique = |index: &Document| {
            ["unique", "prepareUnique"]
                .iter()
                .any(|name| index.get_bool(*name).unwrap_or(false))
        };
        self.shape == NameKind::Missing || self.indexes.iter().any(unique)
    }

    pub fn is_capped(&self) -> bool {
        self.options.get_bool("capped").unwrap_or(false)
    }

    /// Returns the indexes that clients see.
    pub fn client_indexes(&self) -> impl Iterator<Item = &Document> {
        self.indexes.iter().filter(|index| !is_physical(index))
    }
}

/// Returns the rule of a TTL index. The server's own fields are no dates of the client.
pub(super) fn date_rule(index: &Document) -> Option<DateRule> {
    let key = index.get_document("key").ok()?;
    let path = key.keys().next().filter(|_| key.len() == 1)?;
    let seconds = seconds(index)?;
    if path == TS_FIELD || path == HIDDEN_FIELD {
        return None;
    }
    let filter = index.get_document("partialFilterExpression").ok();
    Some(DateRule {
        path: path.clone(),
        seconds,
        filter: filter.map(DocBuf::from),
    })
}

/// Reads `expireAfterSeconds`. The cluster stores it as any kind of number.
fn seconds(options: &Document) -> Option<i32> {
    let seconds = number(options.get("expireAfterSeconds")?)?;
    let seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
    (seconds >= 0).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_indexes_end_documents_by_a_date() {
        let found = |options: Document, indexes: Vec<Document>| CollectionInfo {
            shape: NameKind::Collection,
            uuid: None,
            options,
            indexes,
            sent: monotonic(),
        };
        let indexes = vec![
            doc! {"key": {"_id": 1}, "name": "_id_"},
            doc! {"key": {"at": 1}, "name": "at_1", "expireAfterSeconds": 5.0},
            doc! {"key": {"b": -1}, "name": "b", "expireAfterSeconds": 0_i64, "partialFilterExpression": {"c": 1}},
            doc! {"key": {"_sundown": 1}, "name": "_sundown_default", "expireAfterSeconds": 70},
            doc! {"key": {"_ts": 1}, "name": "_ts_1", "expireAfterSeconds": 70},
            doc! {"key": {"x": 1}, "name": "x", "expireAfterSeconds": f64::NAN},
        ];
        let rule = |path: &str, seconds, filter: Option<Document>| DateRule {
            path: path.into(),
            seconds,
            filter: filter.map(DocBuf::from),
        };
        let plain = found(Document::new(), indexes);
        let expected = [rule("at", 5, None), rule("b", 0, Some(doc! {"c": 1}))];
        assert_eq!(plain.dates(), expected);
        let series = doc! {"timeseries": {"timeField": "when"}, "expireAfterSeconds": 9_i64};
        assert_eq!(found(series, vec![]).dates(), [rule("when", 9, None)]);
        let clustered = doc! {"clusteredIndex": {"v": 2}, "expireAfterSeconds": 9_i64};
        assert_eq!(found(clustered, vec![]).dates(), [rule("_id", 9, None)]);
    }
}
