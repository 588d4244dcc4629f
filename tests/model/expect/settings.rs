//! Collections and indexes: creating, changing and dropping them.

use bson::{Bson, Document};

use super::super::order::number;
use super::super::state::{Cap, Collection, Index, Model};
use super::Expect;

pub(super) fn create(model: &mut Model, name: &str, command: &Document) -> Option<Expect> {
    if model.collections.contains_key(name) {
        return None;
    }
    let default = command.get("defaultTtl").and_then(number).map(|n| n as i64);
    let made = model.at(name);
    made.default = default;
    made.shown = "_ts_1".into();
    made.cap = command.get_bool("capped").ok().map(|_| Cap {
        bytes: command.get("size").and_then(number).expect("a size") as i64,
        documents: command.get("max").and_then(number).expect("a number") as i64,
    });
    Some(Expect::Fields(vec![]))
}

pub(super) fn drop(model: &mut Model, name: &str) -> Option<Expect> {
    model.collections.remove(name)?;
    Some(Expect::Fields(vec![]))
}

pub(super) fn rename(model: &mut Model, from: &str, command: &Document) -> Option<Expect> {
    let bare = |name: &str| name.strip_prefix("test.").expect("a name").to_owned();
    let moved = model.collections.remove(&bare(from))?;
    let to = bare(command.get_str("to").expect("a name"));
    model.collections.insert(to, moved);
    Some(Expect::Fields(vec![]))
}

pub(super) fn create_indexes(model: &mut Model, name: &str, command: &Document) -> Expect {
    let collection = model.at(name);
    let before = collection.clone();
    let made = make_indexes(collection, command);
    if matches!(made, Expect::Error(_)) {
        *collection = before;
    }
    made
}

fn make_indexes(collection: &mut Collection, command: &Document) -> Expect {
    let specs = command.get_array("indexes").expect("indexes").iter();
    let specs: Vec<_> = specs
        .map(|spec| spec.as_document().expect("an index"))
        .collect();
    let is_default = |spec: &Document| {
        let key = spec.get_document("key").expect("a key");
        key.len() == 1 && key.contains_key("_ts")
    };
    // All of them are compared with the existing indexes before any is built.
    let contradicts = |spec: &Document| {
        let there = collection.index(spec.get_str("name").expect("a name"));
        there.is_some_and(|there| there.spec != *spec)
    };
    if specs
        .iter()
        .any(|spec| !is_default(spec) && contradicts(spec))
    {
        return Expect::Error(85);
    }
    for spec in specs {
        if is_default(spec) {
            collection.default = spec
                .get("expireAfterSeconds")
                .and_then(number)
                .map(|n| n as i64);
            collection.shown = spec.get_str("name").expect("a name").to_owned();
            continue;
        }
        let index = Index { spec: spec.clone() };
        if collection.index(index.name()).is_some() {
            continue;
        }
        if collection.would_clash(&index) {
            return Expect::Error(11_000);
        }
        collection.indexes.push(index);
    }
    Expect::Fields(vec![(
        "numIndexesAfter",
        Bson::Int64(collection.index_count()),
    )])
}

pub(super) fn drop_indexes(model: &mut Model, name: &str, command: &Document) -> Expect {
    let Some(collection) = model.collections.get_mut(name) else {
        return Expect::Error(26);
    };
    let before = collection.index_count();
    let index = command.get_str("index").expect("a name");
    if index == "*" {
        collection.indexes.clear();
        collection.default = None;
    } else if collection.default.is_some() && collection.shown == index {
        collection.default = None;
    } else if collection.index(index).is_some() {
        collection.indexes.retain(|there| there.name() != index);
    } else {
        return Expect::Error(27);
    }
    Expect::Fields(vec![("nIndexesWas", Bson::Int64(before))])
}

pub(super) fn coll_mod(model: &mut Model, name: &str, command: &Document) -> Expect {
    let Some(collection) = model.collections.get_mut(name) else {
        return Expect::Error(26);
    };
    let documents = command.get("cappedMax").and_then(number);
    let bytes = command.get("cappedSize").and_then(number);
    if documents.or(bytes).is_some() {
        let Some(cap) = &mut collection.cap else {
            return Expect::Error(72);
        };
        cap.documents = documents.map_or(cap.documents, |n| n as i64);
        cap.bytes = bytes.map_or(cap.bytes, |n| n as i64);
        return Expect::Fields(vec![]);
    }
    let change = command.get_document("index").ok();
    if let Some(default) = command.get("defaultTtl") {
        let index = change.and_then(|change| change.get_str("name").ok());
        if index.is_some_and(|index| collection.index(index).is_none()) {
            return Expect::Error(27);
        }
        if collection.default.is_none() {
            collection.shown = "_ts_1".into();
        }
        collection.default = number(default).map(|n| n as i64);
    }
    let Some(change) = change else {
        return Expect::Fields(vec![]);
    };
    if change.contains_key("keyPattern") {
        // The index that shows the default can also be found by its key, even if it has another name.
        if collection.default.is_none() {
            return Expect::Error(27);
        }
        let seconds = change.get("expireAfterSeconds").and_then(number);
        collection.default = seconds.map(|n| n as i64);
        return Expect::Fields(vec![]);
    }
    let index = change.get_str("name").expect("a name");
    let Some(there) = collection
        .indexes
        .iter_mut()
        .find(|there| there.name() == index)
    else {
        return Expect::Error(27);
    };
    for option in ["expireAfterSeconds", "hidden"] {
        if let Some(value) = change.get(option) {
            there.spec.insert(option, value.clone());
            if *value == Bson::Boolean(false) {
                there.spec.remove(option);
            }
        }
    }
    Expect::Fields(vec![])
}
