//! Changing the settings of a collection or of one of its indexes.

use std::sync::Arc;

use super::default_ttl;
use super::drain::{DrainThenChange, RuleChange};
use super::find_index::{has_index, names_by_key};
use super::unique::ConvertToUnique;
use super::{Begun, Done, IndexName, no_collection};
use crate::engine::describe::put_options;
use crate::error::{Code, Error, Result};
use crate::names::is_system;
use crate::storage::index::{ID_INDEX, IndexSpec};
use crate::storage::{
    Cap, Catalog, CollectionOptions, DateRuleChange, Dropped, IndexChange, LogOp, Namespace, Rules,
    View, Writer,
};
use crate::ttl::{DefaultTtl, Expiry, IndexingMode, TsIndex, check_mode, is_ts_key};
use crate::value::{DocBuf, DocBuilder, Millis, Value, ValueRef};

/// A change of a collection's settings. A setting that is `None` stays as it is.
#[derive(Debug, Clone)]
pub struct ModifyCollection {
    pub namespace: Namespace,
    pub default_ttl: Option<DefaultTtl>,
    pub indexing_mode: Option<IndexingMode>,
    /// The size of a capped collection.
    pub size: Option<u64>,
    pub max: Option<u64>,
    pub index: Option<ModifyIndex>,
    /// Whether change streams can show whole documents from before and after a change.
    pub images: Option<bool>,
    /// Only checks whether the index could be made unique.
    pub dry_run: bool,
}

/// A change of an index's settings.
#[derive(Debug, Clone)]
pub struct ModifyIndex {
    pub index: IndexName,
    /// As the client gave it. Its valid range depends on the field of the index.
    pub expire_after: Option<Value>,
    pub hidden: Option<bool>,
    /// `Some(false)` is refused: only `force_non_unique` makes an index non-unique.
    pub unique: Option<bool>,
    pub prepare_unique: Option<bool>,
    pub force_non_unique: Option<bool>,
}

/// The changed settings of an index, with their old and new values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModifiedIndex {
    pub expire_after: Option<(Option<i32>, i32)>,
    pub hidden: Option<(bool, bool)>,
    /// Whether the index is unique now, if that has changed.
    pub unique: Option<bool>,
    pub prepare_unique: Option<(bool, bool)>,
}

/// The changes to make, after comparing the request with the collection.
#[derive(Default)]
pub(super) struct Resolved {
    default: Option<DefaultTtl>,
    /// A plain index on `_ts` that will show the default.
    show_as: Option<TsIndex>,
    mode: Option<IndexingMode>,
    cap: Option<Cap>,
    images: Option<bool>,
    index: String,
    expire: Option<i32>,
    change: IndexChange,
    modified: ModifiedIndex,
}

// === impl ModifyIndex ===

impl ModifyIndex {
    /// Returns whether the index is to become unique and nothing else.
    pub fn is_only_unique(&self) -> bool {
        self.unique == Some(true)
            && self.expire_after.is_none()
            && self.hidden.is_none()
            && self.prepare_unique.is_none()
    }
}

// === impl ModifyCollection ===

impl ModifyCollection {
    /// Returns a change that does nothing yet.
    pub fn new(namespace: Namespace) -> Self {
        Self {
            namespace,
            default_ttl: None,
            indexing_mode: None,
            size: None,
            max: None,
            index: None,
            images: None,
            dry_run: false,
        }
    }

    pub(super) fn begin(self, catalog: &Arc<Catalog>, now: Millis) -> Result<Begun> {
        let name = &self.namespace;
        let Some(collection) = catalog.get(name.database(), name.collection())? else {
            return Err(no_collection());
        };
        let resolved = collection.read_present(now, |view| self.resolve(view))?;
        if resolved.change.unique == Some(true) {
            if resolved.is_rule() {
                return Err(Error::not_implemented(
                    "collMod that changes an expiry and makes an index unique at once",
                ));
            }
            let converting = ConvertToUnique::new(collection, self, resolved.index);
            return Ok(Begun::Steps(Box::new(converting)));
        }
        if self.dry_run {
            return Ok(Begun::Done(Done::Modified(ModifiedIndex::default())));
        }
        if resolved.is_rule() {
            let draining =
                DrainThenChange::new(collection, resolved.date_rules(), RuleChange::Modify(self));
            return Ok(Begun::Steps(Box::new(draining)));
        }
        // Resolved again in the lock hold that makes the change, because another client may have changed the collection
        // meanwhile.
        let made = collection.write(now, |writer| {
            Ok(self.resolve(&writer.view())?.make_rest(writer))
        });
        let modified: Result<_> = made.map_err(|Dropped| no_collection())?;
        Ok(Begun::Done(Done::Modified(modified?)))
    }

    /// Compares the request with the collection and decides what to change. It changes nothing yet.
    pub(super) fn resolve(&self, view: &View<'_>) -> Result<Resolved> {
        let mut resolved = Resolved {
            default: self.default_ttl,
            mode: self.indexing_mode,
            cap: self.cap(view)?,
            images: self.images,
            ..Resolved::default()
        };
        if let Some(index) = &self.index {
            index.resolve(view, &mut resolved)?;
        }
        let default = resolved.default.unwrap_or(view.default_ttl());
        let mode = resolved.mode.or(view.options().indexing_mode);
        check_mode(mode, default, Code::BadValue)?;
        if mode == Some(IndexingMode::None) && view.indexes().next().is_some() {
            return Err(Error::bad_value(
                "Indexing mode value cannot be 'none' while there are indexes other than the one on _id",
            ));
        }
        Ok(resolved)
    }

    /// Returns the new limits of a capped collection. The next insert evicts the documents that no longer fit.
    fn cap(&self, view: &View<'_>) -> Result<Option<Cap>> {
        if self.size.is_none() && self.max.is_none() {
            return Ok(None);
        }
        let Some(cap) = view.options().cap else {
            return Err(invalid("Collection must be capped."));
        };
        Ok(Some(Cap {
            bytes: self.size.unwrap_or(cap.bytes),
            documents: self.max.or(cap.documents),
        }))
    }
}

// === impl ModifyIndex ===

impl ModifyIndex {
    fn resolve(&self, view: &View<'_>, resolved: &mut Resolved) -> Result<()> {
        let name = self.find(view).map_err(|not_found| {
            // Seconds that no index can have are told first. The index on `_ts` takes others.
            let on_ts = matches!(&self.index, IndexName::Key(key) if is_ts_key(key.as_doc()));
            let seconds = self.expire_after.as_ref().filter(|_| !on_ts);
            let wrong = seconds.and_then(|value| Expiry::Change.seconds(value.as_ref()).err());
            wrong.unwrap_or(not_found)
        })?;
        let refused = |why: &str| Err(Error::bad_value(why));
        match (self.unique, self.force_non_unique) {
            (Some(false), _) => return refused("Cannot make index non-unique"),
            (_, Some(false)) => return refused("'forceNonUnique: false' is not supported"),
            _ => {}
        }
        let is_default = view.ts_index().is_some_and(|ts| ts.name == name);
        let index = view.index(&name);
        let on_ts = is_default || index.is_some_and(|index| is_ts_key(index.spec.key.as_doc()));
        if let Some(value) = &self.expire_after {
            if on_ts {
                resolve_default(view, &name, value.as_ref(), resolved)?;
            } else if let Some(index) = index {
                let seconds = Expiry::Change.parse(value.as_ref(), index.spec.key.as_doc())?;
                resolved.modified.expire_after = Some((index.spec.expire_after, seconds));
                resolved.expire = Some(seconds);
            } else {
                return Err(invalid("the _id field does not support TTL indexes"));
            }
        }
        if let Some(hidden) = self.hidden {
            let Some(index) = index else {
                return Err(Error::bad_value(match is_default {
                    true => "can't hide the index on _ts that sets the collection's default",
                    false => "can't hide _id index",
                }));
            };
            if is_system(view.namespace().collection()) {
                return Err(super::hides_system_index());
            }
            // Hiding a hidden index changes nothing and reports nothing.
            if index.spec.hidden != hidden {
                resolved.modified.hidden = Some((index.spec.hidden, hidden));
            }
            resolved.change.hidden = Some(hidden);
        }
        if is_default && (self.unique == Some(true) || self.prepare_unique == Some(true)) {
            return Err(not_plain());
        }
        match index {
            Some(index) => self.resolve_unique(&index.spec, resolved)?,
            // MongoDB tells this of the index on `_id`, too, which stays unique.
            None if !is_default && self.force_non_unique.is_some() => {
                resolved.modified.unique = Some(false);
            }
            None => {}
        }
        resolved.index = name;
        Ok(())
    }

    /// Resolves the two steps in which an index becomes unique: first it refuses new duplicates, then it must have none.
    fn resolve_unique(&self, spec: &IndexSpec, resolved: &mut Resolved) -> Result<()> {
        if self.force_non_unique.is_some() && spec.unique {
            resolved.modified.unique = Some(false);
            resolved.change.unique = Some(false);
        }
        if self.unique.is_some() && !spec.unique {
            if !spec.prepare_unique {
                return Err(invalid(
                    "Cannot make index unique with 'prepareUnique=false'. Run collMod to set it first.",
                ));
            }
            resolved.modified.unique = Some(true);
            resolved.change.unique = Some(true);
        }
        if let Some(prepare) = self.prepare_unique
            && !spec.unique
            && prepare != spec.prepare_unique
        {
            if self.expire_after.is_some() || self.hidden.is_some() || self.unique.is_some() {
                return Err(invalid(
                    "prepareUnique cannot be combined with any other modification.",
                ));
            }
            resolved.modified.prepare_unique = Some((!prepare, prepare));
            resolved.change.prepare_unique = Some(prepare);
        }
        Ok(())
    }

    fn find(&self, view: &View<'_>) -> Result<String> {
        let not_found = |what: &str| {
            Err(Error::new(
                Code::IndexNotFound,
                format!("cannot find index {what} for ns {}", view.namespace()),
            ))
        };
        let key = match &self.index {
            IndexName::Name(name) if name == ID_INDEX || has_index(view, name) => {
                return Ok(name.clone());
            }
            IndexName::Name(name) => return not_found(name),
            IndexName::Key(key) => key.as_doc(),
        };
        match names_by_key(view, key).as_slice() {
            [] => not_found(&key.to_string()),
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

/// Resolves a change of the index on `_ts`, which is DefaultTTL in another form.
fn resolve_default(
    view: &View<'_>,
    name: &str,
    value: ValueRef<'_>,
    resolved: &mut Resolved,
) -> Result<()> {
    let default = Expiry::Change.parse_default(value)?;
    let new = default.seconds().unwrap_or(-1);
    resolved.modified.expire_after = Some((view.default_ttl().seconds(), new));
    if resolved.default.is_some_and(|other| other != default) {
        return Err(invalid(
            "'defaultTtl' and the index on _ts are one setting: they cannot be given two values",
        ));
    }
    resolved.default = Some(default);
    let Some(index) = view.index(name) else {
        return Ok(());
    };
    if !default_ttl::is_plain(&index.spec) {
        return Err(not_plain());
    }
    let key = index.spec.key.as_doc();
    resolved.show_as = Some(TsIndex::new(Some(name), Some(key)));
    Ok(())
}

fn invalid(why: impl Into<String>) -> Error {
    Error::new(Code::InvalidOptions, why)
}

fn not_plain() -> Error {
    invalid(
        "The TTL index on _ts sets the collection's default: it cannot be unique, sparse or partial",
    )
}

// === impl Resolved ===

impl Resolved {
    /// Returns whether this changes an expiry rule. Documents that have expired under the old rule must not come back under
    /// the new one.
    fn is_rule(&self) -> bool {
        self.default.is_some() || self.expire.is_some()
    }

    /// Returns how the rules on dates change.
    fn date_rules(&self) -> Option<DateRuleChange> {
        self.expire.map(|seconds| DateRuleChange::Expire {
            index: self.index.clone(),
            seconds,
        })
    }

    /// Changes the expiry rules and all other settings.
    pub(super) fn make(self, rules: &mut Rules<'_>) -> ModifiedIndex {
        if let Some(default) = self.default {
            default_ttl::set(rules, default, self.show_as.clone());
        }
        if let Some(seconds) = self.expire {
            rules.set_expiry(&self.index, seconds);
        }
        self.make_rest(rules)
    }

    /// Returns what the log of changes tells about the change: the new settings, and those from before.
    fn told(&self, view: &View<'_>) -> (DocBuf, DocBuf) {
        let ModifiedIndex {
            expire_after,
            hidden,
            unique,
            prepare_unique,
        } = self.modified;
        let put_flag = |out: &mut DocBuilder<'_>, name: &str, value: Option<bool>| {
            if let Some(value) = value {
                out.put_bool(name, value);
            }
        };
        let put_seconds = |out: &mut DocBuilder<'_>, seconds: Option<i32>| {
            if let Some(seconds) = seconds {
                out.put_i32("expireAfterSeconds", seconds);
            }
        };
        let change = DocBuf::build(|change| {
            if !self.index.is_empty() {
                let mut index = change.doc("index");
                index.put_str("name", &self.index);
                put_seconds(&mut index, expire_after.map(|(_, new)| new));
                put_flag(&mut index, "hidden", hidden.map(|(_, new)| new));
                put_flag(&mut index, "unique", unique.filter(|unique| *unique));
                put_flag(
                    &mut index,
                    "prepareUnique",
                    prepare_unique.map(|(_, new)| new),
                );
                let forced = unique.map(|unique| !unique).filter(|forced| *forced);
                put_flag(&mut index, "forceNonUnique", forced);
                index.end();
            }
            if let Some(keep) = self.images {
                let mut images = change.doc("changeStreamPreAndPostImages");
                images.put_bool("enabled", keep);
                images.end();
            }
            let options = CollectionOptions {
                cap: self.cap,
                indexing_mode: self.mode,
                ..CollectionOptions::default()
            };
            put_options(&options, self.default.unwrap_or(DefaultTtl::Off), change);
        });
        let before = DocBuf::build(|before| {
            let mut options = before.doc("collectionOptions");
            if let Some(uuid) = view.uuid() {
                options.put("uuid", Value::binary(4, uuid.as_bytes()).as_ref());
            }
            put_options(view.options(), view.default_ttl(), &mut options);
            options.end();
            if !self.index.is_empty() {
                let mut index = before.doc("indexOptions");
                put_seconds(&mut index, expire_after.and_then(|(old, _)| old));
                put_flag(&mut index, "hidden", hidden.map(|(old, _)| old));
                put_flag(&mut index, "unique", unique.map(|unique| !unique));
                put_flag(
                    &mut index,
                    "prepareUnique",
                    prepare_unique.map(|(old, _)| old),
                );
                index.end();
            }
        });
        (change, before)
    }

    /// Changes all settings except the expiry rules.
    pub(super) fn make_rest(self, writer: &mut Writer<'_>) -> ModifiedIndex {
        let (change, before) = self.told(&writer.view());
        writer.record(|| LogOp::Modify { change, before });
        if let Some(mode) = self.mode {
            writer.set_indexing_mode(mode);
        }
        if let Some(keep) = self.images {
            writer.keep_images(keep);
        }
        if let Some(cap) = self.cap {
            writer.set_cap(cap);
        }
        if self.change != IndexChange::default() {
            writer.alter_index(&self.index, self.change);
        }
        self.modified
    }
}
