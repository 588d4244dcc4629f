//! Writes renew `_ts`. Other commands and failed writes do not.

use bson::{Bson, Document, bson, doc};

use crate::support::world::{Reaper, START, World, create_index, differs_on_mongod, failure, int};

/// A name, a command, and whether it renews the document. The document has a default of ten seconds and is written at 0. The
/// command runs at 6 s. A renewed document lives until 16 s, any other one ends at 10 s.
type Row = (&'static str, Document, bool);

fn update(statement: Document) -> Document {
    doc! {"update": "c", "updates": [statement]}
}

#[rustfmt::skip]
fn rows() -> Vec<Row> {
    vec![
        ("nothing", doc! {"ping": 1}, false),
        // Writes that change the document.
        ("update", update(doc! {"q": {"_id": 1}, "u": {"$set": {"a": 2}}}), true),
        ("update by field", update(doc! {"q": {"a": 1}, "u": {"$inc": {"a": 1}}}), true),
        ("update of many", update(doc! {"q": {}, "u": {"$set": {"b": 2}}, "multi": true}), true),
        ("update without a change", update(doc! {"q": {"_id": 1}, "u": {"$set": {"a": 1}}}), true),
        ("update of many without a change", update(doc! {"q": {}, "u": {"$unset": {"nope": 1}}, "multi": true}), true),
        ("$min that does not lower", update(doc! {"q": {"_id": 1}, "u": {"$min": {"a": 5}}}), true),
        ("empty $setOnInsert", update(doc! {"q": {"_id": 1}, "u": {"$setOnInsert": {"z": 1}}}), true),
        ("pipeline", update(doc! {"q": {"_id": 1}, "u": [{"$set": {"b": 1}}]}), true),
        ("pipeline without a change", update(doc! {"q": {"_id": 1}, "u": [{"$set": {"a": 1}}]}), true),
        ("replace", update(doc! {"q": {"_id": 1}, "u": {"x": 1}}), true),
        ("replace by the same", update(doc! {"q": {"_id": 1}, "u": {"_id": 1, "a": 1, "u": "one"}}), true),
        ("upsert that hits", update(doc! {"q": {"_id": 1}, "u": {"$set": {"b": 1}}, "upsert": true}), true),
        ("upsert that hits and changes nothing", update(doc! {"q": {"_id": 1}, "u": {"$setOnInsert": {"b": 1}}, "upsert": true}), true),
        ("findAndModify", doc! {"findAndModify": "c", "query": {"_id": 1}, "update": {"$set": {"b": 1}}}, true),
        ("findAndModify without a change", doc! {"findAndModify": "c", "query": {"_id": 1}, "update": {"$set": {"a": 1}}}, true),
        ("findAndModify replaces", doc! {"findAndModify": "c", "query": {"_id": 1}, "update": {"b": 1}}, true),
        ("bulkWrite", doc! {"bulkWrite": 1, "ops": [{"update": 0, "filter": {"_id": 1}, "updateMods": {"$set": {"a": 1}}}], "nsInfo": [{"ns": "test.c"}]}, true),
        ("delete and insert", doc! {"findAndModify": "c", "query": {"_id": 1}, "update": {"a": 1}, "upsert": true}, true),
        ("$merge", doc! {"aggregate": "other", "pipeline": [{"$merge": {"into": "c"}}], "cursor": {}}, true),
        ("$merge replaces", doc! {"aggregate": "other", "pipeline": [{"$merge": {"into": "c", "whenMatched": "replace"}}], "cursor": {}}, true),
        ("$merge by pipeline", doc! {"aggregate": "other", "pipeline": [{"$merge": {"into": "c", "whenMatched": [{"$set": {"m": 1}}]}}], "cursor": {}}, true),
        ("$out of itself", doc! {"aggregate": "c", "pipeline": [{"$out": "c"}], "cursor": {}}, true),
        // Writes that do not change it.
        ("update of another", update(doc! {"q": {"_id": 9}, "u": {"$set": {"a": 2}}}), false),
        ("update that does not match", update(doc! {"q": {"_id": 1, "a": 7}, "u": {"$set": {"a": 2}}}), false),
        ("delete of another", doc! {"delete": "c", "deletes": [{"q": {"_id": 9}, "limit": 1}]}, false),
        ("insert of another", doc! {"insert": "c", "documents": [{"_id": 7}]}, false),
        ("$merge that keeps", doc! {"aggregate": "other", "pipeline": [{"$merge": {"into": "c", "whenMatched": "keepExisting"}}], "cursor": {}}, false),
        // Reads.
        ("find", doc! {"find": "c"}, false),
        ("find by _id", doc! {"find": "c", "filter": {"_id": 1}}, false),
        ("count", doc! {"count": "c"}, false),
        ("aggregate", doc! {"aggregate": "c", "pipeline": [{"$sort": {"a": 1}}], "cursor": {}}, false),
        ("explain", doc! {"explain": {"find": "c", "filter": {}}, "verbosity": "executionStats"}, false),
        // Settings.
        ("createIndexes", create_index("c", doc! {"key": {"a": 1}}), false),
        ("dropIndexes", doc! {"dropIndexes": "c", "index": "u_1"}, false),
        ("collMod", doc! {"collMod": "c", "index": {"name": "u_1", "hidden": true}}, false),
        ("collMod of the default", doc! {"collMod": "c", "defaultTtl": 10}, false),
        ("validate", doc! {"validate": "c"}, false),
    ]
}

/// Commands that fail.
#[rustfmt::skip]
fn failures() -> Vec<Row> {
    vec![
        ("duplicate _id", doc! {"insert": "c", "documents": [{"_id": 1, "a": 2}]}, false),
        ("duplicate key", update(doc! {"q": {"_id": 1}, "u": {"$set": {"u": "two"}}}), false),
        ("duplicate key, many", update(doc! {"q": {"_id": 1}, "u": {"$set": {"u": "two"}}, "multi": true}), false),
        ("duplicate key, replaced", update(doc! {"q": {"_id": 1}, "u": {"u": "two"}}), false),
        ("duplicate key, findAndModify", doc! {"findAndModify": "c", "query": {"_id": 1}, "update": {"$set": {"u": "two"}}}, false),
        ("duplicate key for a newcomer", doc! {"insert": "c", "documents": [{"_id": 5, "u": "one"}]}, false),
        ("wrong type", update(doc! {"q": {"_id": 1}, "u": {"$inc": {"u": 1}}}), false),
        ("changed _id", update(doc! {"q": {"_id": 1}, "u": {"$set": {"_id": 2}}}), false),
        ("unknown operator", update(doc! {"q": {"_id": 1}, "u": {"$nope": {"a": 1}}}), false),
        ("an update of _ts", update(doc! {"q": {"_id": 1}, "u": {"$set": {"_ts": 1}}}), false),
        ("$merge that fails", doc! {"aggregate": "other", "pipeline": [{"$merge": {"into": "c", "whenMatched": "fail"}}], "cursor": {}}, false),
        ("a pipeline that fails", update(doc! {"q": {"_id": 1}, "u": [{"$set": {"b": {"$divide": [1, 0]}}}]}), false),
    ]
}

fn prepare(reaper: Reaper) -> World {
    let mut world = World::new(reaper);
    world.run(doc! {"create": "c", "defaultTtl": 10});
    world.index("c", doc! {"key": {"u": 1}, "unique": true, "sparse": true});
    world.insert(
        "c",
        [
            doc! {"_id": 1, "a": 1, "u": "one"},
            doc! {"_id": 2, "u": "two", "ttl": -1},
        ],
    );
    world.insert("other", [doc! {"_id": 1, "m": 1}]);
    world.at(6_000);
    world
}

fn lives(world: &mut World, name: &str, restarted: bool) {
    let there = |world: &mut World, millis: i64| {
        world.at(millis);
        world.int_ids("c", doc! {}).contains(&1)
    };
    assert!(there(world, 9_999), "{name}");
    assert_eq!(there(world, 10_000), restarted, "{name} at 10 s");
    assert_eq!(there(world, 15_999), restarted, "{name} at 15.999 s");
    assert!(!there(world, 16_000), "{name} at 16 s");
}

#[test]
fn commands_that_renew_ts() {
    for reaper in [Reaper::On, Reaper::Off] {
        for (name, command, restarted) in rows() {
            if name == "bulkWrite" && differs_on_mongod("6.0 does not know bulkWrite") {
                continue;
            }
            let mut world = prepare(reaper);
            let reply = world.run(command);
            if reply.contains_key("cursor") {
                world.drain(&reply);
            }
            lives(&mut world, name, restarted);
        }
    }
}

#[test]
fn a_failed_write_does_not_renew_ts() {
    for reaper in [Reaper::On, Reaper::Off] {
        for (name, command, restarted) in failures() {
            let mut world = prepare(reaper);
            world.refused(command);
            lives(&mut world, name, restarted);
        }
    }
}

#[test]
fn renaming_does_not_renew_ts() {
    for to in ["test.d", "elsewhere.c"] {
        let mut world = prepare(Reaper::Off);
        let renamed = world
            .client
            .command("admin", doc! {"renameCollection": "test.c", "to": to})
            .unwrap();
        assert_eq!(renamed.get("ok").and_then(int), Some(1), "{renamed}");
        let (database, collection) = to.split_once('.').unwrap();
        for (millis, there) in [(9_999, 2), (10_000, 1)] {
            world.at(millis);
            let reply = world
                .client
                .command(database, doc! {"find": collection})
                .unwrap();
            assert_eq!(
                crate::support::world::batch(&reply).0.len(),
                there,
                "{to} at {millis} ms"
            );
        }
    }
}

/// A write that is sent again with its transaction number is answered from the session and changes nothing.
#[test]
fn a_retried_write_does_not_renew_ts() {
    // Each time another session.
    let lsid = || doc! {"id": bson::Uuid::new()};
    let commands = [
        doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"a": 1}}}]},
        doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}]},
        doc! {"findAndModify": "c", "query": {"_id": 1}, "update": {"$inc": {"a": 1}}},
        doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"x": 1}}]},
    ];
    for reaper in [Reaper::On, Reaper::Off] {
        for command in &commands {
            let mut command = command.clone();
            command.insert("lsid", lsid());
            command.insert("txnNumber", 5i64);
            let mut world = prepare(reaper);
            let first = world.run(command.clone());
            world.at(9_000);
            let again = world.run(command.clone());
            assert_eq!(first.get("n"), again.get("n"));
            assert_eq!(first.get("value"), again.get("value"));
            lives(&mut world, "retried", true);
        }
        // An insert whose document has expired since then is still answered as done.
        let mut world = World::new(reaper);
        world.run(doc! {"create": "c", "defaultTtl": 10});
        let insert =
            doc! {"insert": "c", "documents": [{"_id": 1}], "lsid": lsid(), "txnNumber": 1i64};
        world.run(insert.clone());
        world.at(10_000);
        let again = world.run(insert);
        assert_eq!(again.get("n").and_then(int), Some(1));
        assert_eq!(world.int_ids("c", doc! {}), [0i64; 0]);
    }
}

/// Changing `ttl` is a write. Removing it makes the document inherit the default, and -1 turns expiry off.
#[test]
fn changing_ttl() {
    let set = |ttl: Bson| doc! {"$set": {"ttl": ttl}};
    // An update at 6 s of a document with `ttl: 10` (written at 0) under a default of 20, and its end.
    let rows = [
        (set(bson!(30)), Some(36_000)),
        (set(bson!(1)), Some(7_000)),
        (set(bson!(10)), Some(16_000)),
        (set(bson!(-1)), None),
        (set(bson!("x")), Some(26_000)),
        (set(bson!(0)), Some(26_000)),
        (doc! {"$unset": {"ttl": 1}}, Some(26_000)),
        (doc! {"$inc": {"ttl": 5}}, Some(21_000)),
        (doc! {"$mul": {"ttl": 2.0}}, Some(26_000)),
        (doc! {"$rename": {"ttl": "was"}}, Some(26_000)),
        (doc! {"plain": true}, Some(26_000)),
        (doc! {"plain": true, "ttl": 3}, Some(9_000)),
        (doc! {"$set": {"a": 1}}, Some(16_000)),
    ];
    for reaper in [Reaper::On, Reaper::Off] {
        for (update, end) in &rows {
            let mut world = World::new(reaper);
            world.run(doc! {"create": "c", "defaultTtl": 20});
            world.insert("c", [doc! {"_id": 1, "ttl": 10}]);
            world.at(6_000);
            world.run(doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": update.clone()}]});
            match end {
                None => {
                    world.at(1 << 42);
                    assert_eq!(world.int_ids("c", doc! {}), [1], "{update}");
                }
                Some(end) => {
                    world.at(end - 1);
                    assert_eq!(world.int_ids("c", doc! {}), [1], "{update}");
                    world.at(*end);
                    assert_eq!(world.int_ids("c", doc! {}), [0i64; 0], "{update}");
                }
            }
        }
    }
}

/// A document that is written repeatedly expires once, after its last write.
#[test]
fn a_written_document_stays_visible() {
    for reaper in [Reaper::On, Reaper::Off] {
        let mut world = World::new(reaper);
        world.run(doc! {"create": "c", "defaultTtl": 10});
        world.insert("c", [doc! {"_id": 1, "n": 0}, doc! {"_id": 2}]);
        for round in 1..=20 {
            world.at(round * 9_999);
            let done = world
                .run(doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]});
            assert_eq!(done.get("n").and_then(int), Some(1), "round {round}");
        }
        assert_eq!(world.rows(doc! {"find": "c"}), [doc! {"_id": 1, "n": 20}]);
        world.at(20 * 9_999 + 10_000);
        assert_eq!(world.rows(doc! {"find": "c"}), Vec::<Document>::new());
    }
}

/// If an index makes `_ts` unique, even a write that changes nothing else may cause a duplicate. It fails, and `_ts` stays.
#[test]
fn a_write_that_would_share_a_unique_moment() {
    for reaper in [Reaper::On, Reaper::Off] {
        let mut world = World::new(reaper);
        world.run(doc! {"create": "c", "defaultTtl": 10});
        world.index("c", doc! {"key": {"_ts": 1, "z": 1}, "unique": true});
        world.insert("c", [doc! {"_id": 1, "a": 1}]);
        world.at(5_000);
        world.insert("c", [doc! {"_id": 2}]);
        for change in [doc! {"$set": {"a": 2}}, doc! {"$set": {"a": 1}}] {
            let reply = world.raw(update(doc! {"q": {"_id": 1}, "u": change.clone()}));
            let (code, message) = failure(&reply).unwrap();
            let key = format!("{{ _ts: {}, z: null }}", (START + 5_000) / 1000);
            assert_eq!(code, 11_000, "{change}: {reply}");
            assert!(message.contains(&key), "{change}: {message}");
        }
        world.at(9_999);
        assert_eq!(world.int_ids("c", doc! {}), [1, 2]);
        world.at(10_000);
        assert_eq!(world.int_ids("c", doc! {}), [2]);
    }
}
