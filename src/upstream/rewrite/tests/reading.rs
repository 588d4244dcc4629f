//! Commands that read.

use bson::{Bson, DateTime, bson, doc};

use crate::ttl::DefaultTtl;

use super::world::{START, World, code, documents, ids, request};

#[test]
fn what_has_ended_is_not_found() {
    let mut world = World::new();
    world.default_ttl("a", 10);
    world.insert(
        bson!([{"_id": 1}, {"_id": 2, "ttl": 20}, {"_id": 3, "ttl": -1}, {"_id": 4, "ttl": "x"}]),
    );
    let rows = world.find(doc! {});
    assert_eq!(
        rows,
        bson!([{"_id": 1}, {"_id": 2, "ttl": 20}, {"_id": 3, "ttl": -1}, {"_id": 4, "ttl": "x"}])
    );
    for (wait, left) in [
        (9, bson!([1, 2, 3, 4])),
        (1, bson!([2, 3])),
        (10, bson!([3])),
    ] {
        world.wait(wait);
        let rows = world.find(doc! {});
        assert_eq!(ids(&rows), left);
        let rows = world.find(doc! {"$nor": [{"_id": 77}]});
        assert_eq!(ids(&rows), left);
        let n = left.as_array().unwrap().len() as i32;
        let count = world.run(doc! {"count": "a", "query": {}});
        assert_eq!(count.get_i32("n").ok(), Some(n), "{count}");
        let distinct = world.run(doc! {"distinct": "a", "key": "_id"});
        assert_eq!(distinct["values"], left);
        for id in 1..=4 {
            let rows = world.find(doc! {"_id": id});
            let alive = left.as_array().unwrap().contains(&id.into());
            assert_eq!(rows.as_array().unwrap().len(), usize::from(alive), "{id}");
        }
    }
}

#[test]
fn dates_end_documents() {
    let mut world = World::new();
    world.date_index("a", "at", 5);
    let at = |seconds: i64| Bson::from(DateTime::from_millis(START + seconds * 1000));
    world.insert(bson!([{"_id": 1, "at": at(0)}, {"_id": 2, "at": [at(9), at(3)]}, {"_id": 3}]));
    for (wait, left) in [(4, bson!([1, 2, 3])), (1, bson!([2, 3])), (3, bson!([3]))] {
        world.wait(wait);
        let rows = world.find(doc! {});
        assert_eq!(ids(&rows), left);
        let rows = world.rows(doc! {"find": "a", "projection": {"at": 0}, "sort": {"_id": 1}});
        assert_eq!(ids(&rows), left);
        assert!(!rows.to_string().contains("at\""), "{rows}");
        let rows = world.rows(doc! {"find": "a", "projection": {"x": 1}, "sort": {"_id": 1}});
        assert_eq!(ids(&rows), left);
        assert!(!rows.to_string().contains("at\""), "{rows}");
    }
}

#[test]
fn a_cursor_does_not_return_what_has_ended_meanwhile() {
    for projection in [
        doc! {},
        doc! {"_id": 1},
        doc! {"ttl": 0},
        doc! {"x": 0},
        doc! {"ttl": 1, "x": 1},
    ] {
        for aggregate in [false, true] {
            let mut world = World::new();
            world.default_ttl("a", 10);
            world.insert(
                bson!([{"_id": 1}, {"_id": 2, "ttl": 50}, {"_id": 3}, {"_id": 4, "ttl": -1}]),
            );
            let mut pipeline = vec![doc! {"$sort": {"_id": 1}}];
            if !projection.is_empty() {
                pipeline.push(doc! {"$project": projection.clone()});
            }
            let command = match aggregate {
                true => doc! {"aggregate": "a", "pipeline": pipeline, "cursor": {"batchSize": 1}},
                false => {
                    doc! {"find": "a", "sort": {"_id": 1}, "projection": projection.clone(), "batchSize": 1}
                }
            };
            let reply = world.run(command);
            let cursor = reply
                .get_document("cursor")
                .unwrap_or_else(|_| panic!("{reply}"));
            assert_eq!(ids(&cursor["firstBatch"]), bson!([1]));
            assert_eq!(world.cursors.len(), 1);
            world.wait(10);
            let id = cursor["id"].clone();
            let more = world.run(doc! {"getMore": id, "collection": "a"});
            let cursor = more
                .get_document("cursor")
                .unwrap_or_else(|_| panic!("{more}"));
            assert_eq!(
                ids(&cursor["nextBatch"]),
                bson!([2, 4]),
                "{projection} {aggregate}"
            );
            let text = cursor["nextBatch"].to_string();
            assert!(
                !text.contains("_sundown") && !text.contains("_ts"),
                "{text}"
            );
            let has_ttl = projection.is_empty() || projection.contains_key("x");
            assert_eq!(text.contains("ttl"), has_ttl, "{projection} {text}");
            assert!(world.cursors.is_empty());
        }
    }
}

/// A cursor is older than the rules: they hold for its rows, as far as these tell what the rule needs.
#[test]
fn a_cursor_follows_rules_that_begin_while_it_is_open() {
    let whole = doc! {"find": "a", "sort": {"_id": 1}, "batchSize": 0};
    let stages = bson!([{"$match": {}}, {"$sort": {"_id": 1}}]);
    let pipeline = doc! {"aggregate": "a", "pipeline": stages, "cursor": {"batchSize": 0}};
    let mut projected = whole.clone();
    projected.insert("projection", doc! {"_id": 1});
    let at = Bson::from(DateTime::from_millis(START - 50_000));
    type Rules = fn(&mut World);
    let none: Rules = |_| {};
    let off: Rules = |world| {
        world.default_ttl("a", 10);
        world.change("a", |rules| rules.default = DefaultTtl::Off);
    };
    let dates: Rules = |world| world.date_index("a", "other", 5);
    let ten: Rules = |world| world.default_ttl("a", 10);
    let on_at: Rules = |world| world.date_index("a", "at", 5);
    for (before, command, after, left) in [
        (none, &whole, ten, bson!([2])),
        (none, &pipeline, ten, bson!([2])),
        (none, &whole, on_at, bson!([1, 2])),
        (off, &whole, ten, bson!([2])),
        (off, &pipeline, ten, bson!([2])),
        (off, &projected, ten, bson!([2])),
        (dates, &whole, ten, bson!([2])),
        (dates, &pipeline, on_at, bson!([1, 2])),
        // Nobody knows what the rule needs.
        (none, &projected, ten, bson!([1, 2, 3])),
        (off, &projected, on_at, bson!([1, 2, 3])),
    ] {
        let mut world = World::new();
        before(&mut world);
        world.insert(bson!([{"_id": 1}, {"_id": 2, "ttl": -1}, {"_id": 3, "at": at.clone()}]));
        let reply = world.run(command.clone());
        let cursor = reply.get_document("cursor").unwrap();
        let id = cursor["id"].clone();
        after(&mut world);
        world.wait(10);
        let more = world.run(doc! {"getMore": id, "collection": "a"});
        let rows = &more.get_document("cursor").unwrap()["nextBatch"];
        assert_eq!(ids(rows), left, "{command}");
        assert!(!rows.to_string().contains("_sundown"), "{rows}");
    }
}

#[test]
fn ts_is_shown_to_those_who_name_it() {
    let mut world = World::new();
    world.default_ttl("a", 100);
    world.insert(bson!([{"_id": 1, "_ts": 5, "x": 1}]));
    world.run(doc! {"update": "a", "updates": [{"q": {"_id": 1}, "u": {"$set": {"later": 1}}}]});
    let ts = START / 1000;
    let shown = bson!([{"_id": 1, "x": 1, "later": 1, "_ts": ts}]);
    let hidden = bson!([{"_id": 1, "x": 1, "later": 1}]);
    let rows = [
        (doc! {"find": "a"}, &hidden),
        (doc! {"find": "a", "filter": {"_id": 1}}, &hidden),
        (doc! {"find": "a", "filter": {"_ts": {"$gt": 0}}}, &shown),
        (doc! {"find": "a", "sort": {"_ts": 1}}, &shown),
        (doc! {"find": "a", "projection": {"_ts": 0}}, &hidden),
        (doc! {"find": "a", "projection": {"_sundowner": 0}}, &hidden),
        (
            doc! {"aggregate": "a", "pipeline": [], "cursor": {}},
            &hidden,
        ),
        (
            doc! {"aggregate": "a", "pipeline": [{"$match": {"_ts": {"$gt": 0}}}], "cursor": {}},
            &shown,
        ),
    ];
    for (command, expected) in rows {
        assert_eq!(&world.rows(command.clone()), expected, "{command}");
    }
    let rows = world.rows(doc! {"find": "a", "projection": {"_ts": 1, "x": 1}});
    assert_eq!(rows, bson!([{"_id": 1, "x": 1, "_ts": ts}]));
    let rows = world.rows(doc! {"find": "a", "projection": {"r": "$$ROOT"}});
    assert_eq!(
        rows,
        bson!([{"_id": 1, "r": {"_id": 1, "x": 1, "later": 1}}])
    );
    world.expose_ts = true;
    if world.is_mongod() {
        assert_eq!(world.rows(doc! {"find": "a"}), shown);
    }
}

#[test]
fn a_positional_projection_is_counted_here() {
    let mut world = World::new();
    world.default_ttl("a", 10);
    let list = |id: i32, ttl: i32| bson!({"_id": id, "ttl": ttl, "l": [1, id, 9]});
    let rows: Vec<Bson> = (2..9)
        .map(|id| list(id, if id % 2 == 0 { 5 } else { 50 }))
        .collect();
    world.insert(rows.into());
    world.wait(5);
    let find = |skip: i32, limit: i32, single: bool| {
        doc! {"find": "a", "filter": {"l": {"$gte": 2}}, "projection": {"l.$": 1}, "sort": {"_id": 1},
        "skip": skip, "limit": limit, "singleBatch": single, "batchSize": 2}
    };
    let rows = world.rows(find(1, 1, true));
    assert_eq!(rows, bson!([{"_id": 5, "l": [5]}]));
    // The batch is as large as the cluster's. What has ended is missing in it.
    let reply = world.run(find(0, 2, false));
    let cursor = reply.get_document("cursor").unwrap();
    assert_eq!(cursor["firstBatch"], bson!([{"_id": 3, "l": [3]}]));
    let more = world.run(doc! {"getMore": cursor["id"].clone(), "collection": "a"});
    let cursor = more.get_document("cursor").unwrap();
    assert_eq!(cursor["nextBatch"], bson!([{"_id": 5, "l": [5]}]));
    assert_eq!(cursor.get_i64("id").ok(), Some(0));
    assert!(world.cursors.is_empty());

    let reply = world.run(
        doc! {"findAndModify": "a", "query": {"l": {"$gte": 2}}, "sort": {"_id": 1},
        "update": {"$set": {"x": 1}}, "fields": {"l.$": 1}},
    );
    assert_eq!(reply["value"], bson!({"_id": 3, "l": [3]}), "{reply}");
    let reply = world
        .run(doc! {"findAndModify": "a", "query": {"l": 8}, "remove": true, "fields": {"l.$": 1}});
    assert_eq!(reply["value"], Bson::Null, "{reply}");
}

#[test]
fn collections_without_rules_pass_byte_for_byte() {
    let mut world = World::new();
    world.default_ttl("a", 10);
    let commands = [
        doc! {"find": "plain", "filter": {"_sundown": 1}, "$readPreference": {"mode": "primary"}},
        doc! {"aggregate": "plain", "pipeline": [{"$lookup": {"from": "b", "localField": "x", "foreignField": "y", "as": "z"}}], "cursor": {}},
        doc! {"insert": "plain", "documents": [{"_ts": 1, "_sundown": 2}]},
        doc! {"explain": {"count": "plain"}},
    ];
    for command in commands {
        let request = request(command);
        let sent = request.body.clone();
        world.send(request);
        assert_eq!(world.cluster.bytes.pop(), Some(sent));
    }
}

#[test]
fn what_is_refused() {
    let mut world = World::new();
    world.default_ttl("a", 10);
    world.insert(documents(0..3));
    let lookup = |from: Bson| doc! {"aggregate": "a", "pipeline": [{"$lookup": {"from": from, "as": "x", "pipeline": []}}], "cursor": {}};
    let rows = [
        (doc! {"find": "a", "filter": {"_sundown": 1}}, 2),
        (
            doc! {"find": "a", "filter": {"$or": [{"x": 1}, {"_sundown.a": 1}]}},
            2,
        ),
        (
            doc! {"find": "a", "filter": {"$expr": {"$gt": ["$_sundown", 1]}}},
            2,
        ),
        (
            doc! {"find": "a", "filter": {"$expr": {"$gt": ["$$ROOT._sundown", 1]}}},
            2,
        ),
        (doc! {"find": "a", "sort": {"_sundown": 1}}, 2),
        (doc! {"find": "a", "projection": {"_sundown": 1}}, 2),
        (doc! {"find": "a", "hint": {"_sundown": 1}}, 2),
        (doc! {"distinct": "a", "key": "_sundown"}, 2),
        (
            doc! {"aggregate": "a", "pipeline": [{"$unset": ["x", "_sundown"]}], "cursor": {}},
            2,
        ),
        (
            doc! {"aggregate": "a", "pipeline": [{"$group": {"_id": "$_sundown"}}], "cursor": {}},
            2,
        ),
        (doc! {"insert": "a", "documents": [{"_sundown": 1}]}, 2),
        (
            doc! {"update": "a", "updates": [{"q": {}, "u": {"$set": {"_sundown": 1}}}]},
            2,
        ),
        (
            doc! {"update": "a", "updates": [{"q": {}, "u": {"$rename": {"x": "_sundown"}}}]},
            2,
        ),
        (
            doc! {"update": "a", "updates": [{"q": {}, "u": {"_sundown": 1}}]},
            2,
        ),
        (
            doc! {"update": "a", "updates": [{"q": {}, "u": {"$set": {"_ts": 1}}}]},
            2,
        ),
        (
            doc! {"update": "a", "updates": [{"q": {}, "u": {"$rename": {"x": "_ts"}}}]},
            2,
        ),
        (
            doc! {"update": "a", "updates": [{"q": {}, "u": [{"$unset": "_ts"}]}]},
            2,
        ),
        (doc! {"find": "x", "$db": "local"}, 13),
        (doc! {"find": "x", "$db": "sundown"}, 13),
        (lookup(bson!({"db": "sundown", "coll": "c"})), 13),
        (
            doc! {"aggregate": "a", "pipeline": [{"$out": {"db": "local", "coll": "c"}}], "cursor": {}},
            13,
        ),
        (doc! {"find": "a", "filter": {"$where": "true"}}, 238),
        (
            doc! {"find": "a", "filter": {"$jsonSchema": {"maxProperties": 3}}},
            238,
        ),
        (
            doc! {"aggregate": "a", "pipeline": [{"$new": 1}], "cursor": {}},
            238,
        ),
        (doc! {"mapReduce": "a"}, 238),
    ];
    for (command, expected) in rows {
        let reply = world.run(command.clone());
        assert_eq!(code(&reply), expected, "{command} {reply}");
    }
    // The word alone is no name.
    let rows = [
        doc! {"find": "a", "filter": {"x": "_sundown"}},
        doc! {"find": "a", "filter": {"x": "_sundown.y", "z": {"$in": ["_sundown"]}}},
        doc! {"insert": "a", "documents": [{"x": {"_sundown": 1}}]},
    ];
    for command in rows {
        let reply = world.run(command.clone());
        assert_eq!(code(&reply), 0, "{command} {reply}");
    }
}
