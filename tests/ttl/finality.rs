//! Expired is final: no change of a rule and no move of the clock revives a document.

use bson::{Bson, Document, doc};

use crate::support::world::{Reaper, START, World, date, int, through_upstream};

const NOBODY: [i64; 0] = [];

/// Many documents, so that draining takes more than one slice.
const MANY: i32 = 3_000;

fn prepare(reaper: Reaper, default: Bson, index: Option<Document>) -> World {
    let mut world = World::new(reaper);
    world.run(doc! {"create": "c", "defaultTtl": default});
    if let Some(index) = index {
        world.index("c", index);
    }
    world.insert(
        "c",
        (0..MANY).map(|id| doc! {"_id": id, "ttl": 10, "at": date(START)}),
    );
    world.insert("c", [doc! {"_id": -1, "ttl": -1}]);
    world
}

/// Only documents with -1 are visible, now and later, and the `_id`s of the others are free.
fn gone(world: &mut World, what: &str) {
    assert_eq!(world.int_ids("c", doc! {}), [-1], "{what}");
    let stats = world.run(doc! {"collStats": "c"});
    assert_eq!(stats.get("count").and_then(int), Some(1), "{what}");
    world.insert("c", (0..50).map(|id| doc! {"_id": id}));
    let done =
        world.run(doc! {"delete": "c", "deletes": [{"q": {"_id": {"$gte": 0}}, "limit": 0}]});
    assert_eq!(done.get("n").and_then(int), Some(50), "{what}");
    assert_eq!(world.int_ids("c", doc! {}), [-1], "{what}");
}

#[test]
fn changing_the_default_revives_nothing() {
    let changes = [
        doc! {"collMod": "c", "defaultTtl": 1_000_000},
        doc! {"collMod": "c", "defaultTtl": -1},
        doc! {"collMod": "c", "defaultTtl": null},
        doc! {"collMod": "c", "index": {"keyPattern": {"_ts": 1}, "expireAfterSeconds": 1_000_000}},
        doc! {"collMod": "c", "index": {"name": "_ts_1", "expireAfterSeconds": -1}},
        doc! {"dropIndexes": "c", "index": "_ts_1"},
        doc! {"dropIndexes": "c", "index": {"_ts": 1}},
        doc! {"dropIndexes": "c", "index": "*"},
        doc! {"createIndexes": "c", "indexes": [{"key": {"_ts": 1}, "name": "_ts_1", "expireAfterSeconds": 1_000_000}]},
        doc! {"createIndexes": "c", "indexes": [{"key": {"_ts": 1}, "name": "longer", "expireAfterSeconds": -1}]},
    ];
    for reaper in [Reaper::On, Reaper::Off] {
        for change in &changes {
            // Documents with their own ttl expire at 10 s under any default, unless the default is turned off.
            let mut world = prepare(reaper, Bson::Int32(20), None);
            world.at(10_000);
            world.run(change.clone());
            gone(&mut world, &change.to_string());

            // Documents that inherit the default.
            let mut world = World::new(reaper);
            world.run(doc! {"create": "c", "defaultTtl": 20});
            world.insert("c", (0..MANY).map(|id| doc! {"_id": id}));
            world.insert("c", [doc! {"_id": -1, "ttl": -1}]);
            world.at(20_000);
            world.run(change.clone());
            gone(&mut world, &change.to_string());
        }
    }
}

/// Documents that are visible when the rule changes follow the new rule.
#[test]
fn visible_documents_follow_the_new_rule() {
    for reaper in [Reaper::On, Reaper::Off] {
        let mut world = World::new(reaper);
        world.run(doc! {"create": "c", "defaultTtl": 10});
        world.insert("c", [doc! {"_id": 1}]);
        world.at(1);
        world.insert("c", [doc! {"_id": 2}]);
        world.at(10_000);
        world.run(doc! {"collMod": "c", "defaultTtl": 30});
        assert_eq!(world.int_ids("c", doc! {}), [2]);
        world.at(30_000);
        assert_eq!(world.int_ids("c", doc! {}), [2]);
        world.at(30_001);
        assert_eq!(world.int_ids("c", doc! {}), NOBODY);
    }
}

#[test]
fn changing_or_dropping_a_date_index_revives_nothing() {
    let index = || doc! {"key": {"at": 1}, "expireAfterSeconds": 10};
    let changes = [
        doc! {"dropIndexes": "c", "index": "at_1"},
        doc! {"dropIndexes": "c", "index": {"at": 1}},
        doc! {"dropIndexes": "c", "index": "*"},
        doc! {"dropIndexes": "c", "index": ["at_1"]},
        doc! {"collMod": "c", "index": {"name": "at_1", "expireAfterSeconds": 1_000_000}},
        doc! {"collMod": "c", "index": {"keyPattern": {"at": 1}, "expireAfterSeconds": 11}},
        doc! {"collMod": "c", "index": {"name": "at_1", "hidden": true}},
    ];
    for reaper in [Reaper::On, Reaper::Off] {
        for change in &changes {
            let mut world = prepare(reaper, Bson::Null, Some(index()));
            world.at(10_000);
            world.run(change.clone());
            gone(&mut world, &change.to_string());
        }
        // The date of the document is moved too late.
        let mut world = prepare(reaper, Bson::Null, Some(index()));
        world.at(10_000);
        let done = world.run(doc! {"update": "c", "updates": [{"q": {}, "u": {"$currentDate": {"at": true}}, "multi": true}]});
        assert_eq!(done.get("n").and_then(int), Some(1));
    }
}

/// In the process and over the wire.
#[test]
fn moving_time_back_revives_nothing() {
    if through_upstream("the time of a cluster does not go back") {
        return;
    }
    type Move = fn(&mut World);
    let back: [(&str, Move); 5] = [
        ("set", |world| world.at(0)),
        ("advance", |world| world.clock.advance(-9_000)),
        ("to", |world| {
            drop(world.run(doc! {"timeTravel": 1, "to": date(START - 1_000_000)}))
        }),
        ("advanceSeconds", |world| {
            drop(world.run(doc! {"timeTravel": 1, "advanceSeconds": -3600}))
        }),
        // The real time is long before 2030.
        ("reset", |world| {
            drop(world.run(doc! {"timeTravel": 1, "reset": true}))
        }),
    ];
    for reaper in [Reaper::On, Reaper::Off] {
        for (rule, default, index) in [
            ("own", Bson::Int32(-1), None),
            (
                "date",
                Bson::Null,
                Some(doc! {"key": {"at": 1}, "expireAfterSeconds": 10}),
            ),
        ] {
            for (name, go) in &back {
                let mut world = prepare(reaper, default.clone(), index.clone());
                world.at(10_000);
                go(&mut world);
                assert!(world.now() < START + 10_000, "{name}");
                gone(&mut world, &format!("{rule}, {name}, reaper {reaper:?}"));
            }
        }
        // Also if nobody read the document at that time, and if the clock moved by only one millisecond.
        let mut world = prepare(reaper, Bson::Int32(-1), None);
        world.at(10_000);
        world.at(9_999);
        gone(&mut world, "one millisecond");
        let mut world = prepare(reaper, Bson::Int32(-1), None);
        world.at(9_999);
        world.at(0);
        assert_eq!(world.int_ids("c", doc! {}).len(), MANY as usize + 1);
        world.at(10_000);
        gone(&mut world, "forward again");
    }
}

/// Documents that are written after time was set back live for their full ttl, by the new time.
#[test]
fn writes_after_time_went_back() {
    if through_upstream("the time of a cluster does not go back") {
        return;
    }
    for reaper in [Reaper::On, Reaper::Off] {
        let mut world = World::new(reaper);
        world.run(doc! {"create": "c", "defaultTtl": 10});
        world.at(100_000);
        world.insert("c", [doc! {"_id": "late"}]);
        world.at(0);
        world.insert("c", [doc! {"_id": 1}, doc! {"_id": 2, "ttl": 20}]);
        let now = world.run(doc! {"timeTravel": 1});
        assert_eq!(now.get("now"), Some(&date(START)));
        assert_eq!(now.get("frozen"), Some(&Bson::Boolean(true)));
        for (millis, ids) in [
            (9_999, vec!["late", "1", "2"]),
            (10_000, vec!["late", "2"]),
            (19_999, vec!["late", "2"]),
            (20_000, vec!["late"]),
            (109_999, vec!["late"]),
            (110_000, vec![]),
        ] {
            world.at(millis);
            let found: Vec<String> = world
                .ids("c", doc! {})
                .iter()
                .map(|id| id.to_string().replace('"', ""))
                .collect();
            assert_eq!(found, ids, "{millis} ms");
        }
    }
}

/// A write at an earlier time (after the clock was set back) renews the document from that time.
#[test]
fn a_write_after_time_went_back_counts_from_there() {
    if through_upstream("the time of a cluster does not go back") {
        return;
    }
    let mut world = World::new(Reaper::Off);
    world.run(doc! {"create": "c", "defaultTtl": 10});
    world.at(5_000);
    world.insert("c", [doc! {"_id": 1}]);
    world.at(0);
    world.run(doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}]});
    world.at(9_999);
    assert_eq!(world.int_ids("c", doc! {}), [1]);
    world.at(10_000);
    assert_eq!(world.int_ids("c", doc! {}), NOBODY);
}

#[test]
fn time_travel_over_the_wire() {
    if through_upstream("timeTravel is refused, because time is the cluster's") {
        return;
    }
    let mut world = World::new(Reaper::On);
    world.run(doc! {"create": "c", "defaultTtl": 10});
    world.insert("c", [doc! {"_id": 1}]);
    let reported = world.run(doc! {"timeTravel": 1, "advanceSeconds": 9.999});
    assert_eq!(reported.get("now"), Some(&date(START + 9_999)));
    assert_eq!(world.int_ids("c", doc! {}), [1]);
    world.run(doc! {"timeTravel": 1, "advanceSeconds": 0.001});
    assert_eq!(world.int_ids("c", doc! {}), NOBODY);
    world.run(doc! {"timeTravel": 1, "to": date(START + 60_000)});
    let status = world.run(doc! {"serverStatus": 1});
    assert_eq!(status.get("localTime"), Some(&date(START + 60_000)));
    let reported = world.run(doc! {"timeTravel": 1, "freeze": false});
    assert_eq!(reported.get("frozen"), Some(&Bson::Boolean(false)));
    let reported = world.run(doc! {"timeTravel": 1, "freeze": true});
    assert_eq!(reported.get("frozen"), Some(&Bson::Boolean(true)));
    let reported = reported.get_datetime("now").unwrap().timestamp_millis();
    assert!((START + 60_000..START + 120_000).contains(&reported));

    let clock = sundown::clock::Clock::frozen(sundown::clock::Millis(START));
    let mut world = World::with(Reaper::On, clock, |config| {
        config.enable_test_commands = false
    });
    let (_, message) = world.refused(doc! {"timeTravel": 1, "advanceSeconds": 1});
    assert!(message.contains("--enable-test-commands"), "{message}");
}

/// If one of several index builds fails, no rule remains, and none of the rules has ended a document.
#[test]
fn a_failed_build_expires_nothing() {
    for reaper in [Reaper::On, Reaper::Off] {
        let mut world = World::new(reaper);
        world.insert(
            "c",
            (0..MANY).map(|id| doc! {"_id": id, "at": date(START - 100_000), "u": 1}),
        );
        let both = doc! {"createIndexes": "c", "indexes": [
            {"key": {"u": 1}, "name": "u", "unique": true},
            {"key": {"at": 1}, "name": "at", "expireAfterSeconds": 10},
        ]};
        assert_eq!(world.refused(both).0, 11_000);
        assert_eq!(world.int_ids("c", doc! {}).len(), MANY as usize);
    }
}

/// While a date rule changes, other clients read and write. Each of them sees the collection under the old rule or under
/// the new one, and no expired document.
#[test]
fn other_commands_run_while_a_date_rule_changes() {
    // Some expire at 10 s by the first rule. Half of the others expire at 60 s, half never.
    let at = |id: i32| match id % 4 {
        0 => date(START),
        1 => date(START + 50_000),
        _ => Bson::Null,
    };
    let many = 8_000;
    let alive = i64::from(many / 4 * 3);
    let changes = [
        // The change, and how many documents are visible after it at 15 s.
        (
            doc! {"collMod": "c", "index": {"name": "at_1", "expireAfterSeconds": 1_000}},
            alive,
        ),
        (doc! {"dropIndexes": "c", "index": "at_1"}, alive),
        (doc! {"dropIndexes": "c", "index": "*"}, alive),
        (
            doc! {"collMod": "c", "index": {"name": "at_1", "expireAfterSeconds": 0}},
            alive,
        ),
        (
            doc! {"createIndexes": "c", "indexes": [{"key": {"b": 1}, "name": "b_1", "expireAfterSeconds": 5}]},
            i64::from(many / 4),
        ),
        (doc! {"validate": "c"}, alive),
    ];
    for reaper in [Reaper::On, Reaper::Off] {
        for (change, left) in &changes {
            let adds = change.contains_key("createIndexes");
            if adds
                && through_upstream(
                    "a running scan sees what the cluster deletes by a new TTL index",
                )
            {
                continue;
            }
            let mut world = World::new(reaper);
            world.index("c", doc! {"key": {"at": 1}, "expireAfterSeconds": 10});
            for first in (0..many).step_by(4_000) {
                world.insert(
                    "c",
                    (first..first + 4_000).map(|id| {
                        let b = if id % 4 == 3 {
                            Bson::Null
                        } else {
                            date(START + 1_000)
                        };
                        doc! {"_id": id, "at": at(id), "b": b, "pad": "x".repeat(50)}
                    }),
                );
            }
            world.at(15_000);
            let mut other = world.connect();
            let over = std::sync::atomic::AtomicBool::new(false);
            let looked = std::thread::scope(|scope| {
                let watch = scope.spawn(|| {
                    let mut looked = 0;
                    loop {
                        let last = over.load(std::sync::atomic::Ordering::Acquire);
                        let mut ask = |command: Document| other.command("test", command).unwrap();
                        let count = ask(doc! {"count": "c"}).get("n").and_then(int).unwrap();
                        assert!([alive, *left].contains(&count), "{change}: {count}");
                        let ended = ask(doc! {"find": "c", "filter": {"_id": 4 * (looked % 2_000)}, "singleBatch": true});
                        let rows = ended.get_document("cursor").unwrap().get_array("firstBatch");
                        assert!(rows.unwrap().is_empty(), "{change}: {ended}");
                        let id = 4 * (looked % 2_000) + 3;
                        let done = ask(doc! {"update": "c", "updates": [{"q": {"_id": id}, "u": {"$inc": {"n": 1}}}]});
                        assert_eq!(done.get("n").and_then(int), Some(1), "{change}: {done}");
                        looked += 1;
                        if last {
                            return looked;
                        }
                    }
                });
                world.run(change.clone());
                over.store(true, std::sync::atomic::Ordering::Release);
                watch.join().unwrap()
            });
            assert!(looked > 0);
            let count = world.run(doc! {"count": "c"}).get("n").and_then(int);
            assert_eq!(count, Some(*left), "{change}");
            assert_eq!(
                world.int_ids("c", doc! {"_id": {"$lt": 9}, "at": date(START)}),
                NOBODY,
                "{change}"
            );
            let checked = world.run(doc! {"validate": "c"});
            assert_eq!(
                checked.get("nrecords").and_then(int),
                Some(*left),
                "{change}"
            );
        }
    }
}
