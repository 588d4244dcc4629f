//! Random commands: the rules in front of a cluster, and the in-memory engine with the same default, answer alike.

use bson::{Bson, Document, bson, doc};
use proptest::prelude::*;

use super::world::{PlainServer, START, World};

/// A step of a test.
#[derive(Debug, Clone)]
enum Step {
    Wait(i64),
    Run(Document),
}

fn ttl() -> impl Strategy<Value = Option<Bson>> {
    prop_oneof![
        3 => Just(None),
        3 => (1..6i32).prop_map(|n| Some(n.into())),
        1 => Just(Some(Bson::from(-1))),
        1 => Just(Some(Bson::from("x"))),
        1 => Just(Some(Bson::from(2.5))),
        1 => Just(Some(bson!([3]))),
        1 => Just(Some(Bson::Null)),
    ]
}

fn document() -> impl Strategy<Value = Document> {
    (0..5i32, 0..3i32, ttl()).prop_map(|(id, x, ttl)| {
        let mut document = doc! {"_id": id, "x": x, "l": [x, x + 1]};
        document.extend(ttl.map(|ttl| ("ttl".to_owned(), ttl)));
        document
    })
}

fn filter() -> impl Strategy<Value = Document> {
    prop_oneof![
        Just(doc! {}),
        (0..5i32).prop_map(|id| doc! {"_id": id}),
        (0..5i32).prop_map(|id| doc! {"_id": {"$gte": id}}),
        (0..3i32).prop_map(|x| doc! {"x": x}),
        (0..3i32).prop_map(|x| doc! {"l": x}),
        (0..3i32).prop_map(|x| doc! {"$nor": [{"x": x}]}),
        Just(doc! {"ttl": {"$exists": true}}),
        Just(doc! {"$expr": {"$gt": [{"$size": {"$objectToArray": "$$ROOT"}}, 3]}}),
    ]
}

fn change() -> impl Strategy<Value = Bson> {
    prop_oneof![
        (0..3i32).prop_map(|x| bson!({"$set": {"x": x}})),
        (1..6i32).prop_map(|n| bson!({"$set": {"ttl": n}})),
        Just(bson!({"$unset": {"ttl": 1}})),
        Just(bson!({"$inc": {"n": 1}})),
        Just(bson!({"r": 1})),
        Just(bson!({"r": 1, "ttl": 2, "_ts": 7})),
        Just(bson!([{"$set": {"n": {"$size": {"$objectToArray": "$$ROOT"}}}}])),
        Just(bson!({"$set": {"_ts": 1}})),
    ]
}

fn pipeline() -> impl Strategy<Value = Bson> {
    let sort = bson!({"$sort": {"_id": 1}});
    prop_oneof![
        filter().prop_map(move |filter| bson!([{"$match": filter}, sort.clone()])),
        Just(bson!([{"$group": {"_id": "$x", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}])),
        Just(bson!([{"$sort": {"_id": 1}}, {"$group": {"_id": null, "d": {"$push": "$$ROOT"}}}])),
        Just(bson!([{"$sort": {"_id": 1}}, {"$project": {"x": 1}}, {"$limit": 3}])),
        Just(bson!([{"$sort": {"_id": 1}}, {"$project": {"ttl": 0}}, {"$skip": 1}])),
        Just(
            bson!([{"$lookup": {"from": "a", "localField": "x", "foreignField": "x", "pipeline": [{"$sort": {"_id": 1}}], "as": "j"}}, {"$sort": {"_id": 1}}])
        ),
        Just(bson!([{"$facet": {"n": [{"$count": "n"}]}}])),
        Just(
            bson!([{"$match": {"_id": 1}}, {"$unionWith": {"coll": "a", "pipeline": [{"$match": {"_id": 2}}]}}])
        ),
        Just(bson!([{"$unwind": "$l"}, {"$sort": {"_id": 1, "l": 1}}])),
        Just(bson!([{"$sort": {"_id": 1}}, {"$set": {"ttl": 1}}])),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let projection = prop_oneof![
        Just(doc! {}),
        Just(doc! {"x": 1}),
        Just(doc! {"_id": 0, "ttl": 1}),
        Just(doc! {"ttl": 0}),
        Just(doc! {"r": "$$ROOT"}),
        Just(doc! {"l": {"$slice": 1}}),
        Just(doc! {"ttl": "$x"}),
    ];
    let find = (filter(), projection, 0..3i32, 0..3i32).prop_map(|(filter, projection, skip, limit)| {
        doc! {"find": "a", "filter": filter, "projection": projection, "sort": {"_id": 1}, "skip": skip, "limit": limit}
    });
    let positional = (0..3i32, 0..3i32, 0..3i32).prop_map(|(x, skip, limit)| {
        doc! {"find": "a", "filter": {"l": x}, "projection": {"l.$": 1}, "sort": {"_id": 1}, "skip": skip, "limit": limit}
    });
    let insert = (prop::collection::vec(document(), 1..4), any::<bool>()).prop_map(
        |(documents, ordered)| {
            doc! {"insert": "a", "documents": documents, "ordered": ordered}
        },
    );
    let update = (filter(), change(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(filter, change, multi, upsert, ordered)| {
            // An upsert needs an `_id`, since the servers make different ones.
            let upsert = upsert && filter.get_i32("_id").is_ok();
            let multi = multi && change.as_document().is_some_and(|doc| doc.keys().all(|key| key.starts_with('$')));
            doc! {"update": "a", "updates": [{"q": filter, "u": change, "multi": multi, "upsert": upsert}], "ordered": ordered}
        },
    );
    let delete = (filter(), 0..2i32).prop_map(|(filter, limit)| {
        doc! {"delete": "a", "deletes": [{"q": filter, "limit": limit}]}
    });
    let modify = (filter(), change(), any::<bool>(), any::<bool>()).prop_map(|(filter, change, new, upsert)| {
        let upsert = upsert && filter.get_i32("_id").is_ok();
        doc! {"findAndModify": "a", "query": filter, "update": change, "sort": {"_id": 1}, "new": new, "upsert": upsert}
    });
    let remove = filter().prop_map(|filter| {
        doc! {"findAndModify": "a", "query": filter, "sort": {"_id": 1}, "remove": true}
    });
    let counts = filter().prop_map(|filter| doc! {"count": "a", "query": filter});
    let distinct =
        filter().prop_map(|filter| doc! {"distinct": "a", "key": "_id", "query": filter});
    let aggregate =
        pipeline().prop_map(|pipeline| doc! {"aggregate": "a", "pipeline": pipeline, "cursor": {}});
    prop_oneof![
        4 => (1..4i64).prop_map(Step::Wait),
        4 => insert.prop_map(Step::Run),
        4 => update.prop_map(Step::Run),
        1 => delete.prop_map(Step::Run),
        2 => modify.prop_map(Step::Run),
        1 => remove.prop_map(Step::Run),
        4 => find.prop_map(Step::Run),
        2 => positional.prop_map(Step::Run),
        1 => counts.prop_map(Step::Run),
        1 => distinct.prop_map(Step::Run),
        4 => aggregate.prop_map(Step::Run),
    ]
}

/// Returns what must be the same: `nModified` counts the stamp, and a reply has times and ids.
fn essence(mut reply: Document) -> Document {
    for name in [
        "nModified",
        "operationTime",
        "$clusterTime",
        "errmsg",
        "codeName",
    ] {
        reply.remove(name);
    }
    if let Some(Bson::Array(errors)) = reply.get_mut("writeErrors") {
        for error in errors {
            *error = bson!({"index": error.as_document().unwrap()["index"].clone(),
                "code": error.as_document().unwrap()["code"].clone()});
        }
    }
    if let Ok(rows) = reply
        .get_document("cursor")
        .map(|cursor| cursor["firstBatch"].clone())
    {
        return doc! {"rows": rows};
    }
    for name in ["keyPattern", "keyValue"] {
        reply.remove(name);
    }
    // Field order is the servers' own.
    let mut fields: Vec<(String, Bson)> = reply.into_iter().collect();
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    fields.into_iter().collect()
}

/// Leaves no choice to the server. After a takeover, the documents of an unordered insert come in another order. So they
/// may not compete for a key, and no statement may take just any one of the documents that match.
fn one_meaning(command: &mut Document, unique: bool) {
    if unique && command.contains_key("ordered") {
        command.insert("ordered", true);
    }
    for (name, filter) in [("updates", "q"), ("deletes", "q")] {
        let Ok(statements) = command.get_array_mut(name) else {
            continue;
        };
        for statement in statements.iter_mut().filter_map(Bson::as_document_mut) {
            let one = statement.get_bool("multi").ok() == Some(false)
                || statement.get_i32("limit").ok() == Some(1);
            let by_id = statement
                .get_document(filter)
                .is_ok_and(|q| q.get_i32("_id").is_ok());
            if one && !by_id {
                statement.insert(filter, doc! {"_id": 1});
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, max_shrink_iters: 2000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn both_answer_alike(
        steps in prop::collection::vec(step(), 1..40),
        default in prop_oneof![Just(-1), 1..6i64],
        unique in any::<bool>(),
    ) {
        let mut world = World::plain();
        world.default_ttl("a", default);
        let mut engine = PlainServer::new();
        engine.run(doc! {"create": "a", "defaultTtl": default});
        world.straight(doc! {"create": "a"});
        if unique {
            let index = doc! {"createIndexes": "a", "indexes": [{"key": {"x": 1}, "name": "x", "unique": true}]};
            world.straight(index.clone());
            engine.run(index);
        }
        for step in steps {
            match step {
                Step::Wait(seconds) => {
                    world.wait(seconds);
                    engine.set(START + (world.now - START));
                }
                Step::Run(mut command) => {
                    one_meaning(&mut command, unique);
                    let ours = essence(world.run(command.clone()));
                    let theirs = essence(engine.run(command.clone()));
                    prop_assert_eq!(ours, theirs, "{}", command);
                }
            }
        }
    }
}
