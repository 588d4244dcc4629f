//! `DefaultTTL`: one setting that several commands change and show.

use bson::{Bson, Document, doc};

use crate::support::world::{
    Reaper, World, batch, create_index, differs_on_mongod, int, through_upstream,
};

/// Returns the default that listCollections and listIndexes show. Both must agree.
fn shown(world: &mut World, c: &str) -> Option<i64> {
    let (rows, ..) = batch(&world.run(doc! {"listCollections": 1, "filter": {"name": c}}));
    let option = rows[0]
        .get_document("options")
        .unwrap()
        .get("defaultTtl")
        .map(|value| int(value).unwrap());
    let (rows, ..) = batch(&world.run(doc! {"listIndexes": c}));
    let index = rows
        .iter()
        .filter(|row| is_default(row))
        .map(|row| row.get("expireAfterSeconds").and_then(int).unwrap());
    let index: Vec<i64> = index.collect();
    assert!(index.len() <= 1, "{rows:?}");
    assert_eq!(option, index.first().copied(), "{rows:?}");
    option
}

fn is_default(index: &Document) -> bool {
    index.get_document("key").unwrap().contains_key("_ts")
        && index.contains_key("expireAfterSeconds")
}

fn indexes(world: &mut World, c: &str) -> Vec<Document> {
    batch(&world.run(doc! {"listIndexes": c})).0
}

/// Checks which default applies, with two documents: ten seconds after their write it distinguishes an hour, a minute, -1
/// and off.
fn holds(world: &mut World, c: &str, expected: Option<i64>) {
    world.insert(c, [doc! {"_id": "inherits"}, doc! {"_id": "own", "ttl": 5}]);
    let begin = world.now();
    let there = |world: &mut World, after: i64| {
        world.clock.set(sundown::clock::Millis(begin + after));
        let ids = world.ids(c, doc! {});
        let has = |id: &str| ids.contains(&Bson::String(id.into()));
        (has("inherits"), has("own"))
    };
    match expected {
        None => assert_eq!(there(world, 1 << 42), (true, true), "off"),
        Some(-1) => {
            assert_eq!(there(world, 4_999), (true, true), "-1");
            assert_eq!(there(world, 5_000), (true, false), "-1");
            assert_eq!(there(world, 1 << 42), (true, false), "-1");
        }
        Some(n) => {
            assert!(n > 5);
            assert_eq!(there(world, 5_000), (true, false), "{n}");
            assert_eq!(there(world, n * 1000 - 1), (true, false), "{n}");
            assert_eq!(there(world, n * 1000), (false, false), "{n}");
        }
    }
    world.run(doc! {"delete": c, "deletes": [{"q": {}, "limit": 0}]});
}

fn ts_index(c: &str, options: Document) -> Document {
    let mut index = doc! {"key": {"_ts": 1}};
    index.extend(options);
    create_index(c, index)
}

/// Each command turns the default on, changes it and turns it off, and the other commands show it.
#[test]
fn every_command_changes_the_same_setting() {
    let steps: Vec<(Document, Option<i64>)> = vec![
        (doc! {"create": "c"}, None),
        (ts_index("c", doc! {"expireAfterSeconds": 20}), Some(20)),
        (doc! {"collMod": "c", "defaultTtl": 30}, Some(30)),
        (
            doc! {"collMod": "c", "index": {"keyPattern": {"_ts": 1}, "expireAfterSeconds": 40}},
            Some(40),
        ),
        (
            doc! {"collMod": "c", "index": {"name": "_ts_1", "expireAfterSeconds": -1}},
            Some(-1),
        ),
        (doc! {"collMod": "c", "defaultTtl": null}, None),
        (doc! {"collMod": "c", "defaultTtl": -1}, Some(-1)),
        (doc! {"dropIndexes": "c", "index": "_ts_1"}, None),
        (ts_index("c", doc! {"expireAfterSeconds": -1}), Some(-1)),
        (ts_index("c", doc! {"expireAfterSeconds": 50}), Some(50)),
        (
            ts_index("c", doc! {"expireAfterSeconds": 60, "name": "other"}),
            Some(60),
        ),
        (doc! {"dropIndexes": "c", "index": {"_ts": 1}}, None),
        (
            create_index("c", doc! {"key": {"_ts": -1}, "expireAfterSeconds": 70}),
            Some(70),
        ),
        (doc! {"dropIndexes": "c", "index": {"_ts": -1}}, None),
        (doc! {"collMod": "c", "defaultTtl": 80.0}, Some(80)),
        (doc! {"dropIndexes": "c", "index": "*"}, None),
        (doc! {"collMod": "c", "defaultTtl": 90i64}, Some(90)),
        (doc! {"dropIndexes": "c", "index": ["_ts_1"]}, None),
        (doc! {"collMod": "c", "defaultTtl": null}, None),
        (doc! {"drop": "c"}, None),
        (doc! {"create": "c", "defaultTtl": 100}, Some(100)),
        (doc! {"drop": "c"}, None),
        (doc! {"create": "c", "defaultTtl": -1}, Some(-1)),
        (doc! {"drop": "c"}, None),
        (doc! {"create": "c", "defaultTtl": null}, None),
        (doc! {"drop": "c"}, None),
        (
            ts_index("c", doc! {"expireAfterSeconds": i32::MAX}),
            Some(i64::from(i32::MAX)),
        ),
    ];
    for reaper in [Reaper::On, Reaper::Off] {
        let mut world = World::new(reaper);
        for (command, expected) in &steps {
            world.run(command.clone());
            if command.contains_key("drop") {
                continue;
            }
            assert_eq!(shown(&mut world, "c"), *expected, "{command}");
            holds(&mut world, "c", *expected);
        }
    }
}

#[test]
fn how_the_ts_index_is_listed() {
    let mut world = World::new(Reaper::On);
    world.index("c", doc! {"key": {"a": 1}});
    let before = indexes(&mut world, "c").len();
    let made = world.run(ts_index("c", doc! {"expireAfterSeconds": 20}));
    assert_eq!(
        made.get("numIndexesBefore").and_then(int),
        Some(before as i64)
    );
    assert_eq!(
        made.get("numIndexesAfter").and_then(int),
        Some(before as i64 + 1)
    );
    let all = indexes(&mut world, "c");
    assert_eq!(
        all.iter().find(|row| is_default(row)).unwrap(),
        &doc! {"v": 2, "key": {"_ts": 1}, "name": "_ts_1", "expireAfterSeconds": 20}
    );
    // Created again under another name: the value and the name change, and there is still only one index.
    world.run(ts_index(
        "c",
        doc! {"expireAfterSeconds": 30, "name": "mine"},
    ));
    let all = indexes(&mut world, "c");
    assert_eq!(
        all.iter().find(|row| is_default(row)).unwrap(),
        &doc! {"v": 2, "key": {"_ts": 1}, "name": "mine", "expireAfterSeconds": 30}
    );
    assert_eq!(all.len(), before + 1);
    // collMod finds the index by its current name.
    world.run(doc! {"collMod": "c", "index": {"name": "mine", "expireAfterSeconds": 40}});
    assert_eq!(shown(&mut world, "c"), Some(40));
    assert_eq!(
        world
            .refused(doc! {"collMod": "c", "index": {"name": "_ts_1", "expireAfterSeconds": 40}})
            .0,
        27
    );
    let other = world.run(doc! {"dropIndexes": "c", "index": "mine"});
    assert_eq!(
        other.get("nIndexesWas").and_then(int),
        Some(before as i64 + 1)
    );
    assert_eq!(shown(&mut world, "c"), None);
}

/// A plain index on `_ts` is no default until createIndexes or collMod converts it.
#[test]
fn plain_indexes_on_ts() {
    if differs_on_mongod("only collections with a DefaultTTL have _ts") {
        return;
    }
    for turn in [
        ts_index("c", doc! {"expireAfterSeconds": 20}),
        doc! {"collMod": "c", "index": {"keyPattern": {"_ts": 1}, "expireAfterSeconds": 20}},
        doc! {"collMod": "c", "index": {"name": "_ts_1", "expireAfterSeconds": 20}},
    ] {
        let mut world = World::new(Reaper::Off);
        world.insert("c", [doc! {"_id": 1}]);
        world.run(ts_index("c", doc! {}));
        world.index("c", doc! {"key": {"_ts": 1, "a": 1}});
        assert_eq!(shown(&mut world, "c"), None);
        assert_eq!(indexes(&mut world, "c").len(), 3);
        world.at(2_000);
        world.insert("c", [doc! {"_id": 2}]);
        let second = world.now() / 1000;
        for hint in [
            doc! {"_ts": 1},
            doc! {"_ts": 1, "a": 1},
            doc! {"$natural": 1},
        ] {
            let rows = world.rows(
                doc! {"find": "c", "filter": {"_ts": {"$gte": second}}, "hint": hint.clone()},
            );
            assert_eq!(rows, [doc! {"_id": 2, "_ts": second}], "{hint}");
        }
        world.run(turn.clone());
        assert_eq!(shown(&mut world, "c"), Some(20), "{turn}");
        assert_eq!(indexes(&mut world, "c").len(), 3, "{turn}");
        if through_upstream(
            "documents from before the first default count as written when it was switched on",
        ) {
            continue;
        }
        world.at(20_000);
        assert_eq!(world.int_ids("c", doc! {}), [2], "{turn}");
        for hint in [Bson::from("_ts_1"), Bson::from(doc! {"_ts": 1})] {
            assert_eq!(
                crate::support::world::ids(&world.rows(doc! {"find": "c", "hint": hint})),
                [Bson::Int32(2)]
            );
        }
        world.run(doc! {"dropIndexes": "c", "index": "_ts_1"});
        assert_eq!(shown(&mut world, "c"), None);
        assert_eq!(indexes(&mut world, "c").len(), 2);
    }
}

/// However the default is set, exactly one index shows it.
#[test]
fn names_are_not_shared() {
    let a = doc! {"key": {"a": 1}, "name": "x"};
    let default = |name: &str| doc! {"key": {"_ts": 1}, "name": name, "expireAfterSeconds": 20};
    let make = |indexes: &[Document]| doc! {"createIndexes": "c", "indexes": indexes.to_vec()};
    let mut world = World::new(Reaper::Off);
    // The name belongs to another index, which exists already or is created by the same command.
    for both in [[a.clone(), default("x")], [default("x"), a.clone()]] {
        assert_eq!(world.refused(make(&both)).0, 86);
        assert_eq!(shown(&mut world, "c"), None);
    }
    world.run(make(&[a]));
    assert_eq!(world.refused(make(&[default("x")])).0, 86);
    assert_eq!(shown(&mut world, "c"), None);
    // No client has chosen this name for the default.
    world.run(make(&[doc! {"key": {"b": 1}, "name": "_ts_1"}]));
    world.run(doc! {"collMod": "c", "defaultTtl": 30});
    assert_eq!(shown(&mut world, "c"), Some(30));
    world.run(doc! {"dropIndexes": "c", "index": "_ts_1"});
    assert_eq!(shown(&mut world, "c"), Some(30));
    assert_eq!(indexes(&mut world, "c").len(), 3);
    world.run(doc! {"dropIndexes": "c", "index": {"_ts": 1}});
    assert_eq!(shown(&mut world, "c"), None);
}

/// If there are several indexes on `_ts`, the named one shows the default. If none is named, the first suitable one does.
#[test]
fn which_plain_index_shows_the_default() {
    let name_of = |world: &mut World| {
        let mut all = indexes(world, "c");
        all.retain(is_default);
        all[0].get_str("name").unwrap().to_owned()
    };
    let seconds = doc! {"expireAfterSeconds": 20};
    let by_name = |name: &str| {
        let mut index = doc! {"name": name};
        index.extend(seconds.clone());
        index
    };
    let mut down = by_name("q");
    down.insert("key", doc! {"_ts": -1});
    let rows = [
        (doc! {"collMod": "c", "defaultTtl": 20}, "p"),
        (doc! {"collMod": "c", "index": by_name("q")}, "q"),
        (doc! {"createIndexes": "c", "indexes": [down]}, "q"),
        (ts_index("c", seconds.clone()), "p"),
    ];
    for (turn, name) in rows {
        let mut world = World::new(Reaper::Off);
        for index in [
            doc! {"key": {"_ts": 1}, "name": "u", "unique": true},
            doc! {"key": {"_ts": 1}, "name": "p"},
            doc! {"key": {"_ts": -1}, "name": "q"},
        ] {
            world.index("c", index);
        }
        let unique = doc! {"collMod": "c", "index": by_name("u")};
        assert_eq!(world.refused(unique).0, 72);
        world.run(turn.clone());
        assert_eq!(shown(&mut world, "c"), Some(20), "{turn}");
        assert_eq!(indexes(&mut world, "c").len(), 4, "{turn}");
        assert_eq!(name_of(&mut world), name, "{turn}");
        for more in ["unique", "prepareUnique"] {
            let change = doc! {"collMod": "c", "index": {"name": name, more: true}};
            assert_eq!(world.refused(change).0, 72, "{turn}: {more}");
        }
        // The same request again changes nothing.
        world.run(doc! {"collMod": "c", "defaultTtl": 30});
        assert_eq!(shown(&mut world, "c"), Some(30), "{turn}");
        assert_eq!(name_of(&mut world), name, "{turn}");
        world.run(doc! {"dropIndexes": "c", "index": name});
        assert_eq!(shown(&mut world, "c"), None, "{turn}");
        assert_eq!(indexes(&mut world, "c").len(), 3, "{turn}");
    }
}

/// A hint may name the index of the default, although no index structure exists.
#[test]
fn a_hint_can_name_the_ts_index() {
    let mut world = World::new(Reaper::Off);
    world.run(doc! {"create": "c", "defaultTtl": 20});
    world.insert("c", [doc! {"_id": 1}, doc! {"_id": 2}]);
    for hint in [Bson::from("_ts_1"), Bson::from(doc! {"_ts": 1})] {
        let rows = world.rows(doc! {"find": "c", "hint": hint.clone(), "sort": {"_id": 1}});
        assert_eq!(rows, [doc! {"_id": 1}, doc! {"_id": 2}], "{hint}");
        let done = world.run(doc! {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "hint": hint.clone(), "multi": true}]});
        assert_eq!(done.get("n").and_then(int), Some(2));
        world.run(
            doc! {"update": "c", "updates": [{"q": {}, "u": {"$unset": {"a": 1}}, "multi": true}]},
        );
    }
    assert_eq!(world.refused(doc! {"find": "c", "hint": "nope"}).0, 2);
}

fn bad_numbers() -> Vec<Bson> {
    vec![
        Bson::Int32(0),
        Bson::Int64(0),
        Bson::Double(0.0),
        Bson::Int32(-2),
        Bson::Int32(i32::MIN),
        Bson::Int64(i64::from(i32::MAX) + 1),
        Bson::Int64(i64::MIN),
        Bson::Double(1.5),
        Bson::Double(-1.5),
        Bson::Double(2_147_483_648.0),
        Bson::Double(1e300),
        Bson::Double(f64::NAN),
        Bson::Double(f64::INFINITY),
        Bson::Double(f64::NEG_INFINITY),
    ]
}

fn no_numbers() -> Vec<Bson> {
    vec![
        Bson::String("20".into()),
        Bson::Boolean(true),
        Bson::Document(doc! {}),
        Bson::Array(vec![Bson::Int32(20)]),
        Bson::DateTime(bson::DateTime::from_millis(20)),
    ]
}

/// Invalid values are refused and change nothing. The message contains the value and what is allowed.
#[test]
fn which_values_are_refused() {
    let mut world = World::new(Reaper::On);
    world.run(doc! {"create": "c", "defaultTtl": 20});
    let bad = bad_numbers()
        .into_iter()
        .map(|value| (value, 72))
        .chain(no_numbers().into_iter().map(|value| (value, 14)));
    let mut number = 0;
    for (value, code) in bad {
        let says = |message: &str| message.contains("-1") && message.contains("2147483647");
        let refused = world.refused(ts_index("c", doc! {"expireAfterSeconds": value.clone()}));
        assert_eq!(refused.0, 67, "createIndexes {value}: {}", refused.1);
        assert!(says(&refused.1), "createIndexes {value}: {}", refused.1);
        let refused = world.refused(doc! {"collMod": "c", "defaultTtl": value.clone()});
        assert_eq!(refused.0, code, "collMod {value}: {}", refused.1);
        assert!(says(&refused.1), "collMod {value}: {}", refused.1);
        let refused = world.refused(doc! {"collMod": "c", "index": {"keyPattern": {"_ts": 1}, "expireAfterSeconds": value.clone()}});
        assert_eq!(refused.0, code, "collMod index {value}: {}", refused.1);
        number += 1;
        let refused =
            world.refused(doc! {"create": format!("n{number}"), "defaultTtl": value.clone()});
        assert_eq!(refused.0, code, "create {value}: {}", refused.1);
        assert!(says(&refused.1), "create {value}: {}", refused.1);
        assert_eq!(shown(&mut world, "c"), Some(20), "{value}");
    }
    let refused = world.refused(ts_index("c", doc! {"expireAfterSeconds": null}));
    assert_eq!(refused.0, 67, "{}", refused.1);
    // Nothing was created.
    let (rows, ..) = batch(&world.run(doc! {"listCollections": 1}));
    assert_eq!(rows.len(), 1);
    holds(&mut world, "c", Some(20));
}

#[test]
fn which_indexes_are_refused() {
    let mut world = World::new(Reaper::On);
    world.run(doc! {"create": "c"});
    for index in [
        doc! {"key": {"_ts": 1, "a": 1}, "expireAfterSeconds": 20},
        doc! {"key": {"a": 1, "_ts": 1}, "expireAfterSeconds": 20},
        doc! {"key": {"_ts": "hashed"}, "expireAfterSeconds": 20},
        doc! {"key": {"_ts": "text"}, "expireAfterSeconds": 20},
        doc! {"key": {"_ts": 1}, "expireAfterSeconds": 20, "partialFilterExpression": {"a": 1}},
        doc! {"key": {"_ts": 1}, "expireAfterSeconds": 20, "unique": true},
        doc! {"key": {"_ts": 1}, "expireAfterSeconds": 20, "hidden": true},
        doc! {"key": {"_ts": 1}, "expireAfterSeconds": 20, "prepareUnique": true},
        // Stored documents have no `_ts`, so the contents of such an index would not agree with its filter.
        doc! {"key": {"a": 1}, "partialFilterExpression": {"_ts": {"$gt": 0}}},
        doc! {"key": {"a": 1}, "partialFilterExpression": {"$and": [{"a": 1}, {"_ts": {"$gt": 0}}]}},
    ] {
        let by_ts = !index.contains_key("expireAfterSeconds");
        if by_ts && differs_on_mongod("only collections with a DefaultTTL have _ts") {
            continue;
        }
        let (code, message) = world.refused(create_index("c", index.clone()));
        assert_eq!(code, 67, "{index}: {message}");
        assert_eq!(shown(&mut world, "c"), None, "{index}");
        assert_eq!(indexes(&mut world, "c").len(), 1, "{index}");
    }
    // All or nothing: if another index is refused, the default is not set.
    let several = doc! {"createIndexes": "c", "indexes": [
        {"key": {"_ts": 1}, "name": "_ts_1", "expireAfterSeconds": 20},
        {"key": {"a": 1, "b": 1}, "name": "ab", "expireAfterSeconds": 20},
    ]};
    assert_eq!(world.refused(several).0, 67);
    assert_eq!(shown(&mut world, "c"), None);
    world.insert("c", [doc! {"_id": 1, "u": 1}, doc! {"_id": 2, "u": 1}]);
    let several = doc! {"createIndexes": "c", "indexes": [
        {"key": {"_ts": 1}, "name": "_ts_1", "expireAfterSeconds": 20},
        {"key": {"u": 1}, "name": "u", "unique": true},
    ]};
    assert_eq!(world.refused(several).0, 11_000);
    assert_eq!(shown(&mut world, "c"), None);
}

#[test]
fn indexing_modes() {
    let mut world = World::new(Reaper::On);
    let none = || doc! {"indexingMode": "none"};
    let says =
        "Indexing mode value cannot be 'none' when 'defaultTtl' is specified in the collection";
    let refused = world.refused(doc! {"create": "a", "defaultTtl": 20, "indexingPolicy": none()});
    assert_eq!(refused, (2, says.to_owned()));
    world.run(doc! {"create": "c", "indexingPolicy": none()});
    assert_eq!(
        world.refused(doc! {"collMod": "c", "defaultTtl": 20}),
        (2, says.to_owned())
    );
    assert_eq!(
        world.refused(ts_index("c", doc! {"expireAfterSeconds": 20})),
        (67, says.to_owned())
    );
    assert_eq!(
        world.refused(create_index("c", doc! {"key": {"a": 1}})).0,
        67
    );
    let (rows, ..) = batch(&world.run(doc! {"listCollections": 1, "filter": {"name": "c"}}));
    let options = rows[0].get_document("options").unwrap();
    assert_eq!(options.get_document("indexingPolicy").unwrap(), &none());
    for mode in ["lazy", "consistent"] {
        world.run(doc! {"collMod": "c", "indexingPolicy": {"indexingMode": mode}});
        world.run(doc! {"collMod": "c", "defaultTtl": 20});
        assert_eq!(
            world.refused(doc! {"collMod": "c", "indexingPolicy": none()}),
            (2, says.to_owned())
        );
        holds(&mut world, "c", Some(20));
        world.run(doc! {"collMod": "c", "defaultTtl": null});
        world.index("c", doc! {"key": {"a": 1}});
        assert_eq!(
            world
                .refused(doc! {"collMod": "c", "indexingPolicy": none()})
                .0,
            2
        );
        world.run(doc! {"dropIndexes": "c", "index": "*"});
    }
    // Both settings at once: the result of both is checked.
    world.run(doc! {"collMod": "c", "defaultTtl": 20});
    world.run(doc! {"collMod": "c", "defaultTtl": null, "indexingPolicy": none()});
    assert_eq!(shown(&mut world, "c"), None);
}

/// `$out` replaces the documents and keeps the default. renameCollection moves it.
#[test]
fn the_default_stays_with_its_collection() {
    let mut world = World::new(Reaper::On);
    world.run(doc! {"create": "target", "defaultTtl": 20});
    world.insert("source", [doc! {"_id": 1}]);
    world.run(doc! {"aggregate": "source", "pipeline": [{"$out": "target"}], "cursor": {}});
    assert_eq!(shown(&mut world, "target"), Some(20));
    world.at(19_999);
    assert_eq!(world.int_ids("target", doc! {}), [1]);
    world.at(20_000);
    assert_eq!(world.int_ids("target", doc! {}), [0i64; 0]);
    let renamed = world
        .client
        .command(
            "admin",
            doc! {"renameCollection": "test.target", "to": "test.moved"},
        )
        .unwrap();
    assert_eq!(renamed.get("ok").and_then(int), Some(1), "{renamed}");
    assert_eq!(shown(&mut world, "moved"), Some(20));
    holds(&mut world, "moved", Some(20));
}
