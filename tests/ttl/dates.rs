//! MongoDB's own TTL indexes, on dates: as in MongoDB, but to the instant.

use bson::{Bson, Document, doc};

use super::instants::{around, living};
use crate::support::world::{Reaper, START, World, create_index, date, differs_on_mongod};

/// The value of a field, and when (after START) it ends the document under `expireAfterSeconds: 10`.
fn values() -> Vec<(Bson, Option<i64>)> {
    let at = |millis: i64| date(START + millis);
    vec![
        (at(0), Some(10_000)),
        (at(500), Some(10_500)),
        (at(-9_999), Some(1)),
        (at(90_000), Some(100_000)),
        (
            Bson::Array(vec![at(7_000), at(3_000), at(9_000)]),
            Some(13_000),
        ),
        (
            Bson::Array(vec![at(5_000), Bson::Int32(1), Bson::Null]),
            Some(15_000),
        ),
        (
            Bson::Array(vec![Bson::String("x".into()), at(2_000)]),
            Some(12_000),
        ),
        (Bson::Array(vec![]), None),
        (Bson::Array(vec![Bson::Int32(1)]), None),
        (Bson::Array(vec![Bson::Array(vec![at(0)])]), None),
        (Bson::Null, None),
        (Bson::Int64(START), None),
        (Bson::String("2030-01-01T00:00:00Z".into()), None),
        (Bson::Document(doc! {"at": at(0)}), None),
        (
            Bson::Timestamp(bson::Timestamp {
                time: 1,
                increment: 1,
            }),
            None,
        ),
        (Bson::DateTime(bson::DateTime::MAX), None),
    ]
}

fn follow(world: &mut World, ends: &[Option<i64>], what: &str) {
    for instant in around(ends) {
        world.at(instant);
        assert_eq!(
            world.int_ids("c", doc! {}),
            living(ends, instant),
            "{what} at {instant} ms"
        );
    }
}

#[test]
fn values_of_every_kind() {
    for reaper in [Reaper::On, Reaper::Off] {
        for when in ["before", "after"] {
            for key in [doc! {"at": 1}, doc! {"at": -1}] {
                let mut world = World::new(reaper);
                let index = doc! {"key": key, "expireAfterSeconds": 10};
                if when == "before" {
                    world.index("c", index.clone());
                }
                let values = values();
                world.insert(
                    "c",
                    values
                        .iter()
                        .enumerate()
                        .map(|(id, (value, _))| doc! {"_id": id as i32, "at": value.clone()}),
                );
                world.insert("c", [doc! {"_id": values.len() as i32}]);
                if when == "after" {
                    world.index("c", index);
                }
                let mut ends: Vec<_> = values.iter().map(|(_, end)| *end).collect();
                ends.push(None);
                follow(&mut world, &ends, when);
            }
        }
    }
}

#[test]
fn inside_documents_and_arrays() {
    let mut world = World::new(Reaper::Off);
    world.index("c", doc! {"key": {"a.at": 1}, "expireAfterSeconds": 0});
    let at = |millis: i64| date(START + millis);
    world.insert(
        "c",
        [
            doc! {"_id": 0, "a": {"at": at(1_000)}},
            doc! {"_id": 1, "a": [{"at": at(5_000)}, {"at": at(2_000)}, {"b": 1}]},
            doc! {"_id": 2, "a": [{"at": [at(9_000), at(3_000)]}]},
            doc! {"_id": 3, "a": at(1)},
            doc! {"_id": 4, "at": at(1)},
        ],
    );
    follow(
        &mut world,
        &[Some(1_000), Some(2_000), Some(3_000), None, None],
        "a.at",
    );
}

#[test]
fn the_earliest_of_several_rules_wins() {
    for reaper in [Reaper::On, Reaper::Off] {
        let mut world = World::new(reaper);
        world.run(doc! {"create": "c", "defaultTtl": 50});
        world.index("c", doc! {"key": {"a": 1}, "expireAfterSeconds": 0});
        world.index("c", doc! {"key": {"b": 1}, "expireAfterSeconds": 20});
        let at = |millis: i64| date(START + millis);
        let documents = [
            (doc! {}, Some(50_000)),
            (doc! {"ttl": -1}, None),
            (doc! {"ttl": 5}, Some(5_000)),
            (doc! {"a": at(7_000)}, Some(7_000)),
            (doc! {"a": at(70_000)}, Some(50_000)),
            (doc! {"b": at(1_000)}, Some(21_000)),
            (doc! {"a": at(30_000), "b": at(1_000)}, Some(21_000)),
            (doc! {"a": at(20_000), "b": at(1_000)}, Some(20_000)),
            // -1 turns off the collection's default for the document, but not a date rule.
            (doc! {"a": at(60_000), "ttl": -1}, Some(60_000)),
            (doc! {"a": at(7_000), "ttl": 5}, Some(5_000)),
            (doc! {"a": at(7_000), "ttl": 9}, Some(7_000)),
        ];
        world.insert(
            "c",
            documents.iter().enumerate().map(|(id, (document, _))| {
                let mut whole = doc! {"_id": id as i32};
                whole.extend(document.clone());
                whole
            }),
        );
        let ends: Vec<_> = documents.iter().map(|(_, end)| *end).collect();
        follow(&mut world, &ends, "several");
    }
}

#[test]
fn partial_indexes_end_only_what_they_hold() {
    for reaper in [Reaper::On, Reaper::Off] {
        let mut world = World::new(reaper);
        world.index("c", doc! {"key": {"at": 1}, "expireAfterSeconds": 10, "partialFilterExpression": {"done": true}});
        let now = date(START);
        world.insert(
            "c",
            [
                doc! {"_id": 0, "at": now.clone(), "done": true},
                doc! {"_id": 1, "at": now.clone(), "done": false},
                doc! {"_id": 2, "at": now.clone()},
            ],
        );
        world.at(10_000);
        assert_eq!(world.int_ids("c", doc! {}), [1, 2]);
        // The write comes long after the date, so the document is gone at the instant of the write.
        world.run(
            doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"done": true}}}]},
        );
        assert_eq!(world.int_ids("c", doc! {}), [2]);
    }
}

#[test]
fn writing_the_date_moves_the_end() {
    for reaper in [Reaper::On, Reaper::Off] {
        let mut world = World::new(reaper);
        world.index("c", doc! {"key": {"at": 1}, "expireAfterSeconds": 10});
        world.insert("c", (0..5).map(|id| doc! {"_id": id, "at": date(START)}));
        world.at(5_000);
        let set = |id: i32, update: Document| doc! {"update": "c", "updates": [{"q": {"_id": id}, "u": update}]};
        let now = match differs_on_mongod("the clock of the test is not the cluster's") {
            true => doc! {"$set": {"at": date(world.now())}},
            false => doc! {"$currentDate": {"at": true}},
        };
        world.run(set(0, now));
        world.run(set(1, doc! {"$unset": {"at": ""}}));
        // A write that does not change the date does not change the end. This is MongoDB's rule, not that of Cosmos DB.
        world.run(set(2, doc! {"$set": {"x": 1}}));
        world.run(set(3, doc! {"at": date(START - 3_000)}));
        follow(
            &mut world,
            &[Some(15_000), None, Some(10_000), Some(7_000), Some(10_000)],
            "moved",
        );
    }
}

#[test]
fn inserting_an_expired_document() {
    for reaper in [Reaper::On, Reaper::Off] {
        let mut world = World::new(reaper);
        world.index("c", doc! {"key": {"at": 1}, "expireAfterSeconds": 10});
        world.insert(
            "c",
            [
                doc! {"_id": 1, "at": date(START - 10_000)},
                doc! {"_id": 2, "at": date(START - 9_999)},
            ],
        );
        assert_eq!(world.int_ids("c", doc! {}), [2]);
        world.insert("c", [doc! {"_id": 1, "at": date(START)}]);
        assert_eq!(world.int_ids("c", doc! {}), [2, 1]);
    }
}

#[test]
fn coll_mod_changes_and_creates_a_date_rule() {
    for reaper in [Reaper::On, Reaper::Off] {
        let mut world = World::new(reaper);
        world.index("c", doc! {"key": {"at": 1}});
        world.insert(
            "c",
            (0..6).map(|id| doc! {"_id": id, "at": date(START + id * 1_000)}),
        );
        world.at(20_000);
        assert_eq!(world.int_ids("c", doc! {}).len(), 6);
        let change = |seconds: i32| doc! {"collMod": "c", "index": {"keyPattern": {"at": 1}, "expireAfterSeconds": seconds}};
        world.run(change(19));
        assert_eq!(world.int_ids("c", doc! {}), [2, 3, 4, 5]);
        world.run(change(17));
        assert_eq!(world.int_ids("c", doc! {}), [4, 5]);
        // A longer time again: no document comes back.
        world.run(change(1_000));
        assert_eq!(world.int_ids("c", doc! {}), [4, 5]);
    }
}

#[test]
fn which_indexes_are_refused() {
    let mut world = World::new(Reaper::On);
    let huge = i64::from(i32::MAX);
    for (index, code) in [
        (doc! {"key": {"a": 1, "b": 1}, "expireAfterSeconds": 1}, 67),
        (doc! {"key": {"a": 1}, "expireAfterSeconds": -1}, 67),
        (doc! {"key": {"a": 1}, "expireAfterSeconds": huge + 1}, 67),
        (doc! {"key": {"a": 1}, "expireAfterSeconds": "1"}, 67),
        (
            doc! {"key": {"_id": 1}, "name": "x", "expireAfterSeconds": 1},
            197,
        ),
    ] {
        assert_eq!(
            world.refused(create_index("c", index.clone())).0,
            code,
            "{index}"
        );
    }
    for seconds in [Bson::Int32(0), Bson::Int64(huge), Bson::Double(5.0)] {
        world.index("c", doc! {"key": {"a": 1}, "expireAfterSeconds": seconds});
        world.run(doc! {"dropIndexes": "c", "index": {"a": 1}});
    }
}
