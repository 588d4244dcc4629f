//! Aggregations.

use bson::{Bson, Document, bson, doc};

use super::world::World;

fn world() -> World {
    let mut world = World::new();
    world.default_ttl("a", 10);
    world.default_ttl("b", 10);
    world.insert(
        bson!([{"_id": 1, "x": 1}, {"_id": 2, "x": 2, "ttl": 100}, {"_id": 3, "x": 2, "ttl": -1}]),
    );
    world.run(
        doc! {"insert": "b", "documents": [{"_id": 1, "y": 2}, {"_id": 2, "y": 2, "ttl": -1}]},
    );
    world.run(doc! {"insert": "plain", "documents": [{"_id": 1, "y": 2}]});
    world.wait(10);
    world
}

#[test]
fn no_stage_sees_what_has_ended_or_is_hidden() {
    let mut world = world();
    let two = || bson!({"_id": 2, "x": 2, "ttl": 100});
    let three = || bson!({"_id": 3, "x": 2, "ttl": -1});
    let b = || bson!({"_id": 2, "y": 2, "ttl": -1});
    let sort = || bson!({"$sort": {"_id": 1}});
    let rows: Vec<(Bson, Bson)> = vec![
        (bson!([sort()]), bson!([two(), three()])),
        (
            bson!([{"$match": {"x": 2}}, sort(), {"$limit": 1}]),
            bson!([two()]),
        ),
        (bson!([{"$count": "n"}]), bson!([{"n": 2}])),
        (
            bson!([sort(), {"$group": {"_id": null, "all": {"$push": "$$ROOT"}}}]),
            bson!([{"_id": null, "all": [two(), three()]}]),
        ),
        (
            bson!([{"$match": {"_id": 2}}, {"$replaceWith": {"r": "$$ROOT"}}]),
            bson!([{"r": two()}]),
        ),
        (
            bson!([{"$match": {"_id": 2}}, {"$project": {"_id": 0, "n": {"$size": {"$objectToArray": "$$ROOT"}}}}]),
            bson!([{"n": 3}]),
        ),
        (
            bson!([{"$match": {"_id": 2}}, {"$project": {"x": 1}}, {"$addFields": {"t": "$ttl"}}]),
            bson!([{"_id": 2, "x": 2}]),
        ),
        (
            bson!([{"$facet": {"f": [sort()], "n": [{"$count": "n"}]}}]),
            bson!([{"f": [two(), three()], "n": [{"n": 2}]}]),
        ),
        (
            bson!([{"$match": {"_id": 2}}, {"$lookup": {"from": "b", "localField": "x", "foreignField": "y", "as": "j"}}]),
            bson!([{"_id": 2, "x": 2, "ttl": 100, "j": [b()]}]),
        ),
        (
            bson!([{"$match": {"_id": 2}}, {"$lookup": {"from": "b", "let": {"v": "$x"}, "pipeline": [{"$match": {"$expr": {"$eq": ["$y", "$$v"]}}}], "as": "j"}}]),
            bson!([{"_id": 2, "x": 2, "ttl": 100, "j": [b()]}]),
        ),
        (
            bson!([{"$match": {"_id": 2}}, {"$lookup": {"from": "plain", "let": {"d": "$$ROOT"}, "pipeline": [{"$lookup": {"from": "b", "pipeline": [], "as": "k"}}, {"$set": {"d": "$$d"}}], "as": "j"}}]),
            bson!([{"_id": 2, "x": 2, "ttl": 100, "j": [{"_id": 1, "y": 2, "k": [b()], "d": two()}]}]),
        ),
        (
            bson!([{"$match": {"_id": 3}}, {"$unionWith": "b"}]),
            bson!([three(), b()]),
        ),
        (
            bson!([{"$match": {"_id": 3}}, {"$unionWith": {"coll": "b", "pipeline": [{"$project": {"_id": 1}}]}}]),
            bson!([three(), {"_id": 2}]),
        ),
    ];
    for (pipeline, expected) in rows {
        let rows = world.rows(doc! {"aggregate": "a", "pipeline": pipeline.clone(), "cursor": {}});
        assert_eq!(rows, expected, "{pipeline}");
    }
    // Another collection with rules, read from one without.
    let rows = world.rows(doc! {"aggregate": "plain", "pipeline": [{"$lookup": {"from": "b", "localField": "y", "foreignField": "y", "as": "j"}}], "cursor": {}});
    assert_eq!(rows, bson!([{"_id": 1, "y": 2, "j": [b()]}]));
    if !world.is_mongod() {
        // A name that is computed. (6.0 wants a constant.)
        let name = bson!({"$concat": ["_sun", "down"]});
        let rows = world.rows(doc! {"aggregate": "a", "pipeline": [{"$match": {"_id": 2}},
        {"$set": {"g": {"$getField": {"field": name, "input": "$$ROOT"}}}}], "cursor": {}});
        assert_eq!(rows, bson!([two()]));
    }
    if world.is_mongod() {
        let graph = bson!([{"$match": {"_id": 2}}, {"$graphLookup": {"from": "b", "startWith": "$x", "connectFromField": "y", "connectToField": "y", "as": "j"}}]);
        let rows = world.rows(doc! {"aggregate": "a", "pipeline": graph, "cursor": {}});
        assert_eq!(rows, bson!([{"_id": 2, "x": 2, "ttl": 100, "j": [b()]}]));
    }
}

fn stored(world: &mut World, collection: &str) -> Vec<Document> {
    let reply = world.straight(doc! {"find": collection, "sort": {"_id": 1}});
    let cursor = reply.get_document("cursor").unwrap();
    let rows = cursor.get_array("firstBatch").unwrap();
    rows.iter()
        .map(|row| row.as_document().unwrap().clone())
        .collect()
}

#[test]
fn rows_that_are_stored_get_the_stamp_of_their_target() {
    let mut world = world();
    let reply = world.run(doc! {"aggregate": "a", "pipeline": [{"$merge": "plain"}], "cursor": {}});
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    let rows = stored(&mut world, "plain");
    assert_eq!(rows.len(), 3);
    assert!(
        rows.iter()
            .all(|row| !row.contains_key("_sundown") && !row.contains_key("_ts")),
        "{rows:?}"
    );

    // The ended document of the target is not matched, but replaced.
    let matched =
        bson!({"into": "b", "whenMatched": [{"$set": {"new": "$$new", "old": "$$ROOT"}}]});
    let reply =
        world.run(doc! {"aggregate": "plain", "pipeline": [{"$merge": matched}], "cursor": {}});
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    let rows = stored(&mut world, "b");
    let now = world.now;
    let stamps: Vec<i64> = rows
        .iter()
        .map(|row| row.get_datetime("_sundown").unwrap().timestamp_millis())
        .collect();
    assert_eq!(stamps, [now, now, now], "{rows:?}");
    let row = &rows[1];
    assert_eq!(row["new"], bson!({"_id": 2, "x": 2, "ttl": 100}));
    assert_eq!(row["old"], bson!({"_id": 2, "y": 2, "ttl": -1}));

    let reply = world.run(
        doc! {"aggregate": "a", "pipeline": [{"$match": {"_id": 2}}, {"$out": "b"}], "cursor": {}},
    );
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    let rows = stored(&mut world, "b");
    assert_eq!(rows.len(), 1);
    assert_eq!(
        rows[0].get_datetime("_sundown").unwrap().timestamp_millis(),
        now
    );
}

#[test]
fn explain_shows_what_the_cluster_runs() {
    let mut world = world();
    for command in [
        doc! {"find": "a", "filter": {"x": 1}},
        doc! {"count": "a", "query": {"x": 1}},
        doc! {"aggregate": "a", "pipeline": [], "cursor": {}},
        doc! {"update": "a", "updates": [{"q": {"x": 1}, "u": {"$set": {"x": 2}}}]},
        doc! {"delete": "a", "deletes": [{"q": {"x": 1}, "limit": 1}]},
    ] {
        let reply = world.run(doc! {"explain": command.clone(), "verbosity": "queryPlanner"});
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{command} {reply}");
        let asked = world.cluster.asked.last().unwrap();
        assert!(asked.to_string().contains("_sundown"), "{asked}");
    }
}
