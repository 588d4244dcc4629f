//! Every command that reads or writes documents: just before the end of a document, exactly at it and after it, with each
//! kind of index, for each rule that can end a document, with and without the reaper.

use bson::{Bson, Document, bson, doc};

use crate::support::world::{
    Reaper, World, batch, create_index, date, differs_on_mongod, failure, genuine_cluster, ids,
    in_front_of_cluster, int, through_upstream,
};

/// The part of a reply that a row compares.
#[derive(Debug, Clone, Copy)]
enum Look {
    /// The `_id`s of all rows, sorted.
    Ids,
    /// The `_id`s of all rows, in the order of the reply.
    Order,
    /// All rows, in the order of the reply.
    Rows,
    /// A field of the reply, by its path. A missing field is null.
    At(&'static str),
    /// The code of the error, or 0.
    Code,
    /// The `_id`s of all documents in the collection `made` afterwards.
    Made,
    /// The `_id`s of all documents in the collection afterwards.
    After,
}

/// A name, a command on the collection, the part to compare, and its expected value before and after the end of document 1.
type Row = (&'static str, fn(&str) -> Document, Look, Bson, Bson);

use Look::{After, At, Code, Ids, Made, Order, Rows};

/// Three documents: 1 expires, 2 and 3 stay.
pub fn documents(now: i64, rule: Rule) -> Vec<Document> {
    let mut ending =
        doc! {"_id": 1, "k": "a", "n": 1, "tags": ["x", "y"], "d": 7, "far": date(now + (1 << 40))};
    match rule {
        Rule::Inherited => {}
        Rule::Own => {
            ending.insert("ttl", 10);
        }
        Rule::Date => {
            ending.insert("at", date(now));
        }
    }
    vec![
        ending,
        doc! {"_id": 2, "k": "b", "n": 2, "tags": ["x", "z"], "d": 7, "ttl": -1},
        doc! {"_id": 3, "k": "c", "n": 3, "tags": ["y"], "d": 9, "ttl": -1},
    ]
}

/// The rule that ends document 1, ten seconds after it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The collection's default.
    Inherited,
    /// The document's own ttl.
    Own,
    /// A TTL index on a date.
    Date,
}

fn indexes() -> Vec<(&'static str, Vec<Document>)> {
    vec![
        ("none", vec![]),
        (
            "single",
            vec![doc! {"key": {"k": 1}}, doc! {"key": {"n": 1}}],
        ),
        (
            "descending",
            vec![doc! {"key": {"k": -1}}, doc! {"key": {"n": -1}}],
        ),
        (
            "compound",
            vec![
                doc! {"key": {"k": 1, "n": -1}},
                doc! {"key": {"n": 1, "k": 1}},
            ],
        ),
        (
            "multikey",
            vec![
                doc! {"key": {"tags": 1}},
                doc! {"key": {"tags": -1, "n": 1}},
            ],
        ),
        (
            "unique",
            vec![
                doc! {"key": {"k": 1}, "unique": true},
                doc! {"key": {"n": 1, "k": 1}, "unique": true},
            ],
        ),
        (
            "sparse",
            vec![
                doc! {"key": {"k": 1}, "sparse": true},
                doc! {"key": {"far": 1}, "sparse": true},
            ],
        ),
        (
            "partial",
            vec![
                doc! {"key": {"k": 1}, "partialFilterExpression": {"n": {"$gt": 0}}},
                doc! {"key": {"n": 1}, "partialFilterExpression": {"n": {"$lt": 2}}, "unique": true},
            ],
        ),
        ("hidden", vec![doc! {"key": {"k": 1}, "hidden": true}]),
        (
            "ttl",
            vec![doc! {"key": {"far": 1}, "expireAfterSeconds": 100_000}],
        ),
        ("_ts", vec![doc! {"key": {"_ts": 1, "n": 1}}]),
    ]
}

#[rustfmt::skip]
fn reads() -> Vec<Row> {
    vec![
        ("find", |c| doc! {"find": c}, Order, bson!([1, 2, 3]), bson!([2, 3])),
        ("find by _id", |c| doc! {"find": c, "filter": {"_id": 1}}, Ids, bson!([1]), bson!([])),
        ("find by _id and more", |c| doc! {"find": c, "filter": {"_id": 1, "k": "a"}}, Ids, bson!([1]), bson!([])),
        ("find _id in", |c| doc! {"find": c, "filter": {"_id": {"$in": [1, 2, 9]}}}, Ids, bson!([1, 2]), bson!([2])),
        ("find _id range", |c| doc! {"find": c, "filter": {"_id": {"$lt": 3}}}, Ids, bson!([1, 2]), bson!([2])),
        ("find sorted by _id", |c| doc! {"find": c, "sort": {"_id": -1}}, Order, bson!([3, 2, 1]), bson!([3, 2])),
        ("find equal", |c| doc! {"find": c, "filter": {"k": "a"}}, Ids, bson!([1]), bson!([])),
        ("find range", |c| doc! {"find": c, "filter": {"k": {"$gte": "a", "$lt": "c"}}}, Ids, bson!([1, 2]), bson!([2])),
        ("find in", |c| doc! {"find": c, "filter": {"k": {"$in": ["a", "c"]}}}, Ids, bson!([1, 3]), bson!([3])),
        ("find prefix", |c| doc! {"find": c, "filter": {"k": {"$regex": "^a"}}}, Ids, bson!([1]), bson!([])),
        ("find both", |c| doc! {"find": c, "filter": {"k": "a", "n": 1}}, Ids, bson!([1]), bson!([])),
        ("find or", |c| doc! {"find": c, "filter": {"$or": [{"k": "a"}, {"n": 3}]}}, Ids, bson!([1, 3]), bson!([3])),
        ("find in an array", |c| doc! {"find": c, "filter": {"tags": "y"}}, Ids, bson!([1, 3]), bson!([3])),
        ("find exists", |c| doc! {"find": c, "filter": {"far": {"$exists": true}}}, Ids, bson!([1]), bson!([])),
        ("find $expr", |c| doc! {"find": c, "filter": {"$expr": {"$lte": ["$n", 2]}}}, Ids, bson!([1, 2]), bson!([2])),
        ("find sorted up", |c| doc! {"find": c, "sort": {"n": 1}}, Order, bson!([1, 2, 3]), bson!([2, 3])),
        ("find sorted down", |c| doc! {"find": c, "sort": {"k": -1}}, Order, bson!([3, 2, 1]), bson!([3, 2])),
        ("find sorted by tags", |c| doc! {"find": c, "sort": {"tags": 1, "n": 1}}, Order, bson!([1, 2, 3]), bson!([2, 3])),
        ("find the first", |c| doc! {"find": c, "sort": {"n": 1}, "limit": 1}, Order, bson!([1]), bson!([2])),
        ("find behind the first", |c| doc! {"find": c, "sort": {"n": 1}, "skip": 1}, Order, bson!([2, 3]), bson!([3])),
        ("find limited", |c| doc! {"find": c, "limit": 2}, Order, bson!([1, 2]), bson!([2, 3])),
        ("find natural", |c| doc! {"find": c, "hint": {"$natural": 1}}, Order, bson!([1, 2, 3]), bson!([2, 3])),
        ("find backwards", |c| doc! {"find": c, "hint": {"$natural": -1}}, Order, bson!([3, 2, 1]), bson!([3, 2])),
        ("find with _ts", |c| doc! {"find": c, "filter": {"_ts": {"$gt": 0}}}, Ids, bson!([1, 2, 3]), bson!([2, 3])),
        ("find sorted by _ts", |c| doc! {"find": c, "sort": {"_ts": 1, "n": 1}}, Order, bson!([1, 2, 3]), bson!([2, 3])),
        ("find between", |c| doc! {"find": c, "min": {"_id": 1}, "max": {"_id": 3}, "hint": {"_id": 1}}, Order, bson!([1, 2]), bson!([2])),
        ("find its keys", |c| doc! {"find": c, "filter": {"_id": {"$gte": 0}}, "hint": {"_id": 1}, "returnKey": true}, Order, bson!([1, 2, 3]), bson!([2, 3])),
        ("find with record ids", |c| doc! {"find": c, "filter": {"n": {"$lte": 2}}, "showRecordId": true}, Ids, bson!([1, 2]), bson!([2])),
        ("find its values", |c| doc! {"find": c, "filter": {"$sampleRate": 1.0}, "sort": {"_id": 1}}, Order, bson!([1, 2, 3]), bson!([2, 3])),
        ("find projected", |c| doc! {"find": c, "projection": {"_id": 0, "n": 1}, "sort": {"n": 1}}, Rows, bson!([{"n": 1}, {"n": 2}, {"n": 3}]), bson!([{"n": 2}, {"n": 3}])),
        ("find one by one", |c| doc! {"find": c, "batchSize": 1}, Order, bson!([1, 2, 3]), bson!([2, 3])),
        ("count", |c| doc! {"count": c}, At("n"), bson!(3), bson!(2)),
        ("count all", |c| doc! {"count": c, "query": {}}, At("n"), bson!(3), bson!(2)),
        ("count some", |c| doc! {"count": c, "query": {"tags": "x"}}, At("n"), bson!(2), bson!(1)),
        ("count by _id", |c| doc! {"count": c, "query": {"_id": 1}}, At("n"), bson!(1), bson!(0)),
        ("count by key", |c| doc! {"count": c, "query": {"k": {"$lte": "b"}}}, At("n"), bson!(2), bson!(1)),
        ("count behind", |c| doc! {"count": c, "skip": 1}, At("n"), bson!(2), bson!(1)),
        ("count at most", |c| doc! {"count": c, "limit": 10}, At("n"), bson!(3), bson!(2)),
        ("distinct", |c| doc! {"distinct": c, "key": "k"}, At("values"), bson!(["a", "b", "c"]), bson!(["b", "c"])),
        ("distinct in arrays", |c| doc! {"distinct": c, "key": "tags", "query": {"n": {"$lte": 2}}}, At("values"), bson!(["x", "y", "z"]), bson!(["x", "z"])),
        ("aggregate", |c| doc! {"aggregate": c, "pipeline": [], "cursor": {}}, Order, bson!([1, 2, 3]), bson!([2, 3])),
        ("$match", |c| doc! {"aggregate": c, "pipeline": [{"$match": {"k": {"$ne": "b"}}}], "cursor": {}}, Ids, bson!([1, 3]), bson!([3])),
        ("$match by key", |c| doc! {"aggregate": c, "pipeline": [{"$match": {"k": "a"}}], "cursor": {}}, Ids, bson!([1]), bson!([])),
        ("$count", |c| doc! {"aggregate": c, "pipeline": [{"$count": "n"}], "cursor": {}}, Rows, bson!([{"n": 3}]), bson!([{"n": 2}])),
        ("$group", |c| doc! {"aggregate": c, "pipeline": [{"$group": {"_id": null, "n": {"$sum": "$n"}}}], "cursor": {}}, Rows, bson!([{"_id": null, "n": 6}]), bson!([{"_id": null, "n": 5}])),
        ("$sort $limit", |c| doc! {"aggregate": c, "pipeline": [{"$sort": {"n": 1}}, {"$limit": 1}], "cursor": {}}, Order, bson!([1]), bson!([2])),
        ("$skip", |c| doc! {"aggregate": c, "pipeline": [{"$skip": 1}], "cursor": {}}, Order, bson!([2, 3]), bson!([3])),
        ("$project", |c| doc! {"aggregate": c, "pipeline": [{"$project": {"k": 1}}], "cursor": {}}, Rows, bson!([{"_id": 1, "k": "a"}, {"_id": 2, "k": "b"}, {"_id": 3, "k": "c"}]), bson!([{"_id": 2, "k": "b"}, {"_id": 3, "k": "c"}])),
        ("$unwind", |c| doc! {"aggregate": c, "pipeline": [{"$unwind": "$tags"}, {"$match": {"tags": "y"}}], "cursor": {}}, Order, bson!([1, 3]), bson!([3])),
        ("$facet", |c| doc! {"aggregate": c, "pipeline": [{"$facet": {"a": [{"$count": "n"}]}}], "cursor": {}}, Rows, bson!([{"a": [{"n": 3}]}]), bson!([{"a": [{"n": 2}]}])),
        ("$sample", |c| doc! {"aggregate": c, "pipeline": [{"$sample": {"size": 9}}], "cursor": {}}, Ids, bson!([1, 2, 3]), bson!([2, 3])),
        ("$sortByCount", |c| doc! {"aggregate": c, "pipeline": [{"$unwind": "$tags"}, {"$sortByCount": "$tags"}, {"$match": {"_id": "x"}}], "cursor": {}}, Rows, bson!([{"_id": "x", "count": 2}]), bson!([{"_id": "x", "count": 1}])),
        ("$bucket", |c| doc! {"aggregate": c, "pipeline": [{"$bucket": {"groupBy": "$n", "boundaries": [0, 10]}}], "cursor": {}}, Rows, bson!([{"_id": 0, "count": 3}]), bson!([{"_id": 0, "count": 2}])),
        ("$bucketAuto", |c| doc! {"aggregate": c, "pipeline": [{"$bucketAuto": {"groupBy": "$n", "buckets": 1}}, {"$project": {"_id": 0}}], "cursor": {}}, Rows, bson!([{"count": 3}]), bson!([{"count": 2}])),
        ("$set $unset", |c| doc! {"aggregate": c, "pipeline": [{"$set": {"z": 1}}, {"$unset": "k"}, {"$addFields": {"y": 1}}], "cursor": {}}, Order, bson!([1, 2, 3]), bson!([2, 3])),
        ("$redact", |c| doc! {"aggregate": c, "pipeline": [{"$redact": {"$cond": [{"$lte": ["$n", 2]}, "$$KEEP", "$$PRUNE"]}}], "cursor": {}}, Order, bson!([1, 2]), bson!([2])),
        ("$replaceWith", |c| doc! {"aggregate": c, "pipeline": [{"$replaceWith": {"_id": "$k"}}], "cursor": {}}, Order, bson!(["a", "b", "c"]), bson!(["b", "c"])),
        ("$replaceRoot", |c| doc! {"aggregate": c, "pipeline": [{"$replaceRoot": {"newRoot": {"_id": "$k"}}}], "cursor": {}}, Order, bson!(["a", "b", "c"]), bson!(["b", "c"])),
        ("$collStats", |c| doc! {"aggregate": c, "pipeline": [{"$collStats": {"count": {}}}, {"$project": {"count": 1}}], "cursor": {}}, Rows, bson!([{"count": 3}]), bson!([{"count": 2}])),
        ("$lookup by field", |c| doc! {"aggregate": "other", "pipeline": [
            {"$lookup": {"from": c, "localField": "ref", "foreignField": "_id", "as": "r"}}, {"$match": {"r": {"$ne": []}}}], "cursor": {}}, Ids, bson!([101, 102, 103]), bson!([102, 103])),
        ("$lookup by key", |c| doc! {"aggregate": "other", "pipeline": [
            {"$lookup": {"from": c, "localField": "k", "foreignField": "k", "as": "r"}}, {"$match": {"r": {"$ne": []}}}], "cursor": {}}, Ids, bson!([101, 102, 103]), bson!([102, 103])),
        ("$lookup pipeline", |c| doc! {"aggregate": "other", "pipeline": [
            {"$match": {"_id": 101}}, {"$lookup": {"from": c, "let": {}, "pipeline": [{"$sort": {"n": 1}}, {"$project": {"n": 1}}], "as": "r"}}, {"$project": {"r": 1}}], "cursor": {}},
            Rows, bson!([{"_id": 101, "r": [{"_id": 1, "n": 1}, {"_id": 2, "n": 2}, {"_id": 3, "n": 3}]}]), bson!([{"_id": 101, "r": [{"_id": 2, "n": 2}, {"_id": 3, "n": 3}]}])),
        ("$lookup from it", |c| doc! {"aggregate": c, "pipeline": [
            {"$lookup": {"from": "other", "localField": "_id", "foreignField": "ref", "as": "r"}}, {"$project": {"r._id": 1}}], "cursor": {}},
            Rows, bson!([{"_id": 1, "r": [{"_id": 101}]}, {"_id": 2, "r": [{"_id": 102}]}, {"_id": 3, "r": [{"_id": 103}]}]), bson!([{"_id": 2, "r": [{"_id": 102}]}, {"_id": 3, "r": [{"_id": 103}]}])),
        ("$unionWith", |c| doc! {"aggregate": "other", "pipeline": [{"$unionWith": c}], "cursor": {}}, Ids, bson!([1, 2, 3, 101, 102, 103]), bson!([2, 3, 101, 102, 103])),
        ("$unionWith pipeline", |c| doc! {"aggregate": "other", "pipeline": [{"$match": {"_id": 0}}, {"$unionWith": {"coll": c, "pipeline": [{"$match": {"n": {"$lte": 2}}}]}}], "cursor": {}}, Ids, bson!([1, 2]), bson!([2])),
        ("$out", |c| doc! {"aggregate": c, "pipeline": [{"$out": "made"}], "cursor": {}}, Made, bson!([1, 2, 3]), bson!([2, 3])),
        ("$merge", |c| doc! {"aggregate": c, "pipeline": [{"$merge": {"into": "made"}}], "cursor": {}}, Made, bson!([1, 2, 3]), bson!([2, 3])),
        ("$lookup into $out", |c| doc! {"aggregate": "other", "pipeline": [{"$match": {"_id": 0}}, {"$unionWith": c}, {"$out": "made"}], "cursor": {}}, Made, bson!([1, 2, 3]), bson!([2, 3])),
        ("explain find", |c| doc! {"explain": {"find": c, "filter": {"k": "a"}}, "verbosity": "executionStats"}, At("executionStats.nReturned"), bson!(1), bson!(0)),
        ("explain find all", |c| doc! {"explain": {"find": c, "filter": {}}, "verbosity": "executionStats"}, At("executionStats.totalDocsExamined"), bson!(3), bson!(2)),
        ("explain find by _id", |c| doc! {"explain": {"find": c, "filter": {"_id": 1}}, "verbosity": "executionStats"}, At("executionStats.totalDocsExamined"), bson!(1), bson!(0)),
        ("explain count", |c| doc! {"explain": {"count": c, "query": {"d": 7}}, "verbosity": "executionStats"}, At("executionStats.executionStages.nCounted"), bson!(2), bson!(1)),
        ("explain aggregate", |c| doc! {"explain": {"aggregate": c, "pipeline": [{"$match": {"d": 7}}], "cursor": {}}, "verbosity": "executionStats"}, At("executionStats.nReturned"), bson!(2), bson!(1)),
        ("explain update", |c| doc! {"explain": {"update": c, "updates": [{"q": {"d": 7}, "u": {"$set": {"z": 1}}, "multi": true}]}, "verbosity": "executionStats"}, At("executionStats.executionStages.nMatched"), bson!(2), bson!(1)),
        ("explain delete", |c| doc! {"explain": {"delete": c, "deletes": [{"q": {"d": 7}, "limit": 0}]}, "verbosity": "executionStats"}, At("executionStats.executionStages.nWouldDelete"), bson!(2), bson!(1)),
        ("collStats", |c| doc! {"collStats": c}, At("count"), bson!(3), bson!(2)),
        ("validate", |c| doc! {"validate": c}, At("nrecords"), bson!(3), bson!(2)),
        ("validate keys", |c| doc! {"validate": c}, At("keysPerIndex._id_"), bson!(3), bson!(2)),
        ("dataSize", |c| doc! {"dataSize": format!("test.{c}")}, At("numObjects"), bson!(3), bson!(2)),
        ("dataSize between", |c| doc! {"dataSize": format!("test.{c}"), "keyPattern": {"_id": 1}, "min": {"_id": 0}, "max": {"_id": 3}}, At("numObjects"), bson!(2), bson!(1)),
        ("dataSize up to", |c| doc! {"dataSize": format!("test.{c}"), "maxObjects": 2}, At("maxReached"), bson!(true), Bson::Null),
    ]
}

pub fn update(c: &str, statement: Document) -> Document {
    doc! {"update": c, "updates": [statement]}
}

fn bulk(c: &str, operation: Document) -> Document {
    doc! {"bulkWrite": 1, "ops": [operation], "nsInfo": [{"ns": format!("test.{c}")}]}
}

#[rustfmt::skip]
fn writes() -> Vec<Row> {
    vec![
        ("update", |c| update(c, doc! {"q": {"_id": 1}, "u": {"$set": {"z": 1}}}), At("n"), bson!(1), bson!(0)),
        ("update without a change", |c| update(c, doc! {"q": {"_id": 1}, "u": {"$set": {"n": 1}}}), At("n"), bson!(1), bson!(0)),
        ("update by key", |c| update(c, doc! {"q": {"k": "a"}, "u": {"$inc": {"n": 10}}}), At("nModified"), bson!(1), bson!(0)),
        ("update by array", |c| update(c, doc! {"q": {"tags": "y"}, "u": {"$inc": {"n": 10}}, "multi": true}), At("n"), bson!(2), bson!(1)),
        ("update all", |c| update(c, doc! {"q": {}, "u": {"$set": {"z": 1}}, "multi": true}), At("n"), bson!(3), bson!(2)),
        ("update the first", |c| update(c, doc! {"q": {}, "u": {"$set": {"z": 1}}, "sort": {"n": 1}}), At("n"), bson!(1), bson!(1)),
        ("update by pipeline", |c| update(c, doc! {"q": {"n": {"$lt": 3}}, "u": [{"$set": {"z": "$n"}}], "multi": true}), At("nModified"), bson!(2), bson!(1)),
        ("update ttl of what has none any more", |c| update(c, doc! {"q": {"_id": 1}, "u": {"$set": {"ttl": -1}}}), At("n"), bson!(1), bson!(0)),
        ("replace", |c| update(c, doc! {"q": {"_id": 1}, "u": {"k": "z"}}), At("n"), bson!(1), bson!(0)),
        ("replace by key", |c| update(c, doc! {"q": {"k": "a"}, "u": {"k": "z"}}), At("n"), bson!(1), bson!(0)),
        ("upsert by _id", |c| update(c, doc! {"q": {"_id": 1}, "u": {"$set": {"n": 7}}, "upsert": true}), At("upserted.0._id"), Bson::Null, bson!(1)),
        ("upsert by key", |c| update(c, doc! {"q": {"k": "a"}, "u": {"$setOnInsert": {"_id": 77}}, "upsert": true}), After, bson!([1, 2, 3]), bson!([2, 3, 77])),
        ("upsert of a replacement", |c| update(c, doc! {"q": {"_id": 1}, "u": {"k": "new"}, "upsert": true}), At("upserted.0._id"), Bson::Null, bson!(1)),
        ("upsert by pipeline", |c| update(c, doc! {"q": {"_id": 1}, "u": [{"$set": {"p": 1}}], "upsert": true}), At("upserted.0._id"), Bson::Null, bson!(1)),
        ("bulkWrite inserts", |c| bulk(c, doc! {"insert": 0, "document": {"_id": 1}}), At("nErrors"), bson!(1), bson!(0)),
        ("bulkWrite updates", |c| bulk(c, doc! {"update": 0, "filter": {"k": "a"}, "updateMods": {"$set": {"z": 1}}}), At("nMatched"), bson!(1), bson!(0)),
        ("bulkWrite upserts", |c| bulk(c, doc! {"update": 0, "filter": {"_id": 1}, "updateMods": {"z": 1}, "upsert": true}), At("nUpserted"), bson!(0), bson!(1)),
        ("bulkWrite deletes", |c| bulk(c, doc! {"delete": 0, "filter": {"tags": "x"}, "multi": true}), At("nDeleted"), bson!(2), bson!(1)),
        ("delete", |c| doc! {"delete": c, "deletes": [{"q": {"_id": 1}, "limit": 1}]}, At("n"), bson!(1), bson!(0)),
        ("delete by key", |c| doc! {"delete": c, "deletes": [{"q": {"k": "a"}, "limit": 1}]}, At("n"), bson!(1), bson!(0)),
        ("delete the first", |c| doc! {"delete": c, "deletes": [{"q": {}, "limit": 1}]}, After, bson!([2, 3]), bson!([3])),
        ("delete all", |c| doc! {"delete": c, "deletes": [{"q": {}, "limit": 0}]}, At("n"), bson!(3), bson!(2)),
        ("findAndModify", |c| doc! {"findAndModify": c, "query": {"_id": 1}, "update": {"$set": {"z": 1}}}, At("value._id"), bson!(1), Bson::Null),
        ("findAndModify by key", |c| doc! {"findAndModify": c, "query": {"k": "a"}, "update": {"$set": {"z": 1}}, "new": true}, At("value.z"), bson!(1), Bson::Null),
        ("findAndModify the first", |c| doc! {"findAndModify": c, "query": {}, "sort": {"n": 1}, "update": {"$set": {"z": 1}}}, At("value._id"), bson!(1), bson!(2)),
        ("findAndModify replaces", |c| doc! {"findAndModify": c, "query": {"_id": 1}, "update": {"z": 1}, "new": true}, At("value.z"), bson!(1), Bson::Null),
        ("findAndModify upserts", |c| doc! {"findAndModify": c, "query": {"_id": 1}, "update": {"$set": {"z": 1}}, "upsert": true}, At("lastErrorObject.upserted"), Bson::Null, bson!(1)),
        ("findAndModify removes", |c| doc! {"findAndModify": c, "query": {"_id": 1}, "remove": true}, At("value._id"), bson!(1), Bson::Null),
        ("findAndModify removes the first", |c| doc! {"findAndModify": c, "query": {}, "sort": {"n": 1}, "remove": true}, At("value._id"), bson!(1), bson!(2)),
        ("insert its _id", |c| doc! {"insert": c, "documents": [{"_id": 1, "k": "new"}]}, Code, bson!(11000), bson!(0)),
        ("insert its _id, another number type", |c| doc! {"insert": c, "documents": [{"_id": 1.0, "k": "new"}]}, Code, bson!(11000), bson!(0)),
        ("insert all its values", |c| doc! {"insert": c, "documents": [{"_id": 1, "k": "a", "n": 1, "tags": ["x", "y"], "d": 7}]}, Code, bson!(11000), bson!(0)),
        ("a unique index that it would break", |c| create_index(c, doc! {"key": {"d": 1}, "unique": true}), Code, bson!(11000), bson!(0)),
        ("$merge into it, failing on a match", |c| doc! {"aggregate": "other", "pipeline": [
            {"$match": {"_id": 101}}, {"$project": {"_id": "$ref"}}, {"$merge": {"into": c, "whenMatched": "fail"}}], "cursor": {}}, Code, bson!(11000), bson!(0)),
        ("$merge into it, matches only", |c| doc! {"aggregate": "other", "pipeline": [
            {"$match": {"_id": 101}}, {"$project": {"_id": "$ref"}}, {"$merge": {"into": c, "whenNotMatched": "discard"}}], "cursor": {}}, After, bson!([1, 2, 3]), bson!([2, 3])),
        ("$merge into it, only new ones", |c| doc! {"aggregate": "other", "pipeline": [
            {"$project": {"_id": "$ref", "m": "new"}}, {"$merge": {"into": c, "whenMatched": "keepExisting"}}, ], "cursor": {}}, After, bson!([1, 2, 3]), bson!([1, 2, 3])),
        ("$out over it", |c| doc! {"aggregate": "other", "pipeline": [{"$match": {"_id": 101}}, {"$out": c}], "cursor": {}}, After, bson!([101]), bson!([101])),
    ]
}

/// Creates the collection `c` now. Document 1 ends ten seconds later.
fn prepare(world: &mut World, c: &str, rule: Rule, indexes: &[Document]) {
    let mut create = doc! {"create": c};
    match rule {
        Rule::Inherited => drop(create.insert("defaultTtl", 10)),
        Rule::Own => drop(create.insert("defaultTtl", -1)),
        Rule::Date => {}
    }
    world.run(create);
    // Half of the indexes exist before the documents. The others are built afterwards.
    for index in indexes.iter().step_by(2) {
        world.index(c, index.clone());
    }
    if rule == Rule::Date {
        world.index(c, doc! {"key": {"at": 1}, "expireAfterSeconds": 10});
    }
    let now = world.now();
    world.insert(c, documents(now, rule));
    for index in indexes.iter().skip(1).step_by(2) {
        world.index(c, index.clone());
    }
}

fn look(world: &mut World, c: &str, command: Document, look: Look) -> Bson {
    let reply = world.raw(command);
    if !matches!(look, Code)
        && let Some((code, message)) = failure(&reply)
    {
        return Bson::String(format!("error {code}: {message}"));
    }
    match look {
        Ids => {
            let mut rows = ids(&world.drain(&reply));
            rows.sort_by_key(|id| int(id).unwrap());
            Bson::Array(rows)
        }
        Order => Bson::Array(ids(&world.drain(&reply))),
        Rows => Bson::Array(
            world
                .drain(&reply)
                .into_iter()
                .map(Bson::Document)
                .collect(),
        ),
        At(path) => at(&reply, path),
        Code => Bson::Int32(failure(&reply).map_or(0, |(code, _)| code as i32)),
        Made => {
            let rows = sorted(world.ids("made", doc! {}));
            world.run(doc! {"drop": "made"});
            rows
        }
        After => sorted(world.ids(c, doc! {})),
    }
}

fn sorted(mut rows: Vec<Bson>) -> Bson {
    rows.sort_by_key(|id| int(id).unwrap());
    Bson::Array(rows)
}

/// Numbers lose their type here, because only their values matter.
fn at(reply: &Document, path: &str) -> Bson {
    let mut value = Bson::Document(reply.clone());
    for part in path.split('.') {
        value = match &value {
            Bson::Document(document) => document.get(part).cloned().unwrap_or(Bson::Null),
            Bson::Array(array) => array
                .get(part.parse::<usize>().unwrap())
                .cloned()
                .unwrap_or(Bson::Null),
            _ => Bson::Null,
        };
    }
    match int(&value) {
        Some(n) => Bson::Int32(i32::try_from(n).unwrap()),
        None => value,
    }
}

/// The combinations that are tried: all of them. In front of a cluster each costs far more, so it is one of several.
struct Sample {
    one_of: usize,
    next: usize,
}

impl Sample {
    fn new(reaper: Reaper) -> Self {
        let one_of = match (in_front_of_cluster(), genuine_cluster()) {
            (false, _) => 1,
            (true, None) => 3,
            (true, Some(_)) => 7,
        };
        let next = usize::from(reaper == Reaper::On);
        Self { one_of, next }
    }

    fn has_next(&mut self) -> bool {
        self.next += 1;
        self.next.is_multiple_of(self.one_of)
    }
}

/// Reads change nothing, so all of them use the same collection.
fn every_read(rule: Rule, reaper: Reaper) {
    let mut world = World::new(reaper);
    others(&mut world);
    let mut wrong = Vec::new();
    let mut sample = Sample::new(reaper);
    for (kind, indexes) in indexes() {
        for (after, millis) in INSTANTS {
            if !sample.has_next() {
                continue;
            }
            prepare(&mut world, "c", rule, &indexes);
            world.clock.advance(millis);
            for (name, command, what, living, ended) in reads() {
                let expected = if after { ended } else { living };
                let seen = look(&mut world, "c", command("c"), what);
                let explains = matches!(what, At("executionStats.totalDocsExamined"));
                let refused = seen
                    .as_str()
                    .is_some_and(|seen| seen.starts_with("error 238"));
                let has_no_ts = name == "find with _ts" && rule == Rule::Date;
                let differs = (has_no_ts
                    && differs_on_mongod("only collections with a DefaultTTL have _ts"))
                    || (explains && through_upstream("explain shows what the cluster runs"))
                    || (refused && through_upstream(&format!("{name} is not built")));
                if seen != expected && !differs {
                    wrong.push(format!(
                        "{name} ({kind} index) after {millis} ms: {seen} instead of {expected}"
                    ));
                }
            }
            if let Err(problem) = agree(&mut world, "c") {
                wrong.push(format!("({kind} index) after {millis} ms: {problem}"));
            }
            world.run(doc! {"drop": "c"});
        }
    }
    none_is(&wrong, rule, reaper);
}

/// Every write starts with its own collection.
fn every_write(rule: Rule, reaper: Reaper) {
    let mut world = World::new(reaper);
    others(&mut world);
    let mut wrong = Vec::new();
    let mut sample = Sample::new(reaper);
    for (kind, indexes) in indexes() {
        for (name, command, what, living, ended) in writes() {
            for (after, millis) in INSTANTS {
                if !sample.has_next() {
                    continue;
                }
                prepare(&mut world, "c", rule, &indexes);
                world.clock.advance(millis);
                let expected = if after { &ended } else { &living };
                let seen = look(&mut world, "c", command("c"), what);
                let unknown = ["error 59", "error 40415"].iter().any(|code| {
                    let seen = seen.as_str();
                    seen.is_some_and(|seen| seen.starts_with(code))
                });
                let differs = unknown && differs_on_mongod(&format!("6.0 does not know: {name}"));
                if &seen != expected && !differs {
                    wrong.push(format!(
                        "{name} ({kind} index) after {millis} ms: {seen} instead of {expected}"
                    ));
                }
                if let Err(problem) = agree(&mut world, "c") {
                    wrong.push(format!(
                        "after {name} ({kind} index) after {millis} ms: {problem}"
                    ));
                }
                world.run(doc! {"drop": "c"});
            }
        }
    }
    none_is(&wrong, rule, reaper);
}

fn none_is(wrong: &[String], rule: Rule, reaper: Reaper) {
    assert!(
        wrong.is_empty(),
        "{rule:?}, reaper {reaper:?}: {} wrong\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Whether document 1 has ended, and the milliseconds since its write.
const INSTANTS: [(bool, i64); 4] = [
    (false, 9_999),
    (true, 10_000),
    (true, 10_001),
    (true, 100_000),
];

/// Creates a collection for joins, in which nothing expires.
fn others(world: &mut World) {
    let keys = ["a", "b", "c"];
    world.insert(
        "other",
        (1..=3).map(|n| doc! {"_id": 100 + n, "ref": n, "k": (keys[n as usize - 1])}),
    );
}

/// Returns the documents that a find returns without an index and with each index.
pub fn agree(world: &mut World, c: &str) -> Result<(), String> {
    let all = world.rows(doc! {"find": c, "hint": {"$natural": 1}});
    let mut listed = world.run(doc! {"listIndexes": c});
    let (specs, ..) = batch(&std::mem::take(&mut listed));
    for spec in specs {
        let whole = !["sparse", "partialFilterExpression", "hidden"]
            .iter()
            .any(|option| spec.contains_key(option));
        if !whole {
            continue;
        }
        let name = spec.get_str("name").unwrap();
        let mut through = world.rows(doc! {"find": c, "hint": name});
        let mut plain = all.clone();
        let key = |row: &Document| row.to_string();
        through.sort_by_key(key);
        plain.sort_by_key(key);
        if through != plain {
            return Err(format!("through {name}: {through:?}, else {plain:?}"));
        }
    }
    let figures = world.run(doc! {"collStats": c});
    match figures.get("count").and_then(int) {
        Some(n) if n == all.len() as i64 => Ok(()),
        other => Err(format!("collStats counts {other:?} of {}", all.len())),
    }
}

macro_rules! cases {
    ($($name:ident: $every:ident, $rule:ident, $reaper:ident;)*) => {
        $(
            #[test]
            fn $name() {
                $every(Rule::$rule, Reaper::$reaper);
            }
        )*
    };
}

cases! {
    reads_inherited_reaper_on: every_read, Inherited, On;
    reads_inherited_reaper_off: every_read, Inherited, Off;
    reads_own_reaper_on: every_read, Own, On;
    reads_own_reaper_off: every_read, Own, Off;
    reads_date_reaper_on: every_read, Date, On;
    reads_date_reaper_off: every_read, Date, Off;
    writes_inherited_reaper_on: every_write, Inherited, On;
    writes_inherited_reaper_off: every_write, Inherited, Off;
    writes_own_reaper_on: every_write, Own, On;
    writes_own_reaper_off: every_write, Own, Off;
    writes_date_reaper_on: every_write, Date, On;
    writes_date_reaper_off: every_write, Date, Off;
}

/// One command has one `now`, and `$$NOW` is that instant.
#[test]
fn now_is_the_instant_of_the_command() {
    if differs_on_mongod("the clock of the test is not the cluster's") {
        return;
    }
    let mut world = World::new(Reaper::Off);
    world.insert("c", [doc! {"_id": 1}]);
    world.at(1_234);
    let now = date(world.now());
    world.run(update(
        "c",
        doc! {"q": {}, "u": [{"$set": {"at": "$$NOW"}}]},
    ));
    world.run(update(
        "c",
        doc! {"q": {"$expr": {"$eq": ["$at", "$$NOW"]}}, "u": {"$currentDate": {"on": true}}},
    ));
    let row = world.rows(doc! {"find": "c"}).remove(0);
    assert_eq!(row.get("at"), Some(&now));
    assert_eq!(row.get("on"), Some(&now));
}
