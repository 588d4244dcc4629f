//! What an expired document held is free: its `_id`, and its values under unique indexes.

use bson::doc;

use super::commands::{Rule, agree, documents, update};
use crate::support::world::{Reaper, World, failure};

/// The value of an expired document is free, under a unique index of every shape.
#[test]
fn unique_values_of_ended_documents_are_free() {
    let indexes = [
        doc! {"key": {"k": 1}, "unique": true},
        doc! {"key": {"k": -1, "n": 1}, "unique": true},
        doc! {"key": {"tags": 1}, "unique": true},
        doc! {"key": {"k": 1}, "unique": true, "sparse": true},
        doc! {"key": {"k": 1}, "unique": true, "partialFilterExpression": {"n": {"$gt": 0}}},
        doc! {"key": {"k": 1}, "unique": true, "hidden": true},
    ];
    for reaper in [Reaper::On, Reaper::Off] {
        for rule in [Rule::Inherited, Rule::Own, Rule::Date] {
            let mut world = World::new(reaper);
            for (nth, index) in indexes.iter().enumerate() {
                for millis in [9_999, 10_000, 10_001] {
                    for how in ["insert", "update", "upsert", "findAndModify"] {
                        let c = format!("c{nth}");
                        let mut create = doc! {"create": &c};
                        match rule {
                            Rule::Inherited => drop(create.insert("defaultTtl", 10)),
                            Rule::Own => drop(create.insert("defaultTtl", -1)),
                            Rule::Date => {}
                        }
                        world.run(create);
                        world.index(&c, index.clone());
                        if rule == Rule::Date {
                            world.index(&c, doc! {"key": {"at": 1}, "expireAfterSeconds": 10});
                        }
                        let mut first = documents(world.now(), rule);
                        first.truncate(1);
                        world.insert(&c, first);
                        world.insert(
                            &c,
                            [doc! {"_id": 9, "k": "other", "n": 5, "tags": ["o"], "ttl": -1}],
                        );
                        world.clock.advance(millis);
                        let fields = doc! {"k": "a", "n": 1, "tags": ["y", "q"]};
                        let reply = world.raw(match how {
                            "insert" => {
                                let mut document = doc! {"_id": 5};
                                document.extend(fields);
                                doc! {"insert": &c, "documents": [document]}
                            }
                            "update" => update(&c, doc! {"q": {"_id": 9}, "u": {"$set": fields}}),
                            "upsert" => update(&c, doc! {"q": {"_id": 5}, "u": {"$set": fields}, "upsert": true}),
                            _ => doc! {"findAndModify": &c, "query": {"_id": 9}, "update": {"$set": fields}},
                        });
                        let code = failure(&reply).map_or(0, |(code, _)| code);
                        let expected = if millis < 10_000 { 11_000 } else { 0 };
                        assert_eq!(
                            code, expected,
                            "{how} under {index} after {millis} ms, {rule:?}, reaper {reaper:?}: {reply}"
                        );
                        let left = world.int_ids(&c, doc! {"k": "a"});
                        let expected = match (millis, how) {
                            (9_999, _) => vec![1],
                            (_, "insert" | "upsert") => vec![5],
                            _ => vec![9],
                        };
                        assert_eq!(left, expected, "{how} under {index} after {millis} ms");
                        agree(&mut world, &c).unwrap();
                        world.run(doc! {"drop": &c});
                    }
                }
            }
        }
    }
}

/// Commands change only visible documents, and a reused `_id` is a new document.
#[test]
fn a_reused_id_is_a_new_document() {
    for reaper in [Reaper::On, Reaper::Off] {
        let mut world = World::new(reaper);
        world.run(doc! {"create": "c", "defaultTtl": 10});
        world.insert("c", [doc! {"_id": 1, "old": true}, doc! {"_id": 2}]);
        world.at(10_000);
        world.run(update(
            "c",
            doc! {"q": {"_id": 1}, "u": {"$set": {"new": true}}, "upsert": true},
        ));
        world.insert("c", [doc! {"_id": 2, "new": true}]);
        let rows = world.rows(doc! {"find": "c"});
        assert_eq!(
            rows,
            [doc! {"_id": 1, "new": true}, doc! {"_id": 2, "new": true}]
        );
        world.at(19_999);
        assert_eq!(world.int_ids("c", doc! {}), [1, 2]);
        world.at(20_000);
        assert_eq!(world.int_ids("c", doc! {}), [0i64; 0]);
    }
}
