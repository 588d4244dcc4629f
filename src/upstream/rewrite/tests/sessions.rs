//! Retryable writes, and transactions where the cluster has them.

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, bson, doc};

use super::world::{World, code, documents, ids};

fn session(number: u8) -> Document {
    let id = Binary {
        subtype: BinarySubtype::Uuid,
        // The test runs many times in front of the same cluster.
        bytes: uuid::Uuid::new_v4().as_bytes()[..15]
            .iter()
            .copied()
            .chain([number])
            .collect(),
    };
    doc! {"id": id}
}

fn with(mut command: Document, fields: &Document) -> Document {
    command.extend(fields.clone());
    command
}

#[test]
fn a_retryable_write_is_sent_again_as_a_whole() {
    let mut world = World::new();
    if world.is_mongod() && !world.is_replica_set() {
        return;
    }
    for ordered in [true, false] {
        let mut world = World::new();
        world.default_ttl("a", 10);
        world.insert(bson!([{"_id": 1}, {"_id": 3}, {"_id": 4, "ttl": -1}]));
        world.wait(10);
        let many: Vec<Bson> = (0..6).map(|id| bson!({"_id": id})).collect();
        let retryable = doc! {"lsid": session(1), "txnNumber": 1i64, "ordered": ordered};
        let command = with(doc! {"insert": "a", "documents": many}, &retryable);
        let reply = world.run(command.clone());
        assert_eq!(
            reply["n"],
            Bson::from(if ordered { 4 } else { 5 }),
            "{reply}"
        );
        assert!(!reply.contains_key("retriedStmtIds"), "{reply}");
        let error = reply.get_array("writeErrors").unwrap()[0]
            .as_document()
            .unwrap();
        assert_eq!(error.get_i32("index").ok(), Some(4), "{reply}");
        let retryable = doc! {"lsid": session(2), "txnNumber": 1i64};
        world.run(doc! {"delete": "a", "deletes": [{"q": {}, "limit": 0}]});
        let update = with(
            doc! {"update": "a", "updates": [{"q": {"_id": 8}, "u": {"$inc": {"n": 1}}, "upsert": true}]},
            &retryable,
        );
        for _ in 0..2 {
            let reply = world.run(update.clone());
            assert_eq!(
                reply["upserted"],
                bson!([{"index": 0, "_id": 8}]),
                "{reply}"
            );
        }
        assert_eq!(world.find(doc! {}), bson!([{"_id": 8, "n": 1}]));
    }
    world.run(doc! {"drop": "plain"});
}

/// A document with a `ttl` of its own is found in the second round, under the same transaction number.
#[test]
fn a_retryable_write_that_guessed_wrong_is_executed_once() {
    let mut world = World::new();
    if world.is_mongod() && !world.is_replica_set() {
        return;
    }
    world.default_ttl("a", 10);
    world.insert(bson!([{"_id": 1, "n": 0, "ttl": 50}, {"_id": 2, "n": 0}]));
    world.wait(5);
    let increment = bson!({"$inc": {"n": 1}});
    for id in [1, 2] {
        let commands = [
            doc! {"update": "a", "updates": [{"q": {"_id": id}, "u": increment.clone()}]},
            doc! {"findAndModify": "a", "query": {"_id": id}, "update": increment.clone()},
            doc! {"findAndModify": "a", "query": {"_id": id}, "remove": true},
        ];
        let inserted = doc! {"insert": "a", "documents": [{"_id": id, "again": true}]};
        for (number, command) in (1_i64..).zip(commands) {
            let retryable = doc! {"lsid": session(id as u8), "txnNumber": number};
            let command = with(command, &retryable);
            for retry in [false, true] {
                let reply = world.run(command.clone());
                let count = reply.get_document("lastErrorObject").unwrap_or(&reply);
                assert_eq!(count["n"], Bson::from(1), "{command} {reply}");
                let retried = ["retriedStmtId", "retriedStmtIds"];
                let retried = retried.iter().any(|name| reply.contains_key(name));
                assert_eq!(retried, retry, "{command} {reply}");
                if let (true, Some(Bson::Document(value))) = (retry, reply.get("value")) {
                    assert_eq!(
                        value["n"],
                        Bson::from(number as i32 - 1),
                        "{command} {reply}"
                    );
                }
            }
        }
        world.run(inserted);
    }
}

/// Statements of a retryable command are guessed together. Those that were missed are executed in a second round, the others
/// are not executed again.
#[test]
fn several_statements_are_guessed_together_and_executed_once() {
    let mut world = World::new();
    if world.is_mongod() && !world.is_replica_set() {
        return;
    }
    for (default, ordered) in [(10, true), (10, false), (-1, true), (-1, false)] {
        let mut world = World::new();
        world.default_ttl("a", default);
        world.insert(bson!([{"_id": 1, "n": 0}, {"_id": 2, "n": 0}, {"_id": 3, "n": 0, "ttl": 5}]));
        world.insert(bson!([{"_id": 4, "n": 0, "ttl": 50}, {"_id": 5, "n": "text"}]));
        world.wait(5);
        let mut number = 0_i64;
        let lsid = session(7);
        let mut run = |ids: &[i32], world: &mut World| {
            number += 1;
            let updates = ids
                .iter()
                .map(|id| bson!({"q": {"_id": *id}, "u": {"$inc": {"n": 1}}}));
            let updates: Vec<Bson> = updates.collect();
            let retryable = doc! {"lsid": lsid.clone(), "txnNumber": number, "ordered": ordered};
            let command = with(doc! {"update": "a", "updates": updates}, &retryable);
            world.cluster.asked.clear();
            let reply = world.run(command.clone());
            let asked = world.cluster.asked.len();
            assert!(!reply.contains_key("retriedStmtIds"), "{reply}");
            let retried = world.run(command);
            let outcome = |reply: &Document| {
                let errors = reply.get_array("writeErrors").cloned().unwrap_or_default();
                let errors = errors.iter().map(|error| {
                    let error = error.as_document().unwrap();
                    (
                        error.get_i32("index").unwrap(),
                        error.get_i32("code").unwrap(),
                    )
                });
                (reply.get_i32("n").unwrap(), errors.collect::<Vec<_>>())
            };
            assert_eq!(outcome(&retried), outcome(&reply), "{reply} {retried}");
            (outcome(&reply), asked)
        };
        let counts = |world: &mut World| {
            let shown = world.find(doc! {"_id": {"$in": [1, 2, 4]}});
            let shown = shown.as_array().unwrap().iter();
            let n = |row: &Bson| row.as_document().unwrap().get_i32("n").unwrap();
            shown.map(n).collect::<Vec<_>>()
        };
        assert_eq!(run(&[1, 2], &mut world), ((2, vec![]), 1));
        assert_eq!(counts(&mut world), [1, 1, 0]);
        // One has ended and one has a ttl of its own.
        assert_eq!(run(&[3, 1, 4, 2], &mut world), ((3, vec![]), 2));
        assert_eq!(counts(&mut world), [2, 2, 1]);
        // A statement that fails is no reason to ask again, unless another was missed.
        let (n, errors) = if ordered { (1, 1) } else { (2, 1) };
        assert_eq!(run(&[1, 5, 2], &mut world), ((n, vec![(errors, 14)]), 1));
        assert_eq!(run(&[4, 5], &mut world), ((1, vec![(1, 14)]), 2));
        // The same document twice: only the order tells what it becomes.
        let rounds = if ordered { 1 } else { 2 };
        assert_eq!(run(&[4, 4], &mut world), ((2, vec![]), rounds));
        assert_eq!(run(&[1, 1], &mut world).0, (2, vec![]));
    }
}

#[test]
fn in_a_transaction_ended_documents_make_way_first() {
    for unique in [false, true] {
        let mut world = World::new();
        if !world.is_replica_set() {
            return;
        }
        world.book.no_unique_keys = !unique;
        world.default_ttl("a", 10);
        world.insert(documents(0..6));
        world.wait(10);
        let session = session(3);
        let first = doc! {"lsid": session.clone(), "txnNumber": 1i64, "autocommit": false, "startTransaction": true};
        let next = doc! {"lsid": session, "txnNumber": 1i64, "autocommit": false};
        let upsert = bson!([{"q": {"_id": 3}, "u": {"$set": {"x": 1}}, "upsert": true}]);
        let commands = [
            with(doc! {"insert": "a", "documents": documents(0..3)}, &first),
            with(doc! {"update": "a", "updates": upsert}, &next),
            with(
                doc! {"findAndModify": "a", "query": {"_id": 4}, "update": {"x": 1}, "upsert": true},
                &next,
            ),
            with(doc! {"find": "a", "filter": {"_id": 4}}, &next),
            with(doc! {"commitTransaction": 1, "$db": "admin"}, &next),
        ];
        for command in commands {
            let reply = world.run(command.clone());
            assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{command} {reply}");
            assert_eq!(code(&reply), 0, "{command} {reply}");
        }
        let rows = world.find(doc! {});
        assert_eq!(ids(&rows), bson!([0, 1, 2, 3, 4]));
    }
}
