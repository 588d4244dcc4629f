//! listCollections, listIndexes and listDatabases: what clients see of settings, and what they do not see.

use bson::{Bson, Document, doc};
use bytes::Bytes;

use super::{collection, database, is_ok, rewritten, validator, virtual_index};
use crate::error::{Code, Error, Result};
use crate::query::Scope;
use crate::query::Vars;
use crate::query::filter::Filter;
use crate::ttl::IndexingMode;
use crate::upstream::rewrite::check_database;
use crate::upstream::settings::RuleSettings;
use crate::upstream::settings::physical::is_physical;
use crate::upstream::settings::record::{SettingRecord, document, is_named, number, read_uuid};
use crate::upstream::{Ask, Lost};
use crate::value::{Doc, DocBuf};
use crate::wire::Request;

/// The rows of a cursor of the cluster, and its first reply.
struct Listed {
    reply: Document,
    rows: Vec<Document>,
}

/// `listIndexes`. All indexes are in the first batch: there are never many.
pub async fn list_indexes(
    settings: &RuleSettings,
    ask: &mut impl Ask,
    request: &Request,
) -> Result<Bytes, Lost> {
    let (database, name) = (database(request)?, collection(request)?);
    let rules = settings.rules(database, name).await?;
    if !rules.stamped {
        return ask.ask(request.clone()).await;
    }
    let mut listed = match list(ask, request, |_| false).await? {
        Ok(listed) => listed,
        Err(reply) => return Ok(reply),
    };
    let found = settings.0.find(database, name).await?;
    let namespace = format!("{database}.{name}");
    let setting = settings.0.cluster.setting(&namespace).await?;
    let setting = setting.and_then(|stored| stored.of(found.uuid).cloned());
    let setting = setting.unwrap_or_default();
    // With includeIndexBuildInfo each index is wrapped.
    let wrapped = listed
        .rows
        .first()
        .is_some_and(|row| row.contains_key("spec"));
    let spec = |row: &Document| match row.get_document("spec") {
        Ok(spec) => spec.clone(),
        Err(_) => row.clone(),
    };
    listed.rows.retain(|row| !is_physical(&spec(row)));
    if let (Some(seconds), Some(shown)) = (setting.default.seconds(), &setting.ts_index) {
        match virtual_index(&setting, &found) {
            Some(name) => {
                let key = document(&shown.key).unwrap_or_default();
                let row = doc! {"v": 2, "key": key, "name": name, "expireAfterSeconds": seconds};
                listed.rows.push(match wrapped {
                    true => doc! {"spec": row},
                    false => row,
                });
            }
            None => {
                let is_shown = |row: &&mut Document| is_named(&spec(row), &shown.name);
                if let Some(row) = listed.rows.iter_mut().find(is_shown) {
                    let target = match wrapped {
                        true => row.get_document_mut("spec").ok(),
                        false => Some(row),
                    };
                    if let Some(target) = target {
                        target.insert("expireAfterSeconds", seconds);
                    }
                }
            }
        }
    }
    Ok(listed.into_reply())
}

/// `listCollections`, with the settings among the options. All collections are in the first batch.
pub async fn list_collections(
    settings: &RuleSettings,
    ask: &mut impl Ask,
    request: &Request,
) -> Result<Bytes, Lost> {
    let database = database(request)?;
    let body = request.body();
    let name_only = body.get("nameOnly").as_bool() == Some(true);
    if !settings.has_settings(database).await? || name_only {
        return ask.ask(request.clone()).await;
    }
    let given = body.get("filter").as_doc().unwrap_or(Doc::EMPTY);
    // The filter sees the same fields as the client, so it cannot be left to the cluster.
    let filter = Filter::parse(given, &Scope::without_constants())?;
    let mut listed = match list(ask, request, |name| name == "filter").await? {
        Ok(listed) => listed,
        Err(reply) => return Ok(reply),
    };
    let vars = Vars::at(settings.now());
    let mut rows = Vec::new();
    for mut row in std::mem::take(&mut listed.rows) {
        let name = row.get_str("name").unwrap_or_default();
        let setting = settings.0.current(&format!("{database}.{name}")).await?;
        let uuid = row
            .get_document("info")
            .ok()
            .and_then(|info| info.get("uuid"));
        let uuid = uuid.and_then(read_uuid);
        if let Some(setting) = setting.as_ref().and_then(|setting| setting.of(uuid)) {
            show_settings(&mut row, setting);
        }
        if filter.matches(DocBuf::from(&row).as_doc(), &vars)? {
            rows.push(row);
        }
    }
    listed.rows = rows;
    Ok(listed.into_reply())
}

/// Adds the settings to a row of listCollections, and takes Sundown's own additions away.
fn show_settings(row: &mut Document, setting: &SettingRecord) {
    let Ok(options) = row.get_document_mut("options") else {
        return;
    };
    if setting.stamped
        && let Ok(given) = options.get_document("validator").cloned()
    {
        options.insert("validator", validator::narrow(&given));
    }
    if let Some(seconds) = setting.default.seconds() {
        options.insert("defaultTtl", seconds);
    }
    let named = |(_, known): &&(&str, IndexingMode)| Some(*known) == setting.mode;
    if let Some((name, _)) = IndexingMode::NAMES.iter().find(named) {
        options.insert("indexingPolicy", doc! {"indexingMode": *name});
    }
}

/// `listDatabases`, without those that clients cannot reach. A router does not list `local` either.
pub async fn list_databases(ask: &mut impl Ask, request: &Request) -> Result<Bytes, Lost> {
    let reply = ask.ask(request.clone()).await?;
    if !is_ok(&reply) {
        return Ok(reply);
    }
    let mut read = read(&reply)?;
    let mut hidden = 0;
    if let Ok(databases) = read.get_array_mut("databases") {
        databases.retain(|row| {
            let Some(row) = row.as_document() else {
                return true;
            };
            let is_open = check_database(row.get_str("name").unwrap_or_default()).is_ok();
            if !is_open {
                let size = row.get("sizeOnDisk");
                hidden += size.and_then(number).unwrap_or(0);
            }
            is_open
        });
    }
    for (name, unit) in [("totalSize", 1), ("totalSizeMb", 1_048_576)] {
        let total = read.get(name).cloned();
        match total {
            Some(Bson::Int64(total)) => drop(read.insert(name, total - hidden / unit)),
            Some(Bson::Double(total)) => {
                drop(read.insert(name, total - (hidden / unit) as f64));
            }
            _ => {}
        }
    }
    Ok(write(&read))
}

/// Asks for all rows of a list, in any number of batches. Returns the cluster's error as it is.
async fn list(
    ask: &mut impl Ask,
    request: &Request,
    without: impl Fn(&str) -> bool,
) -> Result<Result<Listed, Bytes>, Lost> {
    let whole = rewritten(request, |name, _, out| {
        if name == "cursor" {
            out.doc(name).end();
            return true;
        }
        without(name)
    });
    let reply = ask.ask(whole).await?;
    if !is_ok(&reply) {
        return Ok(Err(reply));
    }
    let first = read(&reply)?;
    let mut listed = Listed {
        reply: first.clone(),
        rows: Vec::new(),
    };
    let mut batch = first;
    loop {
        let id = listed.take(&batch, &["firstBatch", "nextBatch"]);
        if id == 0 {
            return Ok(Ok(listed));
        }
        let namespace = batch
            .get_document("cursor")
            .and_then(|cursor| cursor.get_str("ns"));
        let namespace = namespace.unwrap_or_default();
        let name = namespace.split_once('.').map_or("", |(_, name)| name);
        let more = DocBuf::build(|out| {
            out.put_i64("getMore", id).put_str("collection", name);
            for elem in request.body() {
                if matches!(
                    elem.name(),
                    "$db" | "lsid" | "$clusterTime" | "apiVersion" | "apiStrict"
                ) {
                    out.put(elem.name(), elem.value);
                }
            }
        });
        let reply = ask.ask(Request::new(more.into_bytes())).await?;
        if !is_ok(&reply) {
            return Ok(Err(reply));
        }
        batch = read(&reply)?;
    }
}

// === impl Listed ===

impl Listed {
    /// Takes the rows of a batch and returns the id of the cursor.
    fn take(&mut self, reply: &Document, names: &[&str]) -> i64 {
        let Ok(cursor) = reply.get_document("cursor") else {
            return 0;
        };
        let batch = names.iter().find_map(|name| cursor.get_array(name).ok());
        let rows = batch.into_iter().flatten();
        self.rows
            .extend(rows.filter_map(|row| row.as_document().cloned()));
        cursor.get_i64("id").unwrap_or(0)
    }

    fn into_reply(mut self) -> Bytes {
        if let Ok(cursor) = self.reply.get_document_mut("cursor") {
            cursor.insert("id", 0_i64);
            cursor.insert("firstBatch", self.rows);
        }
        write(&self.reply)
    }
}

fn read(reply: &Bytes) -> Result<Document> {
    Document::from_reader(&reply[..]).map_err(|error| {
        Error::new(
            Code::InternalError,
            format!("the cluster's reply cannot be read: {error}"),
        )
    })
}

fn write(reply: &Document) -> Bytes {
    Bytes::from(DocBuf::from(reply).into_bytes())
}
