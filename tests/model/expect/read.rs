//! find, explain, count and distinct.

use bson::{Bson, Document};

use super::super::change::project;
use super::super::matcher::leaves;
use super::super::order::by_sort;
use super::super::state::{self, Collection, Model};
use super::{Expect, filter, names_ts};

/// Returns whether the hint of a find names an index that does not exist.
pub fn bad_hint(collection: Option<&Collection>, command: &Document) -> bool {
    match (collection, command.get_str("hint")) {
        (Some(collection), Ok(hint)) => {
            let shown = collection.default.is_some() && collection.shown == hint;
            let there = collection
                .index(hint)
                .is_some_and(|index| !index.flag("hidden"));
            hint != "_id_" && !shown && !there
        }
        _ => false,
    }
}

pub(super) fn find(model: &Model, name: &str, command: &Document) -> Expect {
    if bad_hint(model.collections.get(name), command) {
        return Expect::Error(2);
    }
    let found = model
        .get(name)
        .matching(&filter(command, "filter"), names_ts(command));
    let mut rows: Vec<Document> = found.into_iter().map(|(_, seen)| seen).collect();
    let show = |rows: Vec<Document>| match command.get_document("projection") {
        Ok(projection) => rows.iter().map(|row| project(projection, row)).collect(),
        Err(_) => rows,
    };
    let (skip, limit) = window(command);
    let Ok(sort) = command.get_document("sort") else {
        let left = rows.len().saturating_sub(skip).min(limit);
        return if left < rows.len() {
            Expect::Some(left, show(rows))
        } else {
            Expect::Set(show(rows))
        };
    };
    rows.sort_by(|a, b| by_sort(sort, a, b));
    Expect::Ordered(show(rows.into_iter().skip(skip).take(limit).collect()))
}

/// explain counts the documents that the find would return.
pub(super) fn explain(model: &Model, command: &Document) -> Expect {
    let command = command.get_document("explain").expect("a command");
    let name = command.get_str("find").expect("a collection");
    let rows = match find(model, name, command) {
        Expect::Ordered(rows) | Expect::Set(rows) => rows.len(),
        Expect::Some(count, _) => count,
        failure => return failure,
    };
    Expect::Fields(vec![("executionStats.nReturned", Bson::Int64(rows as i64))])
}

pub(super) fn count(model: &Model, name: &str, command: &Document) -> Expect {
    if bad_hint(model.collections.get(name), command) {
        return Expect::Error(2);
    }
    let found = model
        .get(name)
        .matching(&filter(command, "query"), names_ts(command))
        .len();
    let (skip, limit) = window(command);
    let n = found.saturating_sub(skip).min(limit);
    Expect::Fields(vec![("n", Bson::Int64(n as i64))])
}

pub(super) fn distinct(model: &Model, name: &str, command: &Document) -> Expect {
    let key = command.get_str("key").expect("a key");
    let found = model
        .get(name)
        .matching(&filter(command, "query"), names_ts(command));
    let leaves: Vec<_> = found.iter().map(|(_, seen)| leaves(seen, key)).collect();
    let mut by_index = Vec::new();
    // The keys of an index are taken as they are, as in MongoDB (SERVER-14832).
    let indexes = &model.get(name).indexes;
    let mut keys = indexes.iter().map(|index| index.spec.get_document("key"));
    if keys.any(|fields| fields.is_ok_and(|fields| fields.contains_key(key))) {
        if leaves.iter().any(|of| of.is_empty() || of.contains(&None)) {
            by_index.push(Bson::Null);
        }
        let empty = Some(Bson::Array(Vec::new()));
        if leaves.iter().any(|of| of.contains(&empty)) {
            by_index.push(Bson::Undefined);
        }
    }
    let values = leaves.into_iter().flatten().flatten();
    let values = values.flat_map(|value| match value {
        Bson::Array(array) => array,
        value => vec![value],
    });
    Expect::Distinct(state::distinct(values), by_index)
}

/// Returns the skip and the limit.
fn window(command: &Document) -> (usize, usize) {
    let skip = command.get_i32("skip").unwrap_or(0) as usize;
    let limit = command
        .get_i32("limit")
        .map_or(usize::MAX, |limit| limit as usize);
    (skip, limit)
}
