//! Collections and indexes as clients see them, in listCollections, listIndexes and other replies.

use super::stats::put_number;
use crate::storage::index::Index;
use crate::storage::{Collection, CollectionOptions, ReadPoint, View};
use crate::ttl::{DefaultTtl, IndexingMode};
use crate::value::{DocBuf, DocBuilder, Value, ValueRef, equal};

/// The collections of `config` that MongoDB's tools save when they look into a sharded cluster. listCollections names them.
const CONFIG_DUMPED: [&str; 7] = [
    "chunks",
    "collections",
    "databases",
    "settings",
    "shards",
    "tags",
    "version",
];

/// Writes the options of a collection as listCollections shows them.
pub(super) fn put_options(
    options: &CollectionOptions,
    default: DefaultTtl,
    out: &mut DocBuilder<'_>,
) {
    if let Some(cap) = options.cap {
        out.put_bool("capped", true);
        put_number(out, "size", cap.bytes);
        if let Some(documents) = cap.documents {
            put_number(out, "max", documents);
        }
    }
    if options.keeps_images {
        let mut images = out.doc("changeStreamPreAndPostImages");
        images.put_bool("enabled", true);
        images.end();
    }
    out.put_body(options.shown.as_doc().body());
    if let Some(seconds) = default.seconds() {
        out.put_i32("defaultTtl", seconds);
    }
    let named = |mode| move |(_, known): &&(&str, IndexingMode)| *known == mode;
    let mode = options.indexing_mode;
    if let Some((name, _)) = mode.and_then(|mode| IndexingMode::NAMES.iter().find(named(mode))) {
        let mut policy = out.doc("indexingPolicy");
        policy.put_str("indexingMode", name);
        policy.end();
    }
}

/// Describes a collection as listCollections shows it.
pub fn describe_collection(collection: &Collection, at: ReadPoint) -> DocBuf {
    collection.read(at, |view| {
        DocBuf::build(|doc| {
            doc.put_str("name", view.namespace().collection())
                .put_str("type", "collection");
            let mut options = doc.doc("options");
            put_options(view.options(), view.default_ttl(), &mut options);
            options.end();
            let mut info = doc.doc("info");
            info.put_bool("readOnly", false);
            info.put(
                "uuid",
                Value::binary(4, collection.uuid().as_bytes()).as_ref(),
            );
            let namespace = view.namespace();
            if namespace.database() == "config" {
                let is_dumped = CONFIG_DUMPED.contains(&namespace.collection());
                info.put_bool("configDebugDump", is_dumped);
            }
            info.end();
            let mut id = doc.doc("idIndex");
            put_id_index(&mut id);
            id.end();
        })
    })
}

/// Describes every index of a collection as listIndexes shows it.
pub fn indexes_of(collection: &Collection, at: ReadPoint) -> Vec<DocBuf> {
    collection.read(at, describe_indexes)
}

/// Returns the key of every index that can be used, `_id` first.
pub fn index_keys(collection: &Collection, at: ReadPoint) -> Vec<DocBuf> {
    let mut keys = vec![DocBuf::build(|key| {
        key.put_i32("_id", 1);
    })];
    collection.read(at, |view| {
        let ready = view.indexes().filter(|index| index.ready);
        keys.extend(ready.map(|index| index.spec.key.clone()));
    });
    keys
}

/// Returns the names of the sparse indexes. They leave out documents that have none of their fields.
pub fn sparse_indexes(collection: &Collection, at: ReadPoint) -> Vec<String> {
    collection.read(at, |view| {
        let sparse = view.indexes().filter(|index| index.spec.sparse);
        sparse.map(|index| index.spec.name.clone()).collect()
    })
}

/// Returns whether a unique index with this key would be new in a collection that already has documents.
pub fn would_add_unique(collection: &Collection, at: ReadPoint, key: ValueRef<'_>) -> bool {
    let same = |index: &Index| {
        let known = ValueRef::document(index.spec.key.as_doc());
        index.spec.unique && equal(known, key)
    };
    collection.read(at, |view| {
        view.totals().count > 0 && !view.indexes().any(same)
    })
}

/// Describes every index as clients see it: `_id` first, then the others in the order of their creation. The index that
/// shows DefaultTTL comes last.
pub(super) fn describe_indexes(view: &View<'_>) -> Vec<DocBuf> {
    let mut all = vec![DocBuf::build(put_id_index)];
    let seconds = view.default_ttl().seconds();
    let shown = view.ts_index();
    for index in view.indexes().filter(|index| index.ready) {
        let mut doc = DocBuf::build(|doc| index.spec.describe(doc));
        if let (Some(seconds), Some(ts)) = (seconds, shown)
            && ts.name == index.spec.name
        {
            doc.put("expireAfterSeconds", Value::int32(seconds).as_ref());
        }
        all.push(doc);
    }
    all.extend(shown_default(view));
    all
}

/// Describes the index that shows DefaultTTL, unless a real index of that name serves it.
pub(super) fn shown_default(view: &View<'_>) -> Option<DocBuf> {
    let (seconds, ts) = (view.default_ttl().seconds()?, view.ts_index()?);
    view.index(&ts.name).is_none().then(|| {
        DocBuf::build(|doc| {
            doc.put_i32("v", 2)
                .put_doc("key", ts.key.as_doc())
                .put_str("name", &ts.name)
                .put_i32("expireAfterSeconds", seconds);
        })
    })
}

/// Returns how many indexes a client sees.
pub(super) fn count_indexes(view: &View<'_>) -> i32 {
    let own = view.indexes().filter(|index| index.ready).count();
    let shown = view
        .ts_index()
        .is_some_and(|ts| view.index(&ts.name).is_none());
    i32::try_from(1 + own + usize::from(shown)).unwrap_or(i32::MAX)
}

pub(super) fn put_id_index(doc: &mut DocBuilder<'_>) {
    doc.put_i32("v", 2);
    let mut key = doc.doc("key");
    key.put_i32("_id", 1);
    key.end();
    doc.put_str("name", "_id_");
}
