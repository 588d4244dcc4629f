use std::time::Duration;

use bson::{Bson, Document, doc};

use super::{Server, batch, code, run, with};
use crate::command::tests::server::{begin, finish, run_steps};
use crate::config::CosmosConfig;

#[test]
fn databases_and_collections_have_throughput() {
    let mut server = with(CosmosConfig::default());
    let rows = [
        (doc! {"customAction": "GetDatabase"}, Err(26)),
        (
            doc! {"customAction": "CreateDatabase", "offerThroughput": 1000},
            Ok(doc! {"ok": 1.0}),
        ),
        (doc! {"customAction": "CreateDatabase"}, Err(48)),
        (
            doc! {"customAction": "GetDatabase"},
            Ok(doc! {"database": "shop", "provisionedThroughput": 1000, "ok": 1.0}),
        ),
        (
            doc! {"customAction": "UpdateDatabase", "autoScaleSettings": {"maxThroughput": 20000}},
            Ok(doc! {"ok": 1.0}),
        ),
        (
            doc! {"customAction": "GetDatabase"},
            Ok(doc! {
                "database": "shop", "provisionedThroughput": 2000,
                "autoScaleSettings": {"maxThroughput": 20000}, "ok": 1.0,
            }),
        ),
        (
            doc! {"customAction": "CreateCollection", "collection": "shared"},
            Ok(doc! {"ok": 1.0}),
        ),
        (
            doc! {"customAction": "GetCollection", "collection": "shared"},
            Ok(doc! {"database": "shop", "collection": "shared", "ok": 1.0}),
        ),
        (
            doc! {
                "customAction": "CreateCollection", "collection": "c", "offerThroughput": 500, "shardKey": "a.b",
                "indexes": [
                    {"key": {"_id": 1}, "name": "_id_1"}, {"key": {"a": 1}, "name": "a_1", "unique": true},
                    {"key": {"_ts": 1}, "name": "_ts_1", "expireAfterSeconds": 60},
                ],
            },
            Ok(doc! {"ok": 1.0}),
        ),
        (
            doc! {"customAction": "GetCollection", "collection": "c", "showIndexes": true},
            Ok(doc! {
                "database": "shop", "collection": "c", "shardKeyDefinition": {"a.b": "hashed"},
                "provisionedThroughput": 500, "indexes": [
                    {"v": 2, "key": {"_id": 1}, "name": "_id_", "ns": "shop.c"},
                    {"v": 2, "key": {"a": 1}, "name": "a_1", "unique": true, "ns": "shop.c"},
                    {"v": 2, "key": {"_ts": 1}, "name": "_ts_1", "expireAfterSeconds": 60, "ns": "shop.c"},
                ], "ok": 1.0,
            }),
        ),
        (
            doc! {"customAction": "UpdateCollection", "collection": "c", "offerThroughput": 600, "indexes": [{"key": {"_id": 1}, "name": "_id_1"}]},
            Ok(doc! {"ok": 1.0}),
        ),
        (
            doc! {"customAction": "GetCollection", "collection": "c", "showIndexes": true},
            Ok(doc! {
                "database": "shop", "collection": "c", "shardKeyDefinition": {"a.b": "hashed"}, "provisionedThroughput": 600,
                "indexes": [{"v": 2, "key": {"_id": 1}, "name": "_id_", "ns": "shop.c"}], "ok": 1.0,
            }),
        ),
        (
            doc! {"customAction": "CreateCollection", "collection": "c"},
            Err(48),
        ),
        (
            doc! {"customAction": "UpdateCollection", "collection": "nope"},
            Err(26),
        ),
    ];
    for (command, expected) in rows {
        let reply = run(&mut server, command.clone());
        match expected {
            Ok(expected) => assert_eq!(reply, expected, "{command}"),
            Err(code) => assert_eq!(reply.get_i32("code").ok(), Some(code), "{command}: {reply}"),
        }
    }
    // A collection that is created again has no throughput.
    run(&mut server, doc! {"drop": "c"});
    run(&mut server, doc! {"dropDatabase": 1});
    run(&mut server, doc! {"create": "c"});
    assert_eq!(
        run(
            &mut server,
            doc! {"customAction": "GetCollection", "collection": "c"}
        ),
        doc! {"database": "shop", "collection": "c", "provisionedThroughput": 400, "ok": 1.0}
    );
}

#[test]
fn bad_input_is_refused_and_changes_nothing() {
    let mut server = with(CosmosConfig::default());
    for n in [1, 1] {
        run(&mut server, doc! {"insert": "c", "documents": [{"a": n}]});
    }
    let id = doc! {"key": {"_id": 1}, "name": "_id_1"};
    let index = |spec: Document| Bson::Array(vec![id.clone().into(), spec.into()]);
    let with_field = |action: &str, name: &str, value: Bson| doc! {"customAction": action, "collection": "d", name: value};
    let rows: Vec<(Document, i32)> = vec![
        (doc! {"customAction": "Nope"}, 115),
        (doc! {"customAction": 1}, 14),
        (
            doc! {"customAction": "GetChangeStreamTokens", "collection": "c"},
            238,
        ),
        (doc! {"customAction": "GetDatabase", "nope": 1}, 40415),
        (
            doc! {"customAction": "GetDatabase", "offerThroughput": 400},
            40415,
        ),
        (
            doc! {"customAction": "CreateDatabase", "collection": "c"},
            40415,
        ),
        (
            doc! {"customAction": "UpdateDatabase", "shardKey": "a"},
            40415,
        ),
        (
            doc! {"customAction": "UpdateCollection", "collection": "c", "shardKey": "a"},
            40415,
        ),
        (doc! {"customAction": "CreateCollection"}, 40414),
        (
            doc! {"customAction": "CreateCollection", "collection": 1},
            14,
        ),
        (
            doc! {"customAction": "CreateCollection", "collection": ""},
            73,
        ),
        (
            doc! {"customAction": "GetCollection", "collection": "nope"},
            26,
        ),
        (
            doc! {"customAction": "CreateCollection", "collection": "d", "defaultTtl": 5},
            40415,
        ),
        (
            with_field("CreateCollection", "offerThroughput", 450.into()),
            2,
        ),
        (
            with_field("CreateCollection", "offerThroughput", 300.into()),
            2,
        ),
        (
            with_field("CreateCollection", "offerThroughput", (-400).into()),
            2,
        ),
        (
            with_field("CreateCollection", "offerThroughput", (1_i64 << 40).into()),
            2,
        ),
        (
            with_field("CreateCollection", "offerThroughput", "400".into()),
            14,
        ),
        (
            with_field("CreateCollection", "offerThroughput", 20_000.into()),
            2,
        ),
        (
            doc! {"customAction": "UpdateCollection", "collection": "c", "offerThroughput": 20_000},
            2,
        ),
        (
            with_field("CreateCollection", "autoScaleSettings", 4000.into()),
            14,
        ),
        (
            with_field("CreateCollection", "autoScaleSettings", doc! {}.into()),
            40414,
        ),
        (
            with_field(
                "CreateCollection",
                "autoScaleSettings",
                doc! {"maxThroughput": 4100}.into(),
            ),
            2,
        ),
        (
            with_field(
                "CreateCollection",
                "autoScaleSettings",
                doc! {"maxThroughput": 4000, "x": 1}.into(),
            ),
            40415,
        ),
        (
            doc! {"customAction": "CreateDatabase", "offerThroughput": 400, "autoScaleSettings": {"maxThroughput": 4000}},
            2,
        ),
        (with_field("CreateCollection", "shardKey", "".into()), 2),
        (with_field("CreateCollection", "shardKey", "a..b".into()), 2),
        (with_field("CreateCollection", "shardKey", "$a".into()), 2),
        (
            with_field("CreateCollection", "shardKey", doc! {"a": "hashed"}.into()),
            14,
        ),
        (
            with_field("CreateCollection", "indexes", Bson::Array(vec![])),
            2,
        ),
        (
            with_field(
                "CreateCollection",
                "indexes",
                Bson::Array(vec![doc! {"key": {"a": 1}, "name": "a_1"}.into()]),
            ),
            2,
        ),
        (
            with_field(
                "CreateCollection",
                "indexes",
                index(doc! {"key": {"a": 1}, "name": ""}),
            ),
            67,
        ),
        (
            with_field("CreateCollection", "indexes", index(doc! {"key": {"a": 1}})),
            9,
        ),
        (
            with_field("CreateCollection", "indexes", index(doc! {"name": "a_1"})),
            9,
        ),
        (
            with_field(
                "CreateCollection",
                "indexes",
                index(doc! {"key": {"a": 1}, "name": "a_1", "nope": 1}),
            ),
            197,
        ),
        (with_field("CreateCollection", "indexes", "a".into()), 14),
    ];
    for (command, expected) in rows {
        let reply = run(&mut server, command.clone());
        assert_eq!(
            reply.get_i32("code").ok(),
            Some(expected),
            "{command}: {reply}"
        );
        assert!(
            reply.get_str("errmsg").is_ok_and(|words| !words.is_empty()),
            "{command}"
        );
    }
    let there = run(&mut server, doc! {"listCollections": 1, "nameOnly": true});
    assert_eq!(batch(&there).len(), 1);
    assert_eq!(
        run(&mut server, doc! {"customAction": "GetDatabase"}),
        doc! {"database": "shop", "ok": 1.0}
    );
}

fn indexes(server: &mut Server, collection: &str) -> Vec<String> {
    let shown =
        doc! {"customAction": "GetCollection", "collection": collection, "showIndexes": true};
    let shown = run(server, shown);
    let shown = shown.get_array("indexes").unwrap().iter();
    shown
        .map(|index| {
            let mut index = index.as_document().unwrap().clone();
            let name = index.get_str("name").unwrap().to_owned();
            for field in ["v", "key", "name", "ns"] {
                index.remove(field);
            }
            if index.is_empty() {
                name
            } else {
                format!("{name} {index}")
            }
        })
        .collect()
}

#[test]
fn a_list_of_indexes_replaces_another_or_nothing_changes() {
    let mut server = with(CosmosConfig::default());
    let twins = vec![doc! {"a": 1, "b": 1}, doc! {"a": 1, "b": 2}];
    run(&mut server, doc! {"insert": "c", "documents": twins});
    let mut put = |list: &[Document]| {
        let mut specs = vec![Bson::from(doc! {"key": {"_id": 1}, "name": "_id_1"})];
        specs.extend(list.iter().cloned().map(Bson::from));
        let update = doc! {"customAction": "UpdateCollection", "collection": "c", "indexes": specs};
        let failed = code(&mut server, update);
        (failed, indexes(&mut server, "c"))
    };
    let a = doc! {"key": {"a": 1}, "name": "a_1"};
    let b = doc! {"key": {"b": 1}, "name": "b_1"};
    let ts =
        |seconds: i32| doc! {"key": {"_ts": 1}, "name": "_ts_1", "expireAfterSeconds": seconds};
    let unique = |spec: &Document| {
        let mut spec = spec.clone();
        spec.insert("unique", true);
        spec
    };
    let hour = r#"_ts_1 { "expireAfterSeconds": 3600 }"#;
    let minute = r#"_ts_1 { "expireAfterSeconds": 60 }"#;
    let unique_b = r#"b_1 { "unique": true }"#;
    // (the list, the error, the indexes afterwards)
    let rows: Vec<(Vec<Document>, Option<i32>, Vec<&str>)> = vec![
        (vec![a.clone()], None, vec!["_id_", "a_1"]),
        (
            vec![a.clone(), b.clone(), ts(3600)],
            None,
            vec!["_id_", "a_1", "b_1", hour],
        ),
        // An index that cannot be parsed, and one that conflicts with the documents: alone, beside others, and in place of
        // an old one.
        (
            vec![doc! {"key": {"c": 1}}],
            Some(9),
            vec!["_id_", "a_1", "b_1", hour],
        ),
        (
            vec![doc! {"key": {"c": "nope"}, "name": "c"}],
            Some(67),
            vec!["_id_", "a_1", "b_1", hour],
        ),
        (
            vec![doc! {"key": {"a": -1}, "name": "x", "unique": true}],
            Some(11000),
            vec!["_id_", "a_1", "b_1", hour],
        ),
        (
            vec![unique(&a), doc! {"key": {"c": 1}, "name": "c_1"}, ts(60)],
            Some(11000),
            vec!["_id_", "a_1", "b_1", hour],
        ),
        (
            vec![unique(&b), ts(60)],
            None,
            vec!["_id_", unique_b, minute],
        ),
        (
            vec![doc! {"key": {"a": 1}, "name": "b_1"}],
            None,
            vec!["_id_", "b_1"],
        ),
        (vec![], None, vec!["_id_"]),
        (
            vec![doc! {"key": {"_ts": 1}, "name": "_ts_1"}],
            None,
            vec!["_id_", "_ts_1"],
        ),
        (vec![ts(60)], None, vec!["_id_", minute]),
    ];
    for (list, failed, mut expected) in rows {
        let (got, mut there) = put(&list);
        there.sort();
        expected.sort_unstable();
        assert_eq!(
            (got, there.iter().map(String::as_str).collect()),
            (failed, expected),
            "{list:?}"
        );
    }
}

#[test]
fn a_failed_create_leaves_no_collection() {
    let mut server = with(CosmosConfig {
        strict: true,
        ..CosmosConfig::default()
    });
    let specs = |spec: Document| vec![doc! {"key": {"_id": 1}, "name": "_id_1"}, spec];
    for (spec, expected) in [
        (doc! {"key": {"a": 1}, "name": "a_1", "sparse": true}, 2),
        (
            doc! {"key": {"a": 1}, "name": "a_1", "expireAfterSeconds": 5},
            2,
        ),
    ] {
        let create = doc! {"customAction": "CreateCollection", "collection": "c", "indexes": specs(spec.clone())};
        assert_eq!(code(&mut server, create), Some(expected), "{spec}");
        let get = doc! {"customAction": "GetCollection", "collection": "c"};
        assert_eq!(code(&mut server, get), Some(26), "{spec}");
    }
    let ts = doc! {"key": {"_ts": 1}, "name": "_ts_1", "expireAfterSeconds": 5};
    let create = doc! {"customAction": "CreateCollection", "collection": "c", "indexes": specs(ts)};
    assert_eq!(code(&mut server, create), None);
}

/// Whenever the client leaves, the indexes are either all old or all new.
#[test]
fn an_abandoned_update_leaves_all_old_or_all_new_indexes() {
    let mut server = with(CosmosConfig::default());
    let documents: Vec<Document> = (0..3000).map(|n| doc! {"a": n, "b": n}).collect();
    run(&mut server, doc! {"insert": "c", "documents": documents});
    let list = |names: &[(&str, Document)]| -> Vec<Document> {
        let spec = |(name, key): &(&str, Document)| doc! {"key": key.clone(), "name": name};
        let id = ("_id_", doc! {"_id": 1});
        std::iter::once(&id).chain(names).map(spec).collect()
    };
    let update = |specs: Vec<Document>| {
        doc! {"customAction": "UpdateCollection", "collection": "c", "indexes": specs, "$db": "shop"}
    };
    let old = list(&[("x", doc! {"a": 1}), ("y", doc! {"b": 1})]);
    let new = list(&[("x", doc! {"b": -1}), ("z", doc! {"a": -1})]);
    assert_eq!(code(&mut server, update(old)), None);
    let old = indexes(&mut server, "c");
    let mut abandoned = 0;
    for steps in 0.. {
        let done = run_steps(&mut server, update(new.clone()), steps);
        let mut there = indexes(&mut server, "c");
        there.sort();
        if done {
            assert_eq!(there, ["_id_", "x", "z"]);
            break;
        }
        assert_eq!(there, old, "after {steps} steps");
        abandoned += 1;
    }
    assert!(abandoned > 3, "{abandoned}");
}

/// Another client is slowly building an index that the undo must create again. Abandoning the action does not wait for that.
/// The rest is undone when the other client is done.
#[tokio::test]
async fn an_abandoned_update_is_undone_in_the_background() {
    let mut server = with(CosmosConfig::default());
    let documents: Vec<Document> = (0..3000).map(|n| doc! {"a": n, "b": n}).collect();
    run(&mut server, doc! {"insert": "c", "documents": documents});
    let index = |name: &str, key: Document| doc! {"key": key, "name": name};
    let update = |spec: [Document; 2]| {
        let id = index("_id_", doc! {"_id": 1});
        let specs = [&[id], &spec[..]].concat();
        doc! {"customAction": "UpdateCollection", "collection": "c", "indexes": specs, "$db": "shop"}
    };
    let old = [index("x", doc! {"a": 1}), index("y", doc! {"b": 1})];
    let new = [index("x", doc! {"b": -1}), index("z", doc! {"a": -1})];
    assert_eq!(code(&mut server, update(old.clone())), None);
    let mut abandoned = begin(&mut server, update(new));
    while indexes(&mut server, "c").contains(&"y".to_owned()) {
        abandoned.step(&mut Vec::new()).unwrap();
    }
    let mut other = begin(
        &mut server,
        doc! {"createIndexes": "c", "indexes": [old[1].clone()], "$db": "shop"},
    );
    other.step(&mut Vec::new()).unwrap();
    drop(abandoned);
    let undone = async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(indexes(&mut server, "c"), ["_id_", "z"], "it waits");
        assert_eq!(finish(other).get_f64("ok").ok(), Some(1.0));
        loop {
            let mut there = indexes(&mut server, "c");
            there.sort();
            if there == ["_id_", "x", "y"] {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    let guard = Duration::from_secs(120);
    tokio::time::timeout(guard, undone).await.unwrap();
}
