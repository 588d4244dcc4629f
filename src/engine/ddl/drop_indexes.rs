//! Dropping indexes. Dropping the index that shows the default switches the default off.

use std::sync::Arc;

use super::drain::{DrainThenChange, RuleChange};
use super::find_index::{has_index, names_by_key};
use super::{Begun, IndexName, default_ttl};
use crate::engine::describe::{count_indexes, shown_default};
use crate::error::{Code, Error, Result};
use crate::storage::index::{ID_INDEX, Index};
use crate::storage::{
    Catalog, Collection, DateRuleChange, IndexSelection, LogOp, Namespace, Rules, View,
};
use crate::ttl::DefaultTtl;
use crate::value::{Doc, DocBuf, Millis};

/// A change that drops indexes.
#[derive(Debug, Clone)]
pub struct DropIndexes {
    pub namespace: Namespace,
    /// `None` means all indexes except the one on `_id`.
    pub indexes: Option<Vec<IndexName>>,
}

/// The result of dropping indexes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedIndexes {
    /// The number of indexes before the change.
    pub before: i32,
    pub all: bool,
}

// === impl DropIndexes ===

impl DropIndexes {
    /// Complains if there is no such collection. Its indexes are looked at when no transaction uses it.
    pub(super) fn look(&self, catalog: &Catalog) -> Result<()> {
        self.find_collection(catalog).map(drop)
    }

    fn find_collection(&self, catalog: &Catalog) -> Result<Arc<Collection>> {
        let name = &self.namespace;
        let found = catalog.get(name.database(), name.collection())?;
        found.ok_or_else(|| Error::new(Code::NamespaceNotFound, format!("ns not found {name}")))
    }

    pub(super) fn begin(self, catalog: &Catalog, now: Millis) -> Result<Begun> {
        let collection = self.find_collection(catalog)?;
        let which = collection.read_present(now, |view| self.find(view))?;
        // Documents may expire by one of these indexes. Those that have expired must not come back when it is dropped.
        let dates = DateRuleChange::Drop(which.clone());
        let draining =
            DrainThenChange::new(collection, Some(dates), RuleChange::DropIndexes(which));
        Ok(Begun::Steps(Box::new(draining)))
    }

    fn find(&self, view: &View<'_>) -> Result<IndexSelection> {
        let Some(indexes) = &self.indexes else {
            return Ok(IndexSelection::All);
        };
        let mut names: Vec<String> = Vec::with_capacity(indexes.len());
        for index in indexes {
            let name = match index {
                IndexName::Name(name) if names.contains(name) => return Err(not_found(name)),
                IndexName::Name(name) => by_name(view, name)?,
                IndexName::Key(key) => by_key(view, key.as_doc())?,
            };
            names.push(name);
        }
        Ok(IndexSelection::Named(names))
    }
}

fn by_name(view: &View<'_>, name: &str) -> Result<String> {
    if name == ID_INDEX {
        return Err(is_id());
    }
    match has_index(view, name) {
        true => Ok(name.to_owned()),
        false => Err(not_found(name)),
    }
}

fn by_key(view: &View<'_>, key: Doc<'_>) -> Result<String> {
    match names_by_key(view, key).as_slice() {
        [] => Err(Error::new(
            Code::IndexNotFound,
            format!("can't find index with key: {key}"),
        )),
        [name] if name == ID_INDEX => Err(is_id()),
        [name] => Ok(name.clone()),
        [first, second, ..] => Err(Error::new(
            Code::AmbiguousIndexKeyPattern,
            format!(
                "2 or more indexes found for key: {key}, identify by name instead. Conflicting indexes: {first}, {second}"
            ),
        )),
    }
}

fn not_found(name: &str) -> Error {
    Error::new(
        Code::IndexNotFound,
        format!("index not found with name [{name}]"),
    )
}

fn is_id() -> Error {
    Error::new(Code::InvalidOptions, "cannot drop _id index")
}

/// Drops the indexes, and switches the default off if the index that shows it is among them. Returns the dropped indexes, so
/// that the caller frees them outside the lock.
pub(super) fn make(rules: &mut Rules<'_>, which: &IndexSelection) -> (DroppedIndexes, Vec<Index>) {
    let before = count_indexes(&rules.view());
    let dropped_indexes = rules.drop_indexes(which);
    for index in dropped_indexes.iter().filter(|index| index.ready) {
        rules.record(|| LogOp::DropIndexes {
            index: DocBuf::build(|out| index.spec.describe(out)),
        });
    }
    let shown = rules.view().ts_index();
    if shown.is_some_and(|ts| which.names(&ts.name)) {
        if let Some(index) = shown_default(&rules.view()) {
            rules.record(|| LogOp::DropIndexes { index });
        }
        default_ttl::set(rules, DefaultTtl::Off, None);
    }
    let all = *which == IndexSelection::All;
    (DroppedIndexes { before, all }, dropped_indexes)
}
