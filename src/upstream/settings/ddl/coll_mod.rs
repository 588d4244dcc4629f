//! `collMod`: changes the default, the indexing mode, an index on `_ts` or on dates, or a validator.

use bson::Document;
use bytes::Bytes;

use super::switch::{is_plain, same_key, switch, with_default};
use super::{
    ask_once_free, collection, database, invalid, is_ok, rewritten, validator, virtual_index,
};
use crate::args::{Arg, NUMBERS, fields};
use crate::error::{Code, Error, Result};
use crate::ttl::{
    DefaultTtl, Expiry, IndexingMode, TsIndex, check_mode, is_ts_key, parse_default,
    parse_indexing_policy,
};
use crate::upstream::settings::RuleSettings;
use crate::upstream::settings::collection::{CollectionInfo, NameKind, date_rule};
use crate::upstream::settings::physical::is_physical_name;
use crate::upstream::settings::record::{SettingRecord, document, is_named};
use crate::upstream::{Ask, DateRule, Lost};
use crate::value::{Doc, DocBuf};
use crate::wire::Request;

/// What only Sundown knows.
const OURS: &[&str] = &["defaultTtl", "indexingPolicy"];

/// What the request says about settings.
#[derive(Default)]
struct CollModArgs {
    default: Option<DefaultTtl>,
    mode: Option<IndexingMode>,
    /// `index`, with or without an expiry.
    index: Option<DocBuf>,
    validator: Option<Document>,
    /// The collection itself gets another `expireAfterSeconds`.
    expires: bool,
}

/// What happens to the index that the request names.
#[derive(Default)]
struct IndexPlan {
    /// It is the one that shows the default, and no index of the cluster.
    is_virtual: bool,
    /// The default, with its old and new value for the reply.
    default: Option<(DefaultTtl, Option<i32>)>,
    show_as: Option<TsIndex>,
    /// Rules on dates that will not hold any more.
    lost: Vec<DateRule>,
}

pub async fn coll_mod(
    settings: &RuleSettings,
    ask: &mut impl Ask,
    request: &Request,
) -> Result<Bytes, Lost> {
    let (database, name) = (database(request)?, collection(request)?);
    let wanted = CollModArgs::parse(request)?;
    let rules = settings.rules(database, name).await?;
    let widens = rules.stamped && wanted.validator.is_some();
    if !wanted.concerns_settings() && !widens {
        return ask.ask(request.clone()).await;
    }
    let mut change = settings.0.begin(database, name).await?;
    if change.found.shape == NameKind::Missing {
        // The cluster says so, or what else is wrong.
        let rest = rewritten(request, |name, _, _| OURS.contains(&name));
        let reply = ask.ask(rest).await?;
        change.end().await?;
        return match is_ok(&reply) {
            // It has come at this moment.
            true => Err(Lost::from(Error::new(
                Code::NamespaceNotFound,
                "ns does not exist",
            ))),
            false => Ok(reply),
        };
    }
    let plan = match wanted.plan(change.setting(), &change.found) {
        Ok(plan) => plan,
        Err(error) => {
            change.end().await?;
            return Err(error.into());
        }
    };
    let own = wanted.cluster_part(request, &plan, change.setting().stamped)?;
    let before = change.found.dates();
    if !plan.lost.is_empty() {
        change.hold_dates(before).await?;
    }
    let reply = ask_once_free(settings, ask, own).await?;
    if !is_ok(&reply) {
        change.close().await?;
        return Ok(reply);
    }
    let mut new = match plan.default.map(|(default, _)| default).or(wanted.default) {
        Some(default) => with_default(
            change.setting(),
            &change.found,
            default,
            plan.show_as.clone(),
        ),
        None => change.setting().clone(),
    };
    new.mode = wanted.mode.or(new.mode);
    if new != *change.setting() || !plan.lost.is_empty() {
        switch(settings, &mut change, new, plan.lost.clone()).await?;
    }
    change.close().await?;
    Ok(plan.reply(&reply))
}

// === impl CollModArgs ===

impl CollModArgs {
    fn parse(request: &Request) -> Result<Self> {
        let mut wanted = Self::default();
        for elem in request.body() {
            let arg = Arg::new("collMod", elem);
            match arg.name() {
                "defaultTtl" => wanted.default = Some(parse_default(arg.value())?),
                "indexingPolicy" => wanted.mode = parse_indexing_policy(arg)?,
                "index" => {
                    let index = arg.doc()?;
                    check_types(index.unwrap_or(Doc::EMPTY))?;
                    wanted.index = index.map(DocBuf::from);
                }
                "validator" => {
                    let given = arg.doc()?.map(DocBuf::from);
                    wanted.validator = given.as_ref().and_then(document);
                }
                "expireAfterSeconds" => wanted.expires = true,
                _ => {}
            }
        }
        Ok(wanted)
    }

    fn concerns_settings(&self) -> bool {
        self.default.is_some() || self.mode.is_some() || self.index.is_some() || self.expires
    }

    /// Compares the request with the collection. Everything that is refused is refused here.
    fn plan(&self, setting: &SettingRecord, found: &CollectionInfo) -> Result<IndexPlan> {
        let mut plan = match &self.index {
            Some(index) => IndexPlan::of(index.as_doc(), setting, found)?,
            None => IndexPlan::default(),
        };
        if let (Some(one), Some((other, _))) = (self.default, plan.default)
            && one != other
        {
            return Err(invalid(
                "'defaultTtl' and the index on _ts are one setting: they cannot be given two values",
            ));
        }
        if self.expires {
            // Its own rule is shown in its options. Whatever it becomes, what has ended by it must not come back.
            plan.lost.extend(found.own_rule());
        }
        let default = plan.default.map(|(default, _)| default);
        let default = default.or(self.default).unwrap_or(setting.default);
        let mode = self.mode.or(setting.mode);
        check_mode(mode, default, Code::BadValue)?;
        let others = found.client_indexes().count() > 1;
        if mode == Some(IndexingMode::None) && others {
            return Err(Error::bad_value(
                "Indexing mode value cannot be 'none' while there are indexes other than the one on _id",
            ));
        }
        if default != DefaultTtl::Off {
            super::switch::check_shape(found)?;
        }
        Ok(plan)
    }

    /// Returns the request without what only Sundown knows. If nothing is left, it changes nothing, but the cluster still
    /// checks the client's rights.
    fn cluster_part(&self, request: &Request, plan: &IndexPlan, stamped: bool) -> Result<Request> {
        let on = self
            .default
            .is_some_and(|default| default != DefaultTtl::Off)
            || plan.default.is_some();
        let wide = match &self.validator {
            Some(given) if stamped || on => Some(DocBuf::from(validator::widen(given)?)),
            _ => None,
        };
        Ok(rewritten(request, |name, value, out| match name {
            ours if OURS.contains(&ours) => true,
            "index" if plan.is_virtual => true,
            "index" if plan.default.is_some() => {
                // The expiry is the default and not the index's. The rest is for the cluster.
                let index = value.as_doc().unwrap_or(Doc::EMPTY);
                let rest = index
                    .iter()
                    .filter(|elem| elem.name() != "expireAfterSeconds");
                let rest: Vec<_> = rest.collect();
                let names = ["name", "keyPattern"];
                if rest.iter().any(|elem| !names.contains(&elem.name())) {
                    let mut part = out.doc(name);
                    for elem in rest {
                        part.put(elem.name(), elem.value);
                    }
                    part.end();
                }
                true
            }
            "validator" => wide.as_ref().is_some_and(|wide| {
                out.put_doc(name, wide.as_doc());
                true
            }),
            _ => false,
        }))
    }
}

// === impl IndexPlan ===

impl IndexPlan {
    fn of(index: Doc<'_>, setting: &SettingRecord, found: &CollectionInfo) -> Result<Self> {
        let name = index.get("name").as_str();
        let key = index.get("keyPattern").as_doc();
        if name.is_some() == key.is_some() {
            // The cluster says what is wrong with it.
            return Ok(Self::default());
        }
        if name.is_some_and(is_physical_name) {
            return Err(Error::new(
                Code::IndexNotFound,
                format!(
                    "cannot find index {} for ns {}",
                    name.unwrap_or_default(),
                    setting.namespace
                ),
            ));
        }
        let shown = virtual_index(setting, found);
        let is_virtual = shown.is_some_and(|shown| name == Some(shown)) || {
            shown.is_some() && key.is_some_and(is_ts_key)
        };
        let wanted_key = key.map(DocBuf::from).as_ref().and_then(document);
        let real = found.client_indexes().find(|index| {
            let there = index.get_document("key");
            let same = there
                .is_ok_and(|there| wanted_key.as_ref().is_some_and(|key| same_key(key, there)));
            same || name.is_some_and(|name| is_named(index, name))
        });
        let mut plan = Self {
            is_virtual,
            ..Self::default()
        };
        let on_ts = is_virtual
            || real.is_some_and(|index| {
                let key = index.get_document("key").map(DocBuf::from);
                key.is_ok_and(|key| is_ts_key(key.as_doc()))
            });
        let expiry = index.get("expireAfterSeconds");
        // The index that shows the default: the cluster may have it, as a plain one.
        let shows = |index: &Document| {
            let shown = setting.ts_index.as_ref().filter(|_| setting.is_on());
            shown.is_some_and(|shown| is_named(index, &shown.name))
        };
        if is_virtual || real.is_some_and(shows) {
            let more = |name: &str| !index.get(name).is_nullish();
            if more("hidden") {
                return Err(Error::bad_value(
                    "can't hide the index on _ts that sets the collection's default",
                ));
            }
            if more("unique") || more("prepareUnique") {
                return Err(not_plain());
            }
        }
        if expiry.is_nullish() {
            return Ok(plan);
        }
        match real {
            _ if on_ts => {
                if real.is_some_and(|index| !is_plain(index)) {
                    return Err(not_plain());
                }
                let default = Expiry::Change.parse_default(expiry)?;
                plan.default = Some((default, setting.default.seconds()));
                plan.show_as = real.and_then(|index| {
                    let key = DocBuf::from(index.get_document("key").ok()?);
                    Some(TsIndex::new(index.get_str("name").ok(), Some(key.as_doc())))
                });
            }
            Some(index) => {
                let new = expiry.as_num().map(crate::value::Num::to_i64_saturating);
                let old = date_rule(index);
                let longer = |old: &DateRule| new.is_some_and(|new| new > i64::from(old.seconds));
                plan.lost.extend(old.filter(longer));
            }
            None => {}
        }
        Ok(plan)
    }

    /// Returns the cluster's reply with the old and new value of the default.
    fn reply(&self, reply: &Bytes) -> Bytes {
        let Some((new, old)) = self.default else {
            return reply.clone();
        };
        let body = DocBuf::build(|out| {
            if let Some(old) = old {
                out.put_i64("expireAfterSeconds_old", old.into());
            }
            out.put_i64("expireAfterSeconds_new", new.seconds().unwrap_or(-1).into());
            out.put_body(Doc::new(reply).body());
        });
        Bytes::from(body.into_bytes())
    }
}

fn check_types(index: Doc<'_>) -> Result<()> {
    for arg in fields("collMod.index", index) {
        if arg.name() == "expireAfterSeconds" && !arg.is_null() && !arg.value().ty().is_number() {
            return Err(arg.wrong_type(NUMBERS));
        }
    }
    Ok(())
}

fn not_plain() -> Error {
    invalid(
        "The TTL index on _ts sets the collection's default: it cannot be unique, sparse or partial",
    )
}
