//! `createIndexes`: an index on `_ts` with an expiry is the default, and one on another field is a rule on dates.

use bytes::Bytes;

use super::switch::{is_plain, switch, with_default};
use super::{
    ask_once_free, collection, count_indexes, database, documents, is_ok, rewritten, virtual_index,
};
use crate::error::{Code, Error, Result};
use crate::ttl::{DefaultTtl, Expiry, IndexingMode, TsIndex, check_mode, is_ts_key, names_ts};
use crate::upstream::settings::RuleSettings;
use crate::upstream::settings::collection::{CollectionInfo, NameKind};
use crate::upstream::settings::physical::is_physical_name;
use crate::upstream::settings::record::{SettingRecord, is_named};
use crate::upstream::{Ask, HIDDEN_FIELD, Lost};
use crate::value::{Doc, DocBuf, is_true};
use crate::wire::Request;

/// The indexes of a request, sorted by who has to know about them.
#[derive(Default)]
struct CreateIndexesArgs<'a> {
    default: Option<(DefaultTtl, TsIndex)>,
    /// The cluster's part.
    others: Vec<Doc<'a>>,
    /// One of the others ends documents by a date.
    expires: bool,
}

pub async fn create_indexes(
    settings: &RuleSettings,
    ask: &mut impl Ask,
    request: &Request,
) -> Result<Bytes, Lost> {
    let (database, name) = (database(request)?, collection(request)?);
    let wanted = CreateIndexesArgs::parse(request)?;
    let rules = settings.rules(database, name).await?;
    if wanted.default.is_none() && !wanted.expires {
        // Before a key must be unique, every Sundown has to know that ended documents may hold it.
        let announced = match wanted.has_unique() && !rules.is_none() {
            true => Some(settings.0.begin(database, name).await?),
            false => None,
        };
        let reply = match settings.0.current(&format!("{database}.{name}")).await? {
            Some(setting) => create_plain(settings, ask, request, &wanted, &setting).await,
            None => ask_once_free(settings, ask, request.clone()).await,
        };
        settings.0.cache.forget(database, name);
        if let Some(mut change) = announced {
            change.end().await?;
        }
        return reply;
    }
    let mut change = settings.0.begin(database, name).await?;
    let created = change.found.shape == NameKind::Missing;
    if let Err(error) = wanted.check(change.setting(), &change.found) {
        if created && error.code() == Code::IndexKeySpecsConflict {
            // A server creates the collection before it looks at the indexes.
            let wanted = CreateIndexesArgs {
                others: Vec::new(),
                ..wanted
            };
            let reply = ask.ask(wanted.cluster_part(request)).await?;
            if is_ok(&reply) {
                change.adopt().await?;
            }
        }
        change.end().await?;
        return Err(error.into());
    }
    let before = match created {
        true => 1,
        false => count_indexes(change.setting(), &change.found),
    };
    let reply = ask_once_free(settings, ask, wanted.cluster_part(request)).await?;
    if !is_ok(&reply) {
        change.end().await?;
        return Ok(reply);
    }
    if created {
        change.adopt().await?;
    } else {
        change.found = settings.0.find(database, name).await?;
    }
    if let Some((default, shown)) = wanted.default.clone() {
        let new = with_default(change.setting(), &change.found, default, Some(shown));
        switch(settings, &mut change, new, Vec::new()).await?;
    }
    let found = settings.0.find(database, name).await?;
    let after = count_indexes(change.setting(), &found);
    change.close().await?;
    Ok(wanted.reply(&reply, before, after, created))
}

/// Creates indexes that are no rules, in a collection with settings. If none is unique, nothing is announced, because building an
/// index may take long and changes no reply.
async fn create_plain(
    settings: &RuleSettings,
    ask: &mut impl Ask,
    request: &Request,
    wanted: &CreateIndexesArgs<'_>,
    setting: &SettingRecord,
) -> Result<Bytes, Lost> {
    let (database, name) = (database(request)?, collection(request)?);
    let found = settings.0.find(database, name).await?;
    if found.uuid != setting.uuid {
        return ask_once_free(settings, ask, request.clone()).await;
    }
    wanted.check(setting, &found)?;
    let before = count_indexes(setting, &found);
    let reply = ask_once_free(settings, ask, request.clone()).await?;
    if !is_ok(&reply) {
        return Ok(reply);
    }
    let found = settings.0.find(database, name).await?;
    let after = count_indexes(setting, &found);
    Ok(wanted.reply(&reply, before, after, false))
}

/// Parses an index whose key names `_ts` and that has an expiry.
fn parse_default(spec: Doc<'_>, key: Doc<'_>) -> Result<(DefaultTtl, TsIndex)> {
    let flags = ["unique", "prepareUnique", "sparse", "hidden"];
    let is_more = flags.iter().any(|flag| is_true(spec.get(flag)));
    let restricted = is_more || spec.has("partialFilterExpression");
    let name = spec.get("name").as_str().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| {
        Error::failed_to_parse("The 'name' field is a required property of an index specification")
            .caused(&format!("Error in specification {spec}"))
    })?;
    if name == "*" {
        return Err(Error::bad_value("The index name '*' is not valid."));
    }
    let default =
        Expiry::Create(spec).parse_ts_index(spec.get("expireAfterSeconds"), key, restricted)?;
    Ok((default, TsIndex::new(Some(name), Some(key))))
}

// === impl CreateIndexesArgs ===

impl<'a> CreateIndexesArgs<'a> {
    /// Returns whether one of the indexes makes a key unique.
    fn has_unique(&self) -> bool {
        let flags = ["unique", "prepareUnique"];
        let unique = |index: &Doc<'_>| flags.iter().any(|flag| is_true(index.get(flag)));
        self.others.iter().any(unique)
    }

    fn parse(request: &'a Request) -> Result<Self> {
        let mut wanted = Self::default();
        for spec in documents(request, "indexes") {
            let key = spec.get("key").as_doc().unwrap_or(Doc::EMPTY);
            let expires = spec.has("expireAfterSeconds");
            let hidden = |name: &str| name.split('.').next() == Some(HIDDEN_FIELD);
            let physical = spec.get("name").as_str().is_some_and(is_physical_name);
            if physical || key.iter().any(|elem| hidden(elem.name())) {
                return Err(Error::bad_value(format!(
                    "the field {HIDDEN_FIELD} and its indexes are reserved: {spec}"
                )));
            }
            if expires && names_ts(key) {
                wanted.default = Some(parse_default(spec, key)?);
            } else {
                wanted.expires |= expires;
                wanted.others.push(spec);
            }
        }
        Ok(wanted)
    }

    fn check(&self, setting: &SettingRecord, found: &CollectionInfo) -> Result<()> {
        let conflict = |code, words: String| Err(Error::new(code, words));
        let has_name = |name: &str| {
            conflict(
                Code::IndexKeySpecsConflict,
                format!("An existing index has the same name as the requested index: {name}"),
            )
        };
        let is_id = |spec: &Doc<'_>| {
            let key = spec.get("key").as_doc().unwrap_or(Doc::EMPTY);
            key.count() == 1 && key.has("_id")
        };
        if setting.mode == Some(IndexingMode::None) && !self.others.iter().all(is_id) {
            return conflict(
                Code::CannotCreateIndex,
                "Indexing mode 'none' allows no index but the one on _id".to_owned(),
            );
        }
        if let Some((default, shown)) = &self.default {
            check_mode(setting.mode, *default, Code::CannotCreateIndex)?;
            super::switch::check_shape(found)?;
            // A plain index on `_ts` becomes the one that shows the default. Any other index of that name would be mistaken
            // for it.
            if found
                .client_indexes()
                .any(|index| is_named(index, &shown.name) && !is_plain(index))
            {
                return has_name(&shown.name);
            }
            // The other index is created by the same command.
            let is_other = |spec: &Doc<'_>| {
                let key = spec.get("key").as_doc().unwrap_or(Doc::EMPTY);
                spec.get("name").as_str() == Some(&shown.name) && !is_ts_key(key)
            };
            if self.others.iter().any(is_other) {
                return has_name(&shown.name);
            }
        }
        let Some(shown) = virtual_index(setting, found) else {
            return Ok(());
        };
        for spec in &self.others {
            let name = spec.get("name").as_str().unwrap_or_default();
            if is_ts_key(spec.get("key").as_doc().unwrap_or(Doc::EMPTY)) {
                return conflict(
                    Code::IndexOptionsConflict,
                    format!(
                        "An equivalent index already exists with different options. Requested index: {name}, existing index: {shown}"
                    ),
                );
            }
            if name == shown {
                return has_name(shown);
            }
        }
        Ok(())
    }

    /// Returns the request without the default. If nothing is left, it names the index on `_id`, which always exists: the
    /// cluster checks the client's rights and creates the collection if it is missing.
    fn cluster_part(&self, request: &Request) -> Request {
        if self.default.is_none() {
            return request.clone();
        }
        let mut own = rewritten(request, |name, _, _| name == "indexes");
        own.sequences.retain(|sequence| sequence.name != "indexes");
        let body = DocBuf::build(|out| {
            for (nth, elem) in own.body().iter().enumerate() {
                out.put(elem.name(), elem.value);
                if nth == 0 {
                    let mut list = out.array("indexes");
                    for spec in &self.others {
                        list.push_doc(*spec);
                    }
                    if self.others.is_empty() {
                        let mut spec = list.doc();
                        let mut key = spec.doc("key");
                        key.put_i32("_id", 1);
                        key.end();
                        spec.put_str("name", "_id_");
                        spec.end();
                    }
                    list.end();
                }
            }
        });
        own.body = Bytes::from(body.into_bytes());
        own
    }

    fn reply(&self, reply: &Bytes, before: usize, after: usize, created: bool) -> Bytes {
        let numbers = [("numIndexesBefore", before), ("numIndexesAfter", after)];
        let reply = super::with_numbers(reply, &numbers);
        if self.default.is_none() {
            return reply;
        }
        let body = DocBuf::build(|out| {
            for elem in Doc::new(&reply) {
                match elem.name() {
                    "note" | "createdCollectionAutomatically" => {}
                    _ => drop(out.put(elem.name(), elem.value)),
                }
                if elem.name() == "numIndexesAfter" {
                    out.put_bool("createdCollectionAutomatically", created);
                }
            }
        });
        Bytes::from(body.into_bytes())
    }
}
