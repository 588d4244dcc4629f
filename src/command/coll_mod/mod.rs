//! `collMod`: changes how a collection or one of its indexes behaves.

mod unique;

use std::sync::Arc;

use super::args::{Arg, NUMBERS, fields};
use super::create::{VALIDATION_ACTIONS, VALIDATION_LEVELS, wants_images};
use super::drained::{Done, Rules, rules_after};
use super::{
    Access, Call, Command, Flags, Needs, Outcome, capped, collection_uuid, default_ttl, drained,
};
use crate::auth::Action;
use crate::error::{Code, Error, Result};
use crate::storage::index::IndexSpec;
use crate::storage::ttl::DefaultTtl;
use crate::storage::{Cap, IndexingMode, View, Writer};
use crate::value::{Doc, DocBuf, DocBuilder, Type, Value, ValueRef, equal};

pub(super) const COMMAND: Command = Command::ready(
    "collMod",
    Access::Admin,
    "Changes how a collection or an index behaves.",
    run,
)
.with(Flags::STABLE.and(Flags::WRITE_CONCERN))
.needs(Needs::Collection(Action::CollMod));

#[derive(Default)]
struct CollMod {
    index: Option<IndexMod>,
    default_ttl: Option<DefaultTtl>,
    mode: Option<IndexingMode>,
    size: Option<u64>,
    max: Option<Option<u64>>,
    dry_run: bool,
    refused: Option<&'static str>,
}

/// `index: {name | keyPattern, expireAfterSeconds, hidden, unique, prepareUnique}`
#[derive(Default)]
struct IndexMod {
    name: Option<String>,
    key: Option<DocBuf>,
    expire: Option<Value>,
    hidden: Option<bool>,
    unique: bool,
    prepare_unique: Option<bool>,
}

/// What is really changed, once the collection was looked at.
#[derive(Default)]
struct Plan {
    default: Option<DefaultTtl>,
    /// A plain index on `_ts` that shows the default from now on.
    show_as: Option<crate::storage::TsIndex>,
    mode: Option<IndexingMode>,
    cap: Option<Cap>,
    index: Option<String>,
    expire: Option<i32>,
    hidden: Option<bool>,
    /// The index becomes unique, if its keys are.
    unique: bool,
    prepare_unique: Option<bool>,
    /// Fields of the reply.
    reply: DocBuf,
    drain: bool,
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let name = call.collection()?;
    let changes = CollMod::parse(call)?;
    let Some(collection) = call.context.catalog.get(call.database(), name) else {
        return Err(Error::new(Code::NamespaceNotFound, "ns does not exist"));
    };
    let makes_unique = changes.index.as_ref().is_some_and(|index| index.unique);
    if changes.dry_run && !makes_unique {
        return Err(Error::new(
            Code::InvalidOptions,
            "dryRun is only valid when index option 'unique' is true",
        ));
    }
    if let Some(option) = changes.refused {
        return Err(Error::not_implemented(format_args!(
            "collMod option '{option}'"
        )));
    }
    let plan = collection.read(call.read_point(), |view| changes.plan(view))?;
    if plan.unique {
        if plan.drain {
            return Err(Error::not_implemented(
                "collMod that changes an expiry and makes an index unique at once",
            ));
        }
        let name = plan.index.unwrap_or_default();
        return unique::begin(call, reply, collection, changes, name);
    }
    if changes.dry_run {
        return Ok(Outcome::Reply);
    }
    let drain = plan.drain;
    let rules = plan.date_rules();
    // Decided again in the lock hold that changes it: meanwhile somebody else may have changed what was looked at.
    let change = move |writer: &mut Writer<'_>| changes.plan(&writer.view())?.make(writer);
    if drain {
        let change = move |writer: &mut Writer<'_>| {
            change(writer).map(|reply| Done {
                reply,
                ..Done::default()
            })
        };
        let collection = Arc::clone(&collection);
        drained::drain_then(call, reply, collection, rules, Box::new(change))
    } else {
        let done = collection
            .write(call.now, change)
            .map_err(|_| drained::dropped())?;
        reply.put_body(done?.as_doc().body());
        Ok(Outcome::Reply)
    }
}

/// The names of the indexes with that key, the one that shows the default included.
pub(super) fn names_by_key(view: &View<'_>, key: Doc<'_>) -> Vec<String> {
    let same = |other: Doc<'_>| {
        other.count() == key.count()
            && other
                .iter()
                .zip(key)
                .all(|(a, b)| a.name_bytes() == b.name_bytes() && equal(a.value, b.value))
    };
    let mut names: Vec<String> = view
        .indexes()
        .filter(|index| same(index.spec.key.as_doc()))
        .map(|index| index.spec.name.clone())
        .collect();
    if let Some(ts) = view.ts_index()
        && (same(ts.key.as_doc()) || default_ttl::is_ts_key(key))
        && !names.contains(&ts.name)
    {
        names.push(ts.name.clone());
    }
    names
}

// === impl CollMod ===

impl CollMod {
    fn parse(call: &Call<'_>) -> Result<Self> {
        let mut changes = Self::default();
        for arg in call.args().skip(1) {
            match arg.name() {
                "collectionUUID" => collection_uuid::check(call, arg)?,
                _ => changes.read(arg)?,
            }
        }
        Ok(changes)
    }

    fn read(&mut self, arg: Arg<'_>) -> Result<()> {
        match arg.name() {
            "defaultTtl" => self.default_ttl = Some(default_ttl::parse_option(arg)?),
            "indexingPolicy" => self.mode = default_ttl::parse_policy(arg)?,
            "index" => self.index = arg.doc()?.map(IndexMod::parse).transpose()?,
            "validator" => {
                if arg.doc()?.is_some_and(|validator| !validator.is_empty()) {
                    self.refused = Some("validator");
                }
            }
            "validationLevel" => drop(arg.one_of(VALIDATION_LEVELS)?),
            "validationAction" => drop(arg.one_of(VALIDATION_ACTIONS)?),
            "viewOn" => {
                if arg.str()?.is_some() {
                    self.refused = Some("viewOn");
                }
            }
            "pipeline" => {
                if arg.docs()?.is_some() {
                    self.refused = Some("pipeline");
                }
            }
            "changeStreamPreAndPostImages" => {
                if let Some(images) = arg.doc()?
                    && wants_images("collMod", images)?
                {
                    self.refused = Some("changeStreamPreAndPostImages");
                }
            }
            "timeseries" => {
                if arg.doc()?.is_some() {
                    self.refused = Some("timeseries");
                }
            }
            "cappedSize" => self.size = capped::bytes(&arg)?,
            "cappedMax" => self.max = capped::documents(&arg)?,
            "expireAfterSeconds" => {
                if !matches!(arg.value().ty(), Type::String) && arg.int()?.is_none() {
                    return Ok(());
                }
                return Err(Error::new(
                    Code::InvalidOptions,
                    "option only supported on collections clustered by _id: expireAfterSeconds",
                ));
            }
            "dryRun" => self.dry_run = arg.bool()?.unwrap_or(false),
            "recordPreImages" | "noPadding" | "usePowerOf2Sizes" => {
                arg.bool()?;
            }
            _ => return Err(arg.unknown()),
        }
        Ok(())
    }

    /// What a capped collection may hold from now on. What is too much makes way with the next insert.
    fn cap(&self, view: &View<'_>) -> Result<Option<Cap>> {
        if self.size.is_none() && self.max.is_none() {
            return Ok(None);
        }
        let Some(cap) = view.options().cap else {
            return Err(Error::new(
                Code::InvalidOptions,
                "option not supported on a collection that is not capped: cappedSize, cappedMax",
            ));
        };
        Ok(Some(Cap {
            bytes: self.size.unwrap_or(cap.bytes),
            documents: self.max.unwrap_or(cap.documents),
        }))
    }

    /// Looks at what is there and decides; nothing is changed yet.
    fn plan(&self, view: &View<'_>) -> Result<Plan> {
        let mut plan = Plan {
            default: self.default_ttl,
            mode: self.mode,
            cap: self.cap(view)?,
            ..Plan::default()
        };
        if let Some(index) = &self.index {
            index.plan(view, &mut plan)?;
        }
        let before = view.default_ttl();
        let default = plan.default.unwrap_or(before);
        let mode = plan.mode.or(view.options().indexing_mode);
        default_ttl::check_mode(mode, default, Code::BadValue)?;
        if mode == Some(IndexingMode::None) && view.indexes().next().is_some() {
            return Err(Error::bad_value(
                "Indexing mode value cannot be 'none' while there are indexes other than the one on _id",
            ));
        }
        // Whatever the rule was: what has ended under it must not come back under the next one.
        plan.drain |= plan.default.is_some();
        Ok(plan)
    }
}

// === impl IndexMod ===

impl IndexMod {
    fn parse(spec: Doc<'_>) -> Result<Self> {
        let mut index = Self::default();
        for arg in fields("collMod.index", spec) {
            match arg.name() {
                "name" => index.name = arg.str()?.map(ToOwned::to_owned),
                "keyPattern" => {
                    index.key = arg.doc()?.map(DocBuf::from);
                }
                "expireAfterSeconds" => {
                    if !arg.is_null() {
                        if !arg.value().ty().is_number() {
                            return Err(arg.wrong_type(NUMBERS));
                        }
                        index.expire = Some(arg.value().to_value());
                    }
                }
                "hidden" => index.hidden = arg.bool()?,
                "unique" => match arg.bool()? {
                    Some(false) => {
                        return Err(Error::bad_value(
                            "collMod does not support converting a unique index to a non-unique index",
                        ));
                    }
                    unique => index.unique = unique.unwrap_or(false),
                },
                "prepareUnique" => index.prepare_unique = arg.bool()?,
                _ => return Err(arg.unknown()),
            }
        }
        let invalid = |why: &str| Err(Error::new(Code::InvalidOptions, why));
        match (&index.name, &index.key) {
            (Some(_), Some(_)) => invalid("Cannot specify both key pattern and name."),
            (None, None) => invalid("Must specify either index name or key pattern."),
            _ if index.expire.is_none()
                && index.hidden.is_none()
                && !index.unique
                && index.prepare_unique.is_none() =>
            {
                invalid("no expireAfterSeconds, hidden, unique, or prepareUnique field")
            }
            _ => Ok(index),
        }
    }

    fn plan(&self, view: &View<'_>, plan: &mut Plan) -> Result<()> {
        let name = self.find(view)?;
        let is_default = view.ts_index().is_some_and(|ts| ts.name == name);
        let index = view.index(&name);
        let on_ts = is_default
            || index.is_some_and(|index| default_ttl::is_ts_key(index.spec.key.as_doc()));
        let mut reply = DocBuf::new();
        if let Some(value) = &self.expire {
            if on_ts {
                self.plan_default(view, &name, value.as_ref(), plan, &mut reply)?;
            } else if let Some(index) = index {
                let seconds = seconds(value.as_ref(), &name, index.spec.key.as_doc())?;
                let old = index.spec.expire_after;
                if let Some(old) = old {
                    reply.put("expireAfterSeconds_old", Value::int64(old.into()).as_ref());
                }
                reply.put(
                    "expireAfterSeconds_new",
                    Value::int64(seconds.into()).as_ref(),
                );
                plan.expire = Some(seconds);
                plan.drain = true;
            } else {
                return Err(Error::new(
                    Code::InvalidOptions,
                    "the _id field does not support TTL indexes",
                ));
            }
        }
        if let Some(hidden) = self.hidden {
            let Some(index) = index else {
                return Err(Error::bad_value(match is_default {
                    true => "can't hide the index on _ts that sets the collection's default",
                    false => "can't hide _id index",
                }));
            };
            if view.namespace().collection().starts_with("system.") {
                return Err(super::index_spec::hides_systems_own());
            }
            // Hiding what is hidden changes nothing and says nothing.
            if index.spec.hidden != hidden {
                reply.put("hidden_old", Value::boolean(index.spec.hidden).as_ref());
                reply.put("hidden_new", Value::boolean(hidden).as_ref());
            }
            plan.hidden = Some(hidden);
        }
        if is_default && (self.unique || self.prepare_unique == Some(true)) {
            return Err(not_plain());
        }
        if let Some(index) = index {
            self.plan_unique(&index.spec, plan, &mut reply)?;
        }
        plan.index = Some(name);
        plan.reply = reply;
        Ok(())
    }

    /// An index becomes unique in two steps: first new duplicates are refused, then there must be none.
    fn plan_unique(&self, spec: &IndexSpec, plan: &mut Plan, reply: &mut DocBuf) -> Result<()> {
        let invalid = |why: &str| Err(Error::new(Code::InvalidOptions, why));
        if self.unique && !spec.unique {
            if !spec.prepare_unique {
                return invalid(
                    "Cannot make index unique with 'prepareUnique=false'. Run collMod to set it first.",
                );
            }
            reply.put("unique_new", Value::boolean(true).as_ref());
            plan.unique = true;
        }
        if let Some(prepare) = self.prepare_unique
            && !spec.unique
            && prepare != spec.prepare_unique
        {
            if self.expire.is_some() || self.hidden.is_some() || self.unique {
                return invalid(
                    "cannot combine 'prepareUnique' with other modifications of an index",
                );
            }
            reply.put("prepareUnique_old", Value::boolean(!prepare).as_ref());
            reply.put("prepareUnique_new", Value::boolean(prepare).as_ref());
            plan.prepare_unique = Some(prepare);
        }
        Ok(())
    }

    /// The index on `_ts` is the default, seen through another door.
    fn plan_default(
        &self,
        view: &View<'_>,
        name: &str,
        value: ValueRef<'_>,
        plan: &mut Plan,
        reply: &mut DocBuf,
    ) -> Result<()> {
        let default = default_ttl::parse_seconds(value).ok_or_else(|| {
            Error::new(
                Code::InvalidOptions,
                default_ttl::out_of_range("expireAfterSeconds", value),
            )
        })?;
        if let Some(old) = view.default_ttl().seconds() {
            reply.put("expireAfterSeconds_old", Value::int64(old.into()).as_ref());
        }
        let new = default.seconds().unwrap_or(-1);
        reply.put("expireAfterSeconds_new", Value::int64(new.into()).as_ref());
        if plan.default.is_some_and(|other| other != default) {
            return Err(Error::new(
                Code::InvalidOptions,
                "'defaultTtl' and the index on _ts are one setting: they cannot be given two values",
            ));
        }
        plan.default = Some(default);
        let Some(index) = view.index(name) else {
            return Ok(());
        };
        if !default_ttl::is_plain(&index.spec) {
            return Err(not_plain());
        }
        let key = index.spec.key.as_doc();
        plan.show_as = Some(default_ttl::ts_index(Some(name), Some(key)));
        Ok(())
    }

    fn find(&self, view: &View<'_>) -> Result<String> {
        let not_found = |what: String| {
            Err(Error::new(
                Code::IndexNotFound,
                format!("cannot find index {what} for ns {}", view.namespace()),
            ))
        };
        if let Some(name) = &self.name {
            let known = name == "_id_"
                || view.index(name).is_some()
                || view.ts_index().is_some_and(|ts| ts.name == *name);
            return if known {
                Ok(name.clone())
            } else {
                not_found(name.clone())
            };
        }
        let key = self.key.as_ref().map_or(Doc::EMPTY, DocBuf::as_doc);
        if key.count() == 1 && key.get("_id").as_num().is_some_and(|n| n.to_f64() == 1.0) {
            return Ok("_id_".to_owned());
        }
        match names_by_key(view, key).as_slice() {
            [] => not_found(key.to_string()),
            [name] => Ok(name.clone()),
            names => Err(Error::new(
                Code::AmbiguousIndexKeyPattern,
                format!(
                    "index keyPattern {key} matches {} indexes, must use index name. Conflicting indexes: {}",
                    names.len(),
                    names.join(", ")
                ),
            )),
        }
    }
}

fn not_plain() -> Error {
    Error::new(
        Code::InvalidOptions,
        "The TTL index on _ts sets the collection's default: it cannot be unique, sparse or partial",
    )
}

fn seconds(value: ValueRef<'_>, name: &str, key: Doc<'_>) -> Result<i32> {
    if name == "_id_" || (key.count() == 1 && !key.get("_id").is_missing()) {
        return Err(Error::new(
            Code::InvalidOptions,
            "the _id field does not support TTL indexes",
        ));
    }
    if key.count() != 1 {
        return Err(Error::new(
            Code::InvalidOptions,
            "TTL indexes are single-field indexes, compound indexes do not support TTL",
        ));
    }
    let number = value.as_num();
    number
        // What is too large means the largest here, unlike in createIndexes.
        .and_then(|n| i32::try_from(n.to_i64_saturating().min(i32::MAX.into())).ok())
        .filter(|&n| n >= 0)
        .ok_or_else(|| {
            Error::new(
                Code::InvalidOptions,
                format!(
                    "TTL index 'expireAfterSeconds' option must be within an acceptable range, try a different number than {value}"
                ),
            )
        })
}

// === impl Plan ===

impl Plan {
    /// The rules that go by dates as they are to be, if one of them changes.
    fn date_rules(&self) -> Option<Rules> {
        let (name, seconds) = (self.index.clone()?, self.expire?);
        Some(Box::new(move |indexes| {
            rules_after(indexes, |index| {
                let mut spec = index.ready.then(|| index.spec.clone())?;
                if spec.name == name {
                    spec.expire_after = Some(seconds);
                }
                Some(spec)
            })
        }))
    }

    fn make(self, writer: &mut Writer<'_>) -> Result<DocBuf> {
        if let Some(mode) = self.mode {
            writer.set_indexing_mode(mode);
        }
        if let Some(cap) = self.cap {
            writer.set_cap(cap);
        }
        if let Some(default) = self.default {
            default_ttl::set(writer, default, self.show_as);
        }
        if let Some(name) = &self.index
            && (self.expire.is_some()
                || self.hidden.is_some()
                || self.unique
                || self.prepare_unique.is_some())
        {
            writer.alter_index(name, |spec| {
                if let Some(seconds) = self.expire {
                    spec.expire_after = Some(seconds);
                }
                if let Some(hidden) = self.hidden {
                    spec.hidden = hidden;
                }
                if let Some(prepare) = self.prepare_unique {
                    spec.prepare_unique = prepare;
                }
                if self.unique {
                    (spec.unique, spec.prepare_unique) = (true, false);
                }
            });
        }
        Ok(self.reply)
    }
}
