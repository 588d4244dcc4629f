use bson::{Document, doc};

use crate::command::check::{ask, server};
use crate::command::{Commands, Connection};
use crate::config::{Config, Cosmos};

type Server = (Commands, Connection);

fn with(cosmos: Cosmos) -> Server {
    server(Config {
        cosmos,
        enable_test_commands: true,
        ..Config::default()
    })
}

fn run(server: &mut Server, mut command: Document) -> Document {
    if !command.contains_key("$db") {
        command.insert("$db", "shop");
    }
    ask(server, command)
}

fn code(server: &mut Server, command: Document) -> Option<i32> {
    run(server, command).get_i32("code").ok()
}

#[test]
fn databases_and_collections_have_throughput() {
    let mut server = with(Cosmos::default());
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
            doc! {"customAction": "CreateCollection", "collection": "d", "offerThroughput": 20000},
            Err(2),
        ),
        (
            doc! {"customAction": "CreateCollection", "collection": "d", "offerThroughput": 450},
            Err(2),
        ),
        (
            doc! {"customAction": "CreateCollection", "collection": "d", "indexes": [{"key": {"a": 1}, "name": "a_1"}]},
            Err(2),
        ),
        (
            doc! {"customAction": "CreateCollection", "collection": "d", "indexes": [{"key": {"_id": 1}}, {"key": {"a": 1}, "name": ""}]},
            Err(67),
        ),
        (doc! {"customAction": "CreateCollection"}, Err(40414)),
        (
            doc! {"customAction": "UpdateCollection", "collection": "nope"},
            Err(26),
        ),
        (doc! {"customAction": "Nope"}, Err(115)),
        (doc! {"customAction": "GetDatabase", "nope": 1}, Err(40415)),
    ];
    for (command, expected) in rows {
        let reply = run(&mut server, command.clone());
        match expected {
            Ok(expected) => assert_eq!(reply, expected, "{command}"),
            Err(code) => assert_eq!(reply.get_i32("code").ok(), Some(code), "{command}: {reply}"),
        }
    }
    // Made anew it has bought nothing.
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
fn shards_are_accepted_and_shown() {
    let mut server = with(Cosmos::default());
    let shard =
        |key: &str| doc! {"shardCollection": "shop.c", "key": {key: "hashed"}, "$db": "admin"};
    assert_eq!(
        run(&mut server, shard("a")),
        doc! {"collectionsharded": "shop.c", "ok": 1.0}
    );
    assert_eq!(code(&mut server, shard("a")), None);
    assert_eq!(code(&mut server, shard("b")), Some(23));
    let shown = run(
        &mut server,
        doc! {"customAction": "GetCollection", "collection": "c"},
    );
    assert_eq!(
        shown.get_document("shardKeyDefinition").ok(),
        Some(&doc! {"a": "hashed"})
    );
    assert_eq!(
        run(&mut server, doc! {"enableSharding": "shop", "$db": "admin"}),
        doc! {"ok": 1.0}
    );
    let shards = run(&mut server, doc! {"listShards": 1, "$db": "admin"});
    assert_eq!(shards.get_array("shards").unwrap().len(), 1);
    let map = run(&mut server, doc! {"getShardMap": 1, "$db": "admin"});
    assert_eq!(map.get_document("map").unwrap().len(), 1);
}

#[test]
fn what_the_last_request_cost() {
    let mut server = with(Cosmos {
        profile: true,
        ..Cosmos::default()
    });
    let documents: Vec<Document> = (0..101).map(|n| doc! {"_id": n, "a": n}).collect();
    let rows = [
        (
            doc! {"insert": "c", "documents": documents},
            "insert",
            505.0,
        ),
        (doc! {"find": "c", "filter": {"_id": 5}}, "find", 1.0),
        (doc! {"find": "c", "filter": {"a": 5}}, "find", 11.0),
        (
            doc! {"update": "c", "updates": [{"q": {"_id": 5}, "u": {"$set": {"a": 6}}}]},
            "update",
            10.0,
        ),
        (
            doc! {"delete": "c", "deletes": [{"q": {"_id": 5}, "limit": 1}]},
            "delete",
            5.0,
        ),
        (doc! {"ping": 1}, "delete", 5.0),
        (doc! {"count": "nope"}, "count", 1.0),
    ];
    for (command, name, charge) in rows {
        run(&mut server, command.clone());
        for _ in 0..2 {
            let last = run(&mut server, doc! {"getLastRequestStatistics": 1});
            assert_eq!(last.get_str("CommandName").ok(), Some(name), "{command}");
            assert_eq!(
                last.get_f64("RequestCharge").ok(),
                Some(charge),
                "{command}: {last}"
            );
            assert!(last.get_f64("RequestDurationInMilliSeconds").is_ok());
        }
    }
}

#[test]
fn requests_over_budget_are_refused_until_the_next_second() {
    let mut server = with(Cosmos {
        request_units: Some(10),
        ..Cosmos::default()
    });
    let five = |from: i32| {
        (from..from + 5)
            .map(|n| doc! {"_id": n})
            .collect::<Vec<_>>()
    };
    let reply = run(
        &mut server,
        doc! {"insert": "c", "documents": five(0), "ordered": false},
    );
    assert_eq!(reply.get_i32("n").ok(), Some(2), "{reply}");
    let errors = reply.get_array("writeErrors").unwrap();
    let error = errors[0].as_document().unwrap();
    let at = (error.get_i32("index").ok(), error.get_i32("code").ok());
    assert_eq!((errors.len(), at), (3, (Some(2), Some(16500))));
    assert!(
        error
            .get_str("errmsg")
            .unwrap()
            .starts_with("Error=16500, RetryAfterMs=1000, ")
    );
    assert_eq!(code(&mut server, doc! {"find": "c"}), Some(16500));
    let update = doc! {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 1}}}]};
    assert!(run(&mut server, update.clone()).contains_key("writeErrors"));
    let bulk = doc! {"bulkWrite": 1, "ops": [{"insert": 0, "document": {}}], "nsInfo": [{"ns": "shop.c"}], "$db": "admin"};
    assert_eq!(run(&mut server, bulk).get_i32("nErrors").ok(), Some(1));
    // Another collection has a budget of its own, and the next second a new one.
    assert_eq!(code(&mut server, doc! {"find": "other"}), None);
    run(
        &mut server,
        doc! {"timeTravel": 1, "advanceSeconds": 1, "$db": "admin"},
    );
    assert_eq!(code(&mut server, doc! {"find": "c"}), None);
    assert!(!run(&mut server, update).contains_key("writeErrors"));
    assert_eq!(code(&mut server, doc! {"find": "c"}), Some(16500));
    // More can be bought.
    run(
        &mut server,
        doc! {"customAction": "UpdateCollection", "collection": "c", "offerThroughput": 1000},
    );
    assert_eq!(code(&mut server, doc! {"find": "c"}), None);
}

#[test]
fn what_the_service_refuses_is_refused() {
    let big = "x".repeat(2 * 1024 * 1024);
    let index = |options: Document| {
        let mut spec = doc! {"key": {"a": 1}, "name": "a_1"};
        spec.extend(options);
        doc! {"createIndexes": "c", "indexes": [spec]}
    };
    let rows = [
        (doc! {"collMod": "c"}, Some(115)),
        (
            doc! {"insert": "c", "documents": [{}], "lsid": {"id": bson::Uuid::new()}, "txnNumber": 1_i64},
            Some(2),
        ),
        (doc! {"find": "c", "sort": {"z": 1}}, Some(2)),
        (doc! {"find": "c", "sort": {"_id": 1}}, None),
        (
            doc! {"aggregate": "c", "pipeline": [{"$match": {}}, {"$sort": {"z": 1}}], "cursor": {}},
            Some(2),
        ),
        (
            doc! {"aggregate": "c", "pipeline": [{"$lookup": {"from": "d", "let": {}, "pipeline": [], "as": "x"}}], "cursor": {}},
            Some(2),
        ),
        (index(doc! {"sparse": true}), Some(67)),
        (index(doc! {"unique": true}), Some(13)),
        (index(doc! {"expireAfterSeconds": 5}), Some(2)),
        (index(doc! {}), None),
        (doc! {"find": "c", "sort": {"a": 1}}, None),
    ];
    let mut strict = with(Cosmos {
        strict: true,
        ..Cosmos::default()
    });
    let mut plain = with(Cosmos::default());
    for server in [&mut strict, &mut plain] {
        run(server, doc! {"insert": "c", "documents": [{"_id": 1}]});
    }
    for (command, expected) in rows {
        assert_eq!(code(&mut strict, command.clone()), expected, "{command}");
        let name = command.keys().next().unwrap();
        if name != "createIndexes" {
            assert_eq!(code(&mut plain, command.clone()), None, "{command}");
        }
    }
    let insert =
        doc! {"insert": "c", "documents": [{"_id": 2, "big": big}, {"_id": 3}], "ordered": false};
    let reply = run(&mut strict, insert.clone());
    assert_eq!(reply.get_i32("n").ok(), Some(1));
    let error = reply.get_array("writeErrors").unwrap()[0]
        .as_document()
        .unwrap()
        .clone();
    assert_eq!(error.get_i32("code").ok(), Some(16));
    assert_eq!(run(&mut plain, insert).get_i32("n").ok(), Some(2));
}
