//! Commands that write.

use bson::{Bson, bson, doc};

use super::world::{START, World, code, documents, ids};

#[test]
fn writes_restart_the_clock() {
    let changes = [
        bson!({"$set": {"x": 1}}),
        bson!({"$inc": {"n": 1}}),
        bson!({"n": 1}),
        bson!([{"$set": {"n": 1}}]),
        bson!([{"$replaceWith": {"_id": "$_id", "all": "$$ROOT"}}]),
    ];
    for change in changes {
        for modify in [false, true] {
            let mut world = World::new();
            world.default_ttl("a", 10);
            world.insert(documents(0..2));
            world.wait(9);
            let reply = match modify {
                true => world.run(doc! {"findAndModify": "a", "query": {"_id": 0}, "update": change.clone(), "new": true}),
                false => world.run(doc! {"update": "a", "updates": [{"q": {"_id": 0}, "u": change.clone()}]}),
            };
            let text = reply.to_string();
            assert!(
                !text.contains("_sundown") && !text.contains("_ts"),
                "{reply}"
            );
            assert_eq!(code(&reply), 0, "{reply}");
            world.wait(9);
            let rows = world.find(doc! {});
            assert_eq!(ids(&rows), bson!([0]), "{change}");
            let text = rows.to_string();
            assert!(
                !text.contains("_sundown") && !text.contains("_ts"),
                "{rows}"
            );
            world.wait(1);
            assert_eq!(world.find(doc! {}), bson!([]));
        }
    }
}

#[test]
fn what_has_ended_cannot_be_changed() {
    let mut world = World::new();
    world.default_ttl("a", 10);
    world.insert(documents(0..4));
    world.wait(10);
    let reply = world.run(doc! {"update": "a", "updates": [
        {"q": {"_id": 0}, "u": {"$set": {"x": 1}}}, {"q": {}, "u": {"$set": {"x": 1}}, "multi": true}]});
    assert_eq!(reply["n"], Bson::from(0), "{reply}");
    let reply = world.run(
        doc! {"delete": "a", "deletes": [{"q": {"_id": 0}, "limit": 1}, {"q": {}, "limit": 0}]},
    );
    assert_eq!(reply["n"], Bson::from(0), "{reply}");
    let reply =
        world.run(doc! {"findAndModify": "a", "query": {"_id": 1}, "update": {"$set": {"x": 1}}});
    assert_eq!(reply["value"], Bson::Null, "{reply}");
}

/// A write by `_id` guesses that the document inherits the default. Whatever the document holds, the outcome is that of
/// the whole predicate, which a command of two statements has.
#[test]
fn a_guess_changes_no_outcome() {
    let stamped = |offset: i64| Bson::from(bson::DateTime::from_millis(START + offset));
    let mut world = World::new();
    world.default_ttl("a", 10);
    let rows = [
        bson!({"_id": 0, "_sundown": stamped(0)}),
        bson!({"_id": 1, "_sundown": stamped(5_000)}),
        bson!({"_id": 2, "_sundown": stamped(0), "ttl": 15}),
        bson!({"_id": 3, "_sundown": stamped(0), "ttl": -1}),
        bson!({"_id": 4, "_sundown": stamped(5_000), "ttl": 2}),
        bson!({"_id": 5, "_sundown": stamped(5_000), "ttl": "x"}),
        bson!({"_id": 6, "_sundown": stamped(5_000), "ttl": Bson::Null}),
        bson!({"_id": 7}),
        bson!({"_id": 8, "_sundown": [stamped(9_000)]}),
        bson!({"_id": 9, "_sundown": 5, "ttl": 20}),
    ];
    let absent = bson!({"q": {"_id": -1}, "u": {"$set": {"x": 1}}});
    for seconds in [4, 7, 9, 10, 12, 15, 19] {
        for row in &rows {
            let id = row.as_document().unwrap()["_id"].clone();
            let restore = |world: &mut World| {
                world.straight(doc! {"delete": "a", "deletes": [{"q": {}, "limit": 0}]});
                world.straight(doc! {"insert": "a", "documents": [row.clone()]});
                world.now = START + seconds * 1000;
            };
            let update = bson!({"q": {"_id": id.clone()}, "u": {"$set": {"x": 1}}});
            restore(&mut world);
            let expected =
                world.run(doc! {"update": "a", "updates": [update.clone(), absent.clone()]});
            restore(&mut world);
            let guessed = world.run(doc! {"update": "a", "updates": [update]});
            assert_eq!(guessed["n"], expected["n"], "{row} after {seconds} s");
            restore(&mut world);
            let deleted = world
                .run(doc! {"delete": "a", "deletes": [{"q": {"_id": id.clone()}, "limit": 1}]});
            assert_eq!(deleted["n"], expected["n"], "{row} after {seconds} s");
            restore(&mut world);
            let modified = world.run(
                doc! {"findAndModify": "a", "query": {"_id": id}, "update": {"$set": {"x": 1}}},
            );
            let n = &modified.get_document("lastErrorObject").unwrap()["n"];
            assert_eq!(n, &expected["n"], "{row} after {seconds} s");
        }
    }
}

/// Where documents have a `ttl` of their own, guesses stop. They begin anew with the rules.
#[test]
fn wrong_guesses_are_given_up() {
    let mut world = World::new();
    world.default_ttl("a", 10);
    world.insert(bson!([{"_id": 1, "ttl": 50}, {"_id": 2}]));
    let asked = |world: &mut World, id: i32| {
        world.cluster.asked.clear();
        let update = bson!({"q": {"_id": id}, "u": {"$inc": {"n": 1}}});
        let reply = world.run(doc! {"update": "a", "updates": [update]});
        assert_eq!(reply["ok"], Bson::from(1.0), "{reply}");
        world.cluster.asked.len()
    };
    // What is not there tells nothing.
    let rounds: Vec<usize> = (0..9).map(|_| asked(&mut world, 3)).collect();
    assert_eq!(rounds, [2; 9]);
    let rounds: Vec<usize> = (0..6).map(|_| asked(&mut world, 1)).collect();
    assert_eq!(rounds, [2, 2, 2, 2, 1, 1]);
    world.change("a", |_| ());
    assert_eq!(asked(&mut world, 2), 1);
    assert_eq!(asked(&mut world, 1), 2);
}

#[test]
fn an_ended_id_is_free() {
    for ordered in [true, false] {
        let mut world = World::new();
        world.default_ttl("a", 10);
        world.insert(documents(0..5));
        world.run(doc! {"update": "a", "updates": [{"q": {"_id": 2}, "u": {"$set": {"ttl": -1}}}]});
        world.wait(10);
        let many: Vec<Bson> = (0..6).map(|id| bson!({"_id": id, "new": true})).collect();
        let reply = world.run(doc! {"insert": "a", "documents": many, "ordered": ordered});
        let errors = reply.get_array("writeErrors").unwrap();
        assert_eq!(errors.len(), 1, "{reply}");
        let error = errors[0].as_document().unwrap();
        assert_eq!(
            (error.get_i32("index").ok(), error.get_i32("code").ok()),
            (Some(2), Some(11000))
        );
        assert_eq!(
            reply["n"],
            Bson::from(if ordered { 2 } else { 5 }),
            "{reply}"
        );
        let left = if ordered {
            bson!([0, 1, 2])
        } else {
            bson!([0, 1, 2, 3, 4, 5])
        };
        let rows = world.find(doc! {});
        assert_eq!(ids(&rows), left);
    }
}

#[test]
fn an_ended_unique_key_is_free() {
    let mut world = World::new();
    world.default_ttl("a", 10);
    world.straight(doc! {"createIndexes": "a", "indexes": [{"key": {"k": 1, "j": 1}, "name": "k", "unique": true}]});
    world.insert(
        bson!([{"_id": 1, "k": 1, "j": 1}, {"_id": 2, "k": 2}, {"_id": 3, "k": 3, "j": 1}]),
    );
    world.wait(10);
    world.insert(bson!([{"_id": 10, "k": 1, "j": 1}, {"_id": 11, "k": 2}, {"_id": 12}]));
    let reply = world.run(
        doc! {"update": "a", "updates": [{"q": {"_id": 12}, "u": {"$set": {"k": 3, "j": 1}}}]},
    );
    assert_eq!((code(&reply), &reply["n"]), (0, &Bson::from(1)), "{reply}");
    let reply = world.run(doc! {"update": "a", "updates": [{"q": {"_id": 12}, "u": {"$set": {"k": 2}, "$unset": {"j": 1}}}]});
    assert_eq!(code(&reply), 11000, "{reply}");
    world.wait(9);
    world.insert(bson!([{"_id": 20}]));
    world.wait(1);
    let reply = world.run(
        doc! {"findAndModify": "a", "query": {"_id": 20}, "update": {"$set": {"k": 3, "j": 1}}},
    );
    assert_eq!(code(&reply), 0, "{reply}");
    let reply = world
        .run(doc! {"update": "a", "updates": [{"q": {}, "u": {"$inc": {"k": -2}}, "multi": true}]});
    assert_eq!((code(&reply), &reply["n"]), (0, &Bson::from(1)), "{reply}");
}

#[test]
fn an_upsert_inserts_where_a_document_has_ended() {
    let mut world = World::new();
    world.default_ttl("a", 10);
    world.insert(
        bson!([{"_id": 1, "old": 1}, {"_id": 2, "old": 1}, {"_id": 3, "old": 1, "ttl": 50}]),
    );
    world.wait(10);
    let upsert = |id: i32| bson!({"q": {"_id": id}, "u": {"$set": {"new": 1}}, "upsert": true});
    let reply = world.run(doc! {"update": "a", "updates": [upsert(3), upsert(1)]});
    assert_eq!(
        reply["upserted"],
        bson!([{"index": 1, "_id": 1}]),
        "{reply}"
    );
    let reply = world.run(doc! {"findAndModify": "a", "query": {"_id": 2}, "update": {"new": 1}, "upsert": true, "new": true});
    assert_eq!(reply["value"], bson!({"_id": 2, "new": 1}), "{reply}");
    let rows = world.find(doc! {});
    assert_eq!(
        rows,
        bson!([{"_id": 1, "new": 1}, {"_id": 2, "new": 1}, {"_id": 3, "old": 1, "ttl": 50, "new": 1}])
    );
}

#[test]
fn refused_statements_leave_the_others() {
    let mut world = World::new();
    world.default_ttl("a", 10);
    world.insert(documents(0..3));
    let set = |id: i32, field: &str| bson!({"q": {"_id": id}, "u": {"$set": {field: 1}}});
    for (ordered, n) in [(true, 1), (false, 2)] {
        let reply = world.run(doc! {"update": "a", "updates": [set(0, "x"), set(1, "_ts"), set(2, "y")], "ordered": ordered});
        assert_eq!(reply["n"], Bson::from(n), "{reply}");
        let error = reply.get_array("writeErrors").unwrap()[0]
            .as_document()
            .unwrap();
        assert_eq!(error.get_i32("index").ok(), Some(1));
        assert_eq!(
            error.get_str("errmsg").ok(),
            Some(
                "Performing an update on the path '_ts' would modify the field '_ts', which is kept by the server"
            )
        );
    }
}

#[test]
fn what_is_stored() {
    let mut world = World::new();
    world.default_ttl("a", 10);
    world.insert(bson!([{"_id": 1, "_ts": 3, "x": 1}]));
    let stored = world.straight(doc! {"find": "a"});
    let row = stored
        .get_document("cursor")
        .unwrap()
        .get_array("firstBatch")
        .unwrap()[0]
        .clone();
    let row = row.as_document().unwrap();
    assert_eq!(
        row.get_datetime("_sundown").unwrap().timestamp_millis(),
        START
    );
    if world.is_mongod() {
        assert_eq!(row.get_i64("_ts").ok(), Some(START / 1000));
    }
}
