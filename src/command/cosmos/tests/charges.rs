use std::time::Duration;

use bson::{Document, doc};

use super::{Server, run, travel, with};
use crate::clock::monotonic;
use crate::config::CosmosConfig;

fn last(server: &mut Server) -> (String, f64) {
    let last = run(server, doc! {"getLastRequestStatistics": 1});
    assert_eq!(
        last.get_str("_t").ok(),
        Some("GetRequestStatisticsResponse")
    );
    assert!(
        last.get_f64("RequestDurationInMilliSeconds").is_ok(),
        "{last}"
    );
    (
        last.get_str("CommandName").unwrap().to_owned(),
        last.get_f64("RequestCharge").unwrap(),
    )
}

/// The model in [`crate::cosmos::Usage`], command by command. Costs are counted even if no client has asked for them before.
#[test]
fn what_the_last_request_cost() {
    let documents: Vec<Document> = (0..101).map(|n| doc! {"_id": n, "a": n}).collect();
    let by_id = doc! {"q": {"_id": 5}, "u": {"$inc": {"b": 1}}};
    let large = "x".repeat(3 * 1024 - 22);
    let rows = [
        (
            doc! {"insert": "c", "documents": documents},
            "insert",
            505.0,
        ),
        (doc! {"find": "c", "filter": {"_id": 5}}, "find", 1.0),
        (
            doc! {"find": "c", "filter": {"a": 5}, "projection": {"_id": 1}},
            "find",
            10.12,
        ),
        (
            doc! {"count": "c", "query": {"a": {"$gt": 5}}},
            "count",
            10.1,
        ),
        (doc! {"count": "c"}, "count", 1.0),
        (doc! {"distinct": "c", "key": "nope"}, "distinct", 10.1),
        (
            doc! {"aggregate": "c", "pipeline": [{"$group": {"_id": null, "n": {"$sum": "$a"}}}, {"$match": {"n": 0}}], "cursor": {}},
            "aggregate",
            10.1,
        ),
        (
            doc! {"update": "c", "updates": [by_id.clone()]},
            "update",
            10.0,
        ),
        (
            doc! {"update": "c", "updates": [by_id.clone(), by_id]},
            "update",
            20.0,
        ),
        (
            doc! {"update": "c", "updates": [{"q": {"a": 5}, "u": {"$inc": {"b": 1}}}]},
            "update",
            10.6,
        ),
        (
            doc! {"update": "c", "updates": [{"q": {"_id": 900}, "u": {"$inc": {"b": 1}}}]},
            "update",
            1.0,
        ),
        (
            doc! {"update": "c", "updates": [{"q": {"_id": 900}, "u": {"$inc": {"b": 1}}, "upsert": true}]},
            "update",
            5.0,
        ),
        (
            doc! {"findAndModify": "c", "query": {"_id": 5}, "update": {"$inc": {"b": 1}}, "fields": {"_id": 1}},
            "findAndModify",
            10.01,
        ),
        (
            doc! {"findAndModify": "c", "query": {"_id": 6}, "remove": true, "fields": {"_id": 1}},
            "findAndModify",
            5.01,
        ),
        (
            doc! {"bulkWrite": 1, "ops": [
                {"insert": 0, "document": {"_id": 901}}, {"delete": 0, "filter": {"_id": 901}},
            ], "nsInfo": [{"ns": "shop.c"}], "$db": "admin"},
            "bulkWrite",
            10.0,
        ),
        (
            doc! {"delete": "c", "deletes": [{"q": {"_id": 7}, "limit": 1}]},
            "delete",
            5.0,
        ),
        (
            doc! {"delete": "c", "deletes": [{"q": {"_id": 7}, "limit": 1}]},
            "delete",
            1.0,
        ),
        (
            doc! {"insert": "c", "documents": [{"_id": 1}]},
            "insert",
            1.0,
        ),
        (
            doc! {"aggregate": "c", "pipeline": [{"$match": {"_id": {"$in": [1, 2]}}}, {"$out": "d"}], "cursor": {}},
            "aggregate",
            10.0,
        ),
        (
            doc! {"insert": "large", "documents": [{"_id": 1, "x": large}]},
            "insert",
            15.0,
        ),
        (
            doc! {"update": "large", "updates": [{"q": {"_id": 1}, "u": {"$set": {"y": 1}}}]},
            "update",
            30.07,
        ),
        (doc! {"ping": 1}, "update", 30.07),
        (doc! {"find": "nope"}, "find", 1.0),
        (doc! {"find": "nope", "filter": {"$nope": 1}}, "find", 1.0),
    ];
    for profile in [true, false] {
        let mut server = with(CosmosConfig {
            profile,
            ..CosmosConfig::default()
        });
        assert_eq!(last(&mut server), (String::new(), 0.0));
        for (command, name, charge) in rows.clone() {
            run(&mut server, command.clone());
            for _ in 0..2 {
                assert_eq!(last(&mut server), (name.to_owned(), charge), "{command}");
            }
        }
    }
}

/// The cost of a request that takes many steps is complete, and includes no other request.
#[test]
fn what_a_long_request_cost() {
    let mut server = with(CosmosConfig::default());
    let documents: Vec<Document> = (0..20_000).map(|n| doc! {"_id": n, "a": n}).collect();
    run(&mut server, doc! {"insert": "c", "documents": documents});
    assert_eq!(last(&mut server), ("insert".into(), 100_000.0));
    run(
        &mut server,
        doc! {"update": "c", "updates": [{"q": {"a": {"$gte": 0}}, "u": {"$inc": {"b": 1}}, "multi": true}]},
    );
    assert_eq!(last(&mut server), ("update".into(), 202_000.0));
    run(
        &mut server,
        doc! {"delete": "c", "deletes": [{"q": {"a": {"$gte": 0}}, "limit": 0}]},
    );
    assert_eq!(last(&mut server), ("delete".into(), 102_000.0));
}

/// The cost includes what stages read and write in other collections, the rows of a cursor, and what an explain runs.
#[test]
fn what_requests_over_several_collections_cost() {
    let mut server = with(CosmosConfig::default());
    for name in ["a", "b"] {
        let documents: Vec<Document> = (0..20).map(|n| doc! {"_id": n, "k": n}).collect();
        run(&mut server, doc! {"insert": name, "documents": documents});
    }
    let lookup =
        doc! {"$lookup": {"from": "b", "localField": "k", "foreignField": "k", "as": "found"}};
    let nothing = doc! {"$match": {"found": 1}};
    let inner = doc! {"$lookup": {"from": "b", "pipeline": [{"$match": {"k": 1}}], "as": "found"}};
    let merge = |mode: &str| doc! {"$merge": {"into": "b", "whenMatched": mode}};
    let scan = doc! {"k": {"$gte": 0}};
    let rows = [
        // The first $lookup reads one document of the other collection once and keeps it. The second reads one for each row.
        (vec![inner, nothing.clone()], 2.1),
        (vec![lookup, nothing], 4.0),
        (vec![merge("replace")], 202.0),
        (vec![merge("keepExisting")], 2.0),
        (vec![doc! {"$out": "c"}], 102.0),
    ];
    let index = doc! {"key": {"k": 1}, "name": "k"};
    run(&mut server, doc! {"createIndexes": "b", "indexes": [index]});
    for (stages, charge) in rows {
        let command = doc! {"aggregate": "a", "pipeline": stages, "cursor": {}};
        run(&mut server, command.clone());
        let cost = last(&mut server).1;
        assert_eq!(cost, charge, "{command}");
    }
    let find = doc! {"find": "a", "filter": scan.clone(), "projection": {"_id": 1}};
    run(&mut server, doc! {"explain": find.clone()});
    assert_eq!(last(&mut server), ("explain".into(), 2.0));
    let delete = doc! {"delete": "a", "deletes": [{"q": scan, "limit": 0}]};
    run(&mut server, doc! {"explain": delete});
    assert_eq!(last(&mut server), ("explain".into(), 2.0));
    // The command that requests a batch pays for it.
    let mut first = find;
    first.insert("batchSize", 1);
    let reply = run(&mut server, first);
    let id = reply.get_document("cursor").unwrap().get_i64("id").unwrap();
    assert_eq!(last(&mut server), ("find".into(), 1.0));
    run(&mut server, doc! {"getMore": id, "collection": "a"});
    let (name, rest) = last(&mut server);
    assert_eq!(name, "getMore");
    assert!((1.9..2.5).contains(&rest), "{rest}");
}

#[test]
fn expiry_costs_nothing() {
    let mut server = with(CosmosConfig {
        request_units: vec!["100000".parse().unwrap()],
        ..CosmosConfig::default()
    });
    run(&mut server, doc! {"create": "c", "defaultTtl": 1});
    let documents: Vec<Document> = (0..100).map(|n| doc! {"_id": n, "a": n}).collect();
    run(&mut server, doc! {"insert": "c", "documents": documents});
    travel(&mut server, 2_000);
    // Expired documents are not read, and a new document replaces one at no extra cost.
    run(
        &mut server,
        doc! {"find": "c", "filter": {"a": {"$gte": 0}}},
    );
    assert_eq!(last(&mut server), ("find".into(), 1.0));
    run(&mut server, doc! {"insert": "c", "documents": [{"_id": 1}]});
    assert_eq!(last(&mut server), ("insert".into(), 5.0));
    // The reaper's work does not count either, not even on this thread.
    let context = server.0.context();
    let there = context.catalog.get("shop", "c").unwrap().unwrap();
    let soon = monotonic() + Duration::from_secs(120);
    assert_eq!(there.reap(context.clock.now(), soon).removed, 99);
    run(&mut server, doc! {"count": "c"});
    assert_eq!(last(&mut server), ("count".into(), 1.0));
}
