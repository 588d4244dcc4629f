use bson::{Document, doc};

use super::{code, run, with};
use crate::config::CosmosConfig;

#[test]
fn shards_are_accepted_and_shown() {
    let mut server = with(CosmosConfig::default());
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
    let host = "localhost:27017";
    assert_eq!(
        run(&mut server, doc! {"listShards": 1, "$db": "admin"}),
        doc! {
            "shards": [{"_id": "shard0000", "host": host, "state": 1, "topologyTime": bson::Timestamp { time: 1, increment: 1 }}],
            "ok": 1.0,
        }
    );
    let draining = doc! {"listShards": 1, "filter": {"draining": true}, "$db": "admin"};
    assert_eq!(run(&mut server, draining), doc! {"shards": [], "ok": 1.0});
    assert_eq!(
        run(&mut server, doc! {"getShardMap": 1, "$db": "admin"}),
        doc! {"map": {"shard0000": host}, "hosts": {host: "shard0000"}, "connStrings": {host: "shard0000"}, "ok": 1.0}
    );
    // A key of MongoDB may have several fields.
    let compound =
        doc! {"shardCollection": "shop.d", "key": {"a": 1, "b": "hashed"}, "$db": "admin"};
    assert_eq!(code(&mut server, compound), None);
    assert_eq!(
        run(
            &mut server,
            doc! {"customAction": "GetCollection", "collection": "d"}
        ),
        doc! {
            "database": "shop", "collection": "d", "shardKeyDefinition": {"a": 1, "b": "hashed"},
            "provisionedThroughput": 400, "ok": 1.0,
        }
    );
}

#[test]
fn what_is_refused() {
    let mut server = with(CosmosConfig::default());
    let rows: Vec<(Document, i32)> = vec![
        (doc! {"shardCollection": 1, "key": {"a": 1}}, 14),
        (doc! {"shardCollection": "shop", "key": {"a": 1}}, 73),
        (doc! {"shardCollection": "shop.", "key": {"a": 1}}, 73),
        (doc! {"shardCollection": ".c", "key": {"a": 1}}, 73),
        (doc! {"shardCollection": "shop.c"}, 40414),
        (doc! {"shardCollection": "shop.c", "key": 1}, 14),
        (doc! {"shardCollection": "shop.c", "key": {}}, 2),
        (doc! {"shardCollection": "shop.c", "key": {"a": -1}}, 2),
        (doc! {"shardCollection": "shop.c", "key": {"a": "text"}}, 2),
        (doc! {"shardCollection": "shop.c", "key": {"": 1}}, 2),
        (
            doc! {"shardCollection": "shop.c", "key": {"a": "hashed", "b": "hashed"}},
            2,
        ),
        (
            doc! {"shardCollection": "shop.c", "key": {"a": 1}, "unique": "x"},
            14,
        ),
        (
            doc! {"shardCollection": "shop.c", "key": {"a": 1}, "nope": 1},
            40415,
        ),
        (
            doc! {"shardCollection": "shop.c", "key": {"a": 1}, "collation": {"locale": "de"}},
            238,
        ),
        (
            doc! {"shardCollection": "shop.c", "key": {"a": 1}, "timeseries": {"timeField": "t"}},
            238,
        ),
        (doc! {"shardCollection": "shop.c$", "key": {"a": 1}}, 73),
        (doc! {"enableSharding": 1}, 14),
        (doc! {"enableSharding": "a.b"}, 73),
        (doc! {"enableSharding": "shop", "primaryShard": "other"}, 70),
        (doc! {"enableSharding": "shop", "nope": 1}, 40415),
        (doc! {"enableSharding": "shop", "$db": "shop"}, 13),
        (doc! {"listShards": 1, "nope": 1}, 40415),
        (doc! {"listShards": 1, "filter": {"nope": 1}}, 40415),
        (doc! {"listShards": 1, "$db": "shop"}, 13),
        (doc! {"getShardMap": 1, "nope": 1}, 40415),
        (doc! {"getShardMap": 1, "$db": "shop"}, 13),
    ];
    for (mut command, expected) in rows {
        if !command.contains_key("$db") {
            command.insert("$db", "admin");
        }
        let reply = run(&mut server, command.clone());
        assert_eq!(
            reply.get_i32("code").ok(),
            Some(expected),
            "{command}: {reply}"
        );
    }
    let there = doc! {"customAction": "GetCollection", "collection": "c"};
    assert_eq!(code(&mut server, there), Some(26));
}
