//! Switching the default: what all commands that set it do.

use bson::{Document, doc};

use super::validator;
use crate::error::{Code, Error, Result};
use crate::ttl::{DefaultTtl, TS_INDEX, TsIndex, is_ts_key};
use crate::upstream::settings::RuleSettings;
use crate::upstream::settings::change::SettingChange;
use crate::upstream::settings::collection::{CollectionInfo, NameKind};
use crate::upstream::settings::physical;
use crate::upstream::settings::record::{SettingRecord, is_named};
use crate::upstream::{DateRule, HIDDEN_FIELD};
use crate::value::{DocBuf, equal};

/// Refuses kinds of collections that cannot have a default.
pub fn check_shape(found: &CollectionInfo) -> Result<()> {
    let cannot = |what: &str| {
        Err(Error::new(
            Code::CannotCreateIndex,
            format!("Cannot set a default TTL on a {what}"),
        ))
    };
    match found.shape {
        NameKind::View => cannot("view"),
        NameKind::TimeSeries => cannot("time-series collection"),
        _ if found.is_capped() => cannot("capped collection"),
        _ => Ok(()),
    }
}

/// Installs new settings of an announced change, with everything in the cluster that belongs to them.
pub async fn switch(
    settings: &RuleSettings,
    change: &mut SettingChange,
    new: SettingRecord,
    lost: Vec<DateRule>,
) -> Result<()> {
    let cluster = &settings.0.cluster;
    let namespace = change.setting().namespace.clone();
    let (database, collection) = namespace.split_once('.').unwrap_or((&namespace, ""));
    if new.is_on() {
        check_shape(&change.found)?;
        if !change.setting().stamped {
            refuse_used_field(settings, database, collection).await?;
            allow_fields(settings, database, collection, &change.found).await?;
            change.stamp().await?;
        }
        physical::prepare(cluster, &namespace, &change.found, new.default).await?;
    }
    let default = new.default;
    let new = SettingRecord {
        stamped: change.setting().stamped,
        unstamped: change.setting().unstamped,
        since: change.setting().since,
        revision: change.setting().revision,
        ..new
    };
    change.install(new, lost).await?;
    let found = settings.0.find(database, collection).await?;
    physical::follow(cluster, &namespace, &found, default).await
}

/// The field is Sundown's. A client's values in it would be taken for stamps.
async fn refuse_used_field(
    settings: &RuleSettings,
    database: &str,
    collection: &str,
) -> Result<()> {
    let find = doc! {
        "find": collection, "filter": {HIDDEN_FIELD: {"$exists": true}}, "projection": {"_id": 1}, "limit": 1,
    };
    match settings.0.cluster.rows(database, find).await?.is_empty() {
        true => Ok(()),
        false => Err(super::invalid(format!(
            "a document of {database}.{collection} has the field {HIDDEN_FIELD}, which a collection with a default TTL needs"
        ))),
    }
}

/// Lets the validator accept Sundown's fields.
async fn allow_fields(
    settings: &RuleSettings,
    database: &str,
    collection: &str,
    found: &CollectionInfo,
) -> Result<()> {
    let Ok(given) = found.options.get_document("validator") else {
        return Ok(());
    };
    let wide = validator::widen(given)?;
    if wide == *given {
        return Ok(());
    }
    let change = doc! {"collMod": collection, "validator": wide};
    settings.0.cluster.run(database, change).await.map(drop)
}

/// Returns whether an index can show the default: one on `_ts` without options that restrict its contents.
pub fn is_plain(index: &Document) -> bool {
    let Ok(key) = index.get_document("key") else {
        return false;
    };
    let restricts = [
        "unique",
        "prepareUnique",
        "sparse",
        "partialFilterExpression",
    ];
    is_ts_key(DocBuf::from(key).as_doc()) && !restricts.iter().any(|name| index.contains_key(name))
}

/// Returns the index that shows the default. If there are plain indexes on `_ts`, it is one of them: the one with the wanted
/// name, or the first.
pub fn shown_as(
    setting: &SettingRecord,
    found: &CollectionInfo,
    wanted: Option<TsIndex>,
) -> TsIndex {
    let plain = |name: Option<&str>| {
        let plain = found.client_indexes().filter(|index| is_plain(index));
        let mut named = plain.filter(|index| name.is_none_or(|name| is_named(index, name)));
        let index = named.next()?;
        let key = DocBuf::from(index.get_document("key").ok()?);
        Some(TsIndex::new(index.get_str("name").ok(), Some(key.as_doc())))
    };
    match (wanted, &setting.ts_index) {
        (Some(wanted), _) => plain(Some(&wanted.name))
            .or_else(|| plain(None))
            .unwrap_or(wanted),
        (None, Some(there)) if setting.is_on() => there.clone(),
        _ => plain(None).unwrap_or_else(|| {
            let mut name = TS_INDEX.to_owned();
            while found.client_indexes().any(|index| is_named(index, &name)) {
                // Another index already has this name.
                name.push_str("_1");
            }
            TsIndex::new(Some(&name), None)
        }),
    }
}

/// Returns the settings with this default, and the index that shows it.
pub fn with_default(
    setting: &SettingRecord,
    found: &CollectionInfo,
    default: DefaultTtl,
    wanted: Option<TsIndex>,
) -> SettingRecord {
    SettingRecord {
        default,
        ts_index: match default {
            DefaultTtl::Off => None,
            _ => Some(shown_as(setting, found, wanted)),
        },
        ..setting.clone()
    }
}

/// Returns whether two index keys are the same: the same fields in the same order, with equal values.
pub fn same_key(one: &Document, other: &Document) -> bool {
    let (one, other) = (DocBuf::from(one), DocBuf::from(other));
    let (one, other) = (one.as_doc(), other.as_doc());
    one.count() == other.count()
        && one
            .iter()
            .zip(other)
            .all(|(a, b)| a.name_bytes() == b.name_bytes() && equal(a.value, b.value))
}
