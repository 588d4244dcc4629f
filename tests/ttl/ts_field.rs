//! `_ts` as clients see it: hidden, unless it is named.

use bson::{Bson, Document, doc};

use sundown::clock::{Clock, Millis};

use crate::support::world::{Reaper, START, World, differs_on_mongod, int};

const SECOND: i64 = START / 1000;

fn world() -> World {
    let mut world = World::new(Reaper::On);
    world.keep_ts("c");
    world.at(1_999);
    world.insert("c", [doc! {"_id": 1, "a": 1, "n": {"_ts": "mine"}}]);
    world.at(3_000);
    world.insert("c", [doc! {"_id": 2, "a": 2}]);
    world
}

#[test]
fn ts_is_hidden_unless_it_is_named() {
    let mut world = world();
    let one = doc! {"_id": 1, "a": 1, "n": {"_ts": "mine"}};
    let two = doc! {"_id": 2, "a": 2};
    let with = |document: &Document, second: i64| {
        let mut document = document.clone();
        document.insert("_ts", SECOND + second);
        document
    };
    let (one_ts, two_ts) = (with(&one, 1), with(&two, 3));
    let rows: Vec<(Document, Vec<Document>)> = vec![
        (doc! {"find": "c"}, vec![one.clone(), two.clone()]),
        (doc! {"find": "c", "filter": {"_id": 1}}, vec![one.clone()]),
        (
            doc! {"find": "c", "filter": {"n._ts": "mine"}},
            vec![one.clone()],
        ),
        (
            doc! {"find": "c", "projection": {"a": 1}},
            vec![doc! {"_id": 1, "a": 1}, doc! {"_id": 2, "a": 2}],
        ),
        (
            doc! {"find": "c", "filter": {"_ts": {"$gt": 0}}},
            vec![one_ts.clone(), two_ts.clone()],
        ),
        (
            doc! {"find": "c", "filter": {"_ts": SECOND + 1}},
            vec![one_ts.clone()],
        ),
        (
            doc! {"find": "c", "filter": {"_ts": {"$gt": SECOND + 1}}},
            vec![two_ts.clone()],
        ),
        (
            doc! {"find": "c", "filter": {"_id": 1, "_ts": SECOND + 1}},
            vec![one_ts.clone()],
        ),
        (doc! {"find": "c", "filter": {"_id": 1, "_ts": 0}}, vec![]),
        (
            doc! {"find": "c", "filter": {"$or": [{"_ts": SECOND + 3}, {"a": 99}]}},
            vec![two_ts.clone()],
        ),
        (
            doc! {"find": "c", "filter": {"$expr": {"$eq": ["$_ts", SECOND + 3]}}},
            vec![two_ts.clone()],
        ),
        (
            doc! {"find": "c", "sort": {"_ts": -1}},
            vec![two_ts.clone(), one_ts.clone()],
        ),
        (
            doc! {"find": "c", "projection": {"_ts": 1}},
            vec![
                doc! {"_id": 1, "_ts": SECOND + 1},
                doc! {"_id": 2, "_ts": SECOND + 3},
            ],
        ),
        (
            doc! {"find": "c", "filter": {"_id": 1}, "projection": {"_ts": 1, "a": 1}},
            vec![doc! {"_id": 1, "a": 1, "_ts": SECOND + 1}],
        ),
        (
            doc! {"find": "c", "filter": {"_id": 2}, "projection": {"_ts": 0}},
            vec![two.clone()],
        ),
        (
            doc! {"find": "c", "filter": {"_id": 2}, "projection": {"t": "$_ts"}},
            vec![doc! {"_id": 2, "t": SECOND + 3}],
        ),
        (
            doc! {"aggregate": "c", "pipeline": [], "cursor": {}},
            vec![one.clone(), two.clone()],
        ),
        (
            doc! {"aggregate": "c", "pipeline": [{"$match": {"_ts": {"$gt": SECOND + 1}}}], "cursor": {}},
            vec![two_ts.clone()],
        ),
        (
            doc! {"aggregate": "c", "pipeline": [{"$match": {"a": 2}}, {"$project": {"t": "$_ts"}}], "cursor": {}},
            vec![doc! {"_id": 2, "t": SECOND + 3}],
        ),
        (
            doc! {"aggregate": "c", "pipeline": [{"$sort": {"_ts": -1}}], "cursor": {}},
            vec![two_ts.clone(), one_ts.clone()],
        ),
        (
            doc! {"aggregate": "c", "pipeline": [{"$group": {"_id": null, "last": {"$max": "$_ts"}}}], "cursor": {}},
            vec![doc! {"_id": null, "last": SECOND + 3}],
        ),
    ];
    for (command, expected) in rows {
        let found = world.rows(command.clone());
        assert_eq!(found, expected, "{command}");
        for (found, expected) in found.iter().zip(&expected) {
            // The last field, an int64.
            assert_eq!(
                found.to_vec().unwrap(),
                expected.to_vec().unwrap(),
                "{command}"
            );
        }
    }
    let distinct = world.run(doc! {"distinct": "c", "key": "_ts"});
    assert_eq!(
        distinct.get_array("values").unwrap(),
        &[Bson::Int64(SECOND + 1), Bson::Int64(SECOND + 3)]
    );
    let counted = world.run(doc! {"count": "c", "query": {"_ts": {"$lt": SECOND + 3}}});
    assert_eq!(counted.get("n").and_then(int), Some(1));
}

/// `_ts` is named through a variable, through a document that was stored in another field, or by `$getField`. The rule is
/// in `src/query/survey.rs`.
#[test]
fn ts_named_in_indirect_ways() {
    let mut world = world();
    let two = || doc! {"$match": {"_id": 2}};
    let root = || doc! {"$let": {"vars": {"d": "$$ROOT"}, "in": "$$d._ts"}};
    let push = || doc! {"$group": {"_id": null, "d": {"$push": "$$ROOT"}}};
    let computed =
        || doc! {"$getField": {"field": {"$cond": ["$a", "_ts", "a"]}, "input": "$$ROOT"}};
    let t = doc! {"_id": 2, "t": SECOND + 3};
    let with_ts = doc! {"_id": 2, "a": 2, "_ts": SECOND + 3};
    let without = doc! {"_id": 2, "a": 2};
    let mut rows: Vec<(Vec<Document>, Document)> = vec![
        (vec![two(), doc! {"$project": {"t": root()}}], t.clone()),
        (
            vec![
                two(),
                doc! {"$project": {"t": {"$getField": {"$literal": "_ts"}}}},
            ],
            t.clone(),
        ),
        (
            vec![
                two(),
                push(),
                doc! {"$project": {"t": {"$first": "$d._ts"}}},
            ],
            doc! {"_id": null, "t": SECOND + 3},
        ),
        (
            vec![
                two(),
                push(),
                doc! {"$set": {"x": "$d._ts"}},
                doc! {"$unset": "x"},
            ],
            doc! {"_id": null, "d": [with_ts]},
        ),
        (
            vec![
                two(),
                doc! {"$lookup": {"from": "c", "localField": "_id", "foreignField": "_id", "as": "j"}},
                doc! {"$project": {"t": {"$first": "$j._ts"}}},
            ],
            t.clone(),
        ),
        // Nothing names `_ts`.
        (
            vec![two(), push()],
            doc! {"_id": null, "d": [without.clone()]},
        ),
        (
            vec![
                two(),
                push(),
                doc! {"$unwind": "$d"},
                doc! {"$replaceWith": "$d"},
            ],
            without,
        ),
        (
            vec![
                two(),
                doc! {"$project": {"n": {"$size": {"$objectToArray": "$$ROOT"}}}},
            ],
            doc! {"_id": 2, "n": 2},
        ),
        (
            vec![doc! {"$match": {"n._ts": "mine"}}],
            doc! {"_id": 1, "a": 1, "n": {"_ts": "mine"}},
        ),
    ];
    if !differs_on_mongod("$getField of 6.0 takes constant names only") {
        rows.push((vec![two(), doc! {"$project": {"t": computed()}}], t));
    }
    for (pipeline, expected) in rows {
        let command = doc! {"aggregate": "c", "pipeline": pipeline, "cursor": {}};
        assert_eq!(world.rows(command.clone()), [expected], "{command}");
    }
    let find = doc! {"find": "c", "filter": {"_id": 2}, "projection": {"t": root()}};
    assert_eq!(world.rows(find), [doc! {"_id": 2, "t": SECOND + 3}]);
    let find = doc! {"find": "c", "filter": {"$jsonSchema": {"properties": {"_ts": {"maximum": SECOND + 1}}}}, "projection": {"a": 1}};
    assert_eq!(world.rows(find), [doc! {"_id": 1, "a": 1}]);
    world.at(5_000);
    world.run(doc! {"update": "c", "updates": [{"q": {"_id": 2}, "u": [{"$set": {"t": root()}}]}]});
    assert_eq!(
        world.rows(doc! {"find": "c", "filter": {"_id": 2}}),
        [doc! {"_id": 2, "a": 2, "t": SECOND + 3}]
    );
}

#[test]
fn writes_can_select_by_ts() {
    let mut world = world();
    let done = world.run(doc! {"update": "c", "updates": [{"q": {"_ts": SECOND + 3}, "u": {"$set": {"hit": true}}, "multi": true}]});
    assert_eq!(done.get("n").and_then(int), Some(1));
    assert_eq!(world.int_ids("c", doc! {"hit": true}), [2]);
    world.at(10_000);
    let gone = world
        .run(doc! {"delete": "c", "deletes": [{"q": {"_ts": {"$lt": SECOND + 3}}, "limit": 0}]});
    assert_eq!(gone.get("n").and_then(int), Some(1));
    assert_eq!(world.int_ids("c", doc! {}), [2]);
    let done = world.run(doc! {"findAndModify": "c", "query": {"_id": 2}, "update": {"$set": {"x": 1}}, "fields": {"_ts": 1}, "new": true});
    assert_eq!(
        done.get_document("value").unwrap(),
        &doc! {"_id": 2, "_ts": SECOND + 10}
    );
    let done =
        world.run(doc! {"findAndModify": "c", "query": {"_id": 2}, "update": {"$set": {"x": 2}}});
    assert!(!done.get_document("value").unwrap().contains_key("_ts"));
}

/// The key of an index on `_ts` contains it, even if the command does not name it.
#[test]
fn return_key_contains_ts() {
    let mut world = world();
    world.index("c", doc! {"key": {"_ts": -1, "a": 1}});
    for command in [
        doc! {"find": "c", "hint": {"_ts": -1, "a": 1}, "returnKey": true},
        doc! {"find": "c", "sort": {"_ts": -1}, "hint": {"_ts": -1, "a": 1}, "returnKey": true},
    ] {
        let keys = [
            doc! {"_ts": SECOND + 3, "a": 2},
            doc! {"_ts": SECOND + 1, "a": 1},
        ];
        assert_eq!(world.rows(command.clone()), keys, "{command}");
    }
}

/// `$merge` finds and changes documents like an update.
#[test]
fn merge_by_ts_and_with_ts() {
    let mut world = world();
    world.keep_ts("d");
    world.index("d", doc! {"key": {"_ts": 1}, "unique": true});
    world.insert("d", [doc! {"_id": 7}]);
    world.at(5_000);
    let merge = |on: &str, matched: Bson| doc! {"aggregate": "c", "pipeline": [{"$match": {"_id": 2}}, {"$project": {"_ts": 1}}, {"$set": {"_id": 7}}, {"$merge": {"into": "d", "on": on, "whenMatched": matched, "whenNotMatched": "fail"}}], "cursor": {}};
    for (second, on) in [(5, "_id"), (6, "_id")] {
        let before = world.rows(doc! {"find": "d", "projection": {"_ts": 1}});
        world.at(second * 1_000);
        world.run(merge(
            on,
            vec![doc! {"$set": {"was": "$_ts", "new": "$$new._ts"}}].into(),
        ));
        let was = before[0].get_i64("_ts").unwrap();
        let expected = doc! {"_id": 7, "was": was, "new": SECOND + 3};
        assert_eq!(world.rows(doc! {"find": "d"}), [expected]);
    }
    // The document was written in the same second as the row, so the row matches it.
    world.at(9_000);
    world.run(doc! {"update": "c", "updates": [{"q": {"_id": 2}, "u": {"a": 1}}]});
    world.run(doc! {"update": "d", "updates": [{"q": {"_id": 7}, "u": {"a": 1}}]});
    world.run(merge("_ts", vec![doc! {"$set": {"a": 2}}].into()));
    assert_eq!(world.rows(doc! {"find": "d"}), [doc! {"_id": 7, "a": 2}]);
}

/// The returned version has its own `_ts`: the version before the write keeps its old one.
#[test]
fn find_and_modify_shows_the_ts_of_each_version() {
    let clock = Clock::frozen(Millis(START));
    for exposed in [true, false] {
        let mut world = World::with(Reaper::On, clock.clone(), |config| {
            config.expose_ts = exposed
        });
        world.keep_ts("c");
        let show = if exposed {
            doc! {}
        } else {
            doc! {"_ts": 1, "a": 1}
        };
        world.at(1_000);
        world.insert("c", [doc! {"_id": 1, "a": 1}]);
        let mut seen = |at: i64, what: Document| {
            world.at(at);
            let mut command =
                doc! {"findAndModify": "c", "query": {"_id": 1}, "fields": show.clone()};
            command.extend(what);
            let reply = world.run(command);
            let value = reply.get_document("value").unwrap();
            (int(value.get("a").unwrap()), int(value.get("_ts").unwrap()))
        };
        let rows = [
            (doc! {"update": {"$set": {"a": 2}}}, 1, 1),
            (doc! {"update": {"$set": {"a": 3}}, "new": true}, 3, 6),
            // Only `_ts` changes.
            (doc! {"update": {"$set": {"a": 3}}}, 3, 6),
            (doc! {"update": {"$set": {"a": 3}}, "new": true}, 3, 8),
            (doc! {"update": {"a": 4}}, 3, 8),
            (doc! {"remove": true}, 4, 9),
        ];
        for (n, (what, a, second)) in rows.into_iter().enumerate() {
            let at = 5_000 + 1_000 * n as i64;
            let shown = what.to_string();
            assert_eq!(
                seen(at, what),
                (Some(a), Some(SECOND + second)),
                "{shown} exposed {exposed}"
            );
        }
        let upserted = seen(
            20_000,
            doc! {"update": {"$set": {"a": 5}}, "upsert": true, "new": true},
        );
        assert_eq!(upserted, (Some(5), Some(SECOND + 20)));
        clock.set(Millis(START));
    }
}

/// A `_ts` that a client sends is ignored, so that a client can read, change and replace a document. Updating `_ts` is
/// refused.
#[test]
fn ts_is_reserved() {
    let mut world = world();
    world.insert("c", [doc! {"_id": 3, "_ts": 5i64, "a": 3}]);
    let row = |world: &mut World, id: i32| {
        world
            .rows(doc! {"find": "c", "filter": {"_id": id}, "projection": {"_ts": 1, "a": 1}})
            .remove(0)
    };
    assert_eq!(
        row(&mut world, 3),
        doc! {"_id": 3, "a": 3, "_ts": SECOND + 3}
    );
    world.at(5_000);
    let mut read = row(&mut world, 3);
    read.insert("a", 4);
    world.run(doc! {"update": "c", "updates": [{"q": {"_id": 3}, "u": read}]});
    assert_eq!(
        row(&mut world, 3),
        doc! {"_id": 3, "a": 4, "_ts": SECOND + 5}
    );
    world.run(doc! {"findAndModify": "c", "query": {"_id": 3}, "update": {"_ts": "x", "a": 5}});
    assert_eq!(
        row(&mut world, 3),
        doc! {"_id": 3, "a": 5, "_ts": SECOND + 5}
    );
    world.run(doc! {"update": "c", "updates": [{"q": {"_id": 4}, "u": {"_ts": 1, "a": 6}, "upsert": true}]});
    assert_eq!(
        row(&mut world, 4),
        doc! {"_id": 4, "a": 6, "_ts": SECOND + 5}
    );
    assert_eq!(
        world.rows(doc! {"find": "c", "filter": {"_id": 4}}),
        [doc! {"_id": 4, "a": 6}]
    );
    for update in [
        Bson::from(doc! {"$set": {"_ts": 5}}),
        Bson::from(doc! {"$unset": {"_ts": 1}}),
        Bson::from(doc! {"$inc": {"_ts": 1}}),
        Bson::from(doc! {"$rename": {"_ts": "b"}}),
        Bson::from(doc! {"$rename": {"a": "_ts"}}),
        Bson::from(doc! {"$max": {"_ts": 1}}),
        Bson::from(doc! {"$currentDate": {"_ts": true}}),
        Bson::from(doc! {"$setOnInsert": {"_ts": 1}}),
        Bson::from(doc! {"$set": {"_ts.a": 5}}),
        Bson::from(vec![doc! {"$set": {"_ts": 5}}]),
        Bson::from(vec![doc! {"$unset": "_ts"}]),
    ] {
        let (code, message) = world
            .refused(doc! {"update": "c", "updates": [{"q": {"_id": 3}, "u": update.clone()}]});
        assert_eq!(code, 2, "{update}: {message}");
        let (code, message) = world
            .refused(doc! {"findAndModify": "c", "query": {"_id": 3}, "update": update.clone()});
        assert_eq!(code, 2, "{update}: {message}");
    }
    // In nested documents the name is not reserved.
    world.run(doc! {"update": "c", "updates": [{"q": {"_id": 3}, "u": {"$set": {"n._ts": 5}}}]});
    assert_eq!(world.int_ids("c", doc! {"n._ts": 5}), [3]);
    // A pipeline may read it: it is the time of the previous write.
    world.at(9_000);
    world.run(
        doc! {"update": "c", "updates": [{"q": {"_id": 3}, "u": [{"$set": {"seen": "$_ts"}}]}]},
    );
    let seen = world.rows(doc! {"find": "c", "filter": {"_id": 3}, "projection": {"seen": 1}});
    assert_eq!(seen, [doc! {"_id": 3, "seen": SECOND + 5}]);
}

#[test]
fn ts_is_always_shown_if_configured() {
    let clock = Clock::frozen(Millis(START));
    let mut world = World::with(Reaper::On, clock, |config| config.expose_ts = true);
    world.keep_ts("c");
    world.insert("c", [doc! {"_id": 1}]);
    let expected = [doc! {"_id": 1, "_ts": SECOND}];
    for command in [
        doc! {"find": "c"},
        doc! {"find": "c", "filter": {"_id": 1}},
        doc! {"aggregate": "c", "pipeline": [], "cursor": {}},
    ] {
        assert_eq!(world.rows(command.clone()), expected, "{command}");
    }
    let done =
        world.run(doc! {"findAndModify": "c", "query": {"_id": 1}, "update": {"$set": {"a": 1}}});
    assert_eq!(
        done.get_document("value").unwrap().get("_ts"),
        Some(&Bson::Int64(SECOND))
    );
}
