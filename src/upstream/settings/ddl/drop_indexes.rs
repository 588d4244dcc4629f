//! `dropIndexes`: dropping the index that shows the default switches it off.

use bytes::Bytes;

use super::switch::{same_key, switch, with_default};
use super::{
    collection, count_indexes, database, is_ok, no_index, rewritten, virtual_index, with_numbers,
};
use crate::error::{Error, Result};
use crate::ttl::{DefaultTtl, is_ts_key};
use crate::upstream::settings::RuleSettings;
use crate::upstream::settings::collection::{CollectionInfo, NameKind, date_rule};
use crate::upstream::settings::physical::is_physical_name;
use crate::upstream::settings::record::{SettingRecord, document};
use crate::upstream::{Ask, DateRule, Lost};
use crate::value::{Doc, DocBuf, ValueRef};
use crate::wire::Request;

/// What the request drops.
enum DropSelection {
    All,
    Names(Vec<String>),
    Key(DocBuf),
    /// The cluster says what is wrong with it.
    Malformed,
}

/// What is dropped, compared with the collection.
struct DropPlan {
    /// The default is switched off.
    ends_default: bool,
    /// The rules on dates that will not hold any more.
    lost: Vec<DateRule>,
    /// The names for the cluster, if they are not those of the request.
    names: Option<Vec<String>>,
}

pub async fn drop_indexes(
    settings: &RuleSettings,
    ask: &mut impl Ask,
    request: &Request,
) -> Result<Bytes, Lost> {
    let (database, name) = (database(request)?, collection(request)?);
    let wanted = DropSelection::parse(request.body().get("index"));
    let rules = settings.rules(database, name).await?;
    let (known, _) = settings.0.known(&format!("{database}.{name}"));
    if rules.is_none() && known.is_none() || matches!(wanted, DropSelection::Malformed) {
        return ask.ask(request.clone()).await;
    }
    let mut change = settings.0.begin(database, name).await?;
    let plan = match wanted.plan(change.setting(), &change.found) {
        Ok(plan) => plan,
        Err(error) => {
            change.end().await?;
            return Err(error.into());
        }
    };
    let before = count_indexes(change.setting(), &change.found);
    if !plan.lost.is_empty() {
        change.hold_dates(change.found.dates()).await?;
    }
    let own = rewritten(request, |name, _, out| match (&plan.names, name) {
        (Some(names), "index") => {
            let mut list = out.array(name);
            for name in names {
                list.push_str(name);
            }
            list.end();
            true
        }
        _ => false,
    });
    let reply = ask.ask(own).await?;
    if !is_ok(&reply) || change.found.shape == NameKind::Missing {
        change.end().await?;
        return Ok(reply);
    }
    if plan.ends_default || !plan.lost.is_empty() {
        let new = match plan.ends_default {
            true => with_default(change.setting(), &change.found, DefaultTtl::Off, None),
            false => change.setting().clone(),
        };
        switch(settings, &mut change, new, plan.lost).await?;
    }
    change.close().await?;
    Ok(with_numbers(&reply, &[("nIndexesWas", before)]))
}

// === impl DropSelection ===

impl DropSelection {
    fn parse(index: ValueRef<'_>) -> Self {
        if let Some(key) = index.as_doc() {
            return Self::Key(DocBuf::from(key));
        }
        let names: Option<Vec<_>> = match (index.as_str(), index.as_array()) {
            (Some(name), _) => Some(vec![name.to_owned()]),
            (None, Some(list)) => list
                .iter()
                .map(|elem| elem.value.as_str().map(ToOwned::to_owned))
                .collect(),
            (None, None) => None,
        };
        match names {
            Some(names) if names.iter().any(|name| name == "*") => Self::All,
            Some(names) => Self::Names(names),
            None => Self::Malformed,
        }
    }

    fn plan(&self, setting: &SettingRecord, found: &CollectionInfo) -> Result<DropPlan> {
        let shown = virtual_index(setting, found);
        let default_name = setting.ts_index.as_ref().filter(|_| setting.is_on());
        let is_default = |name: &str| default_name.is_some_and(|index| index.name == name);
        let rules = |gone: &dyn Fn(&bson::Document) -> bool| {
            let gone = found.client_indexes().filter(|index| gone(index));
            gone.filter_map(date_rule).collect::<Vec<_>>()
        };
        Ok(match self {
            // The cluster would drop Sundown's own indexes, too, which is right only if the default ends.
            Self::All => DropPlan {
                ends_default: setting.is_on(),
                lost: rules(&|_| true),
                names: None,
            },
            Self::Names(names) => {
                if let Some(hidden) = names.iter().find(|name| is_physical_name(name)) {
                    return Err(no_index(hidden));
                }
                let twice = |name: &String| {
                    shown == Some(name) && names.iter().filter(|other| *other == name).count() > 1
                };
                if let Some(name) = names.iter().find(|name| twice(name)) {
                    return Err(no_index(name));
                }
                let left = names.iter().filter(|name| Some(name.as_str()) != shown);
                DropPlan {
                    ends_default: names.iter().any(|name| is_default(name)),
                    lost: rules(&|index| {
                        let name = index.get_str("name").unwrap_or_default();
                        names.iter().any(|gone| gone == name)
                    }),
                    names: shown.map(|_| left.cloned().collect()),
                }
            }
            Self::Key(key) => {
                let is_ts = is_ts_key(key.as_doc());
                let document = document(key).unwrap_or_default();
                let same = |index: &bson::Document| {
                    let key = index.get_document("key");
                    key.is_ok_and(|key| same_key(key, &document))
                };
                let named = found.client_indexes().filter(|index| same(index));
                let mut named = named.filter_map(|index| index.get_str("name").ok());
                if is_own_key(key.as_doc()) {
                    return Err(Error::new(
                        crate::error::Code::IndexNotFound,
                        format!("can't find index with key: {}", key.as_doc()),
                    ));
                }
                DropPlan {
                    ends_default: is_ts && shown.is_some() || named.any(is_default),
                    lost: rules(&same),
                    names: (is_ts && shown.is_some()).then(Vec::new),
                }
            }
            Self::Malformed => DropPlan {
                ends_default: false,
                lost: Vec::new(),
                names: None,
            },
        })
    }
}

/// Returns whether this is the key of one of Sundown's own indexes.
fn is_own_key(key: Doc<'_>) -> bool {
    let last = key.iter().last();
    last.is_some_and(|elem| elem.name() == crate::upstream::HIDDEN_FIELD)
}
