use bson::{Bson, Document, doc};

use super::{Server, batch, code, failed, run, travel, with};
use crate::config::CosmosConfig;

fn limited(units: &[&str]) -> Server {
    with(CosmosConfig {
        request_units: units.iter().map(|units| units.parse().unwrap()).collect(),
        ..CosmosConfig::default()
    })
}

fn documents(from: i32, n: i32) -> Vec<Document> {
    (from..from + n).map(|n| doc! {"_id": n}).collect()
}

/// Returns the waiting time in the message of a refusal.
fn retry_after(words: &str) -> i64 {
    let rest = words.strip_prefix("Error=16500, RetryAfterMs=").unwrap();
    let (millis, details) = rest.split_once(',').unwrap();
    assert!(
        details.contains("TooManyRequests (429); Substatus: 3200;"),
        "{words}"
    );
    millis.parse().unwrap()
}

fn words(reply: &Document) -> &str {
    let errors = reply.get_array("writeErrors").ok();
    let error = errors.and_then(|errors| errors.first()?.as_document());
    error.unwrap_or(reply).get_str("errmsg").unwrap()
}

#[test]
fn items_over_budget_are_refused_one_by_one() {
    let batch = |name: &str, ordered: bool, items: Vec<Document>| match name {
        "insert" => doc! {"insert": "c", "documents": items, "ordered": ordered},
        "update" => {
            let set = |item: Document| doc! {"q": item, "u": {"$set": {"a": 1}}};
            let items: Vec<Document> = items.into_iter().map(set).collect();
            doc! {"update": "c", "updates": items, "ordered": ordered}
        }
        _ => {
            let one = |item: Document| doc! {"q": item, "limit": 1};
            let items: Vec<Document> = items.into_iter().map(one).collect();
            doc! {"delete": "c", "deletes": items, "ordered": ordered}
        }
    };
    // (the command, how many of five statements pass in a second with 12 units)
    for (name, pass) in [("insert", 3), ("update", 2), ("delete", 3)] {
        for ordered in [true, false] {
            let mut server = limited(&["12"]);
            if name != "insert" {
                run(
                    &mut server,
                    doc! {"insert": "c", "documents": documents(0, 1)},
                );
                for n in 1..5 {
                    travel(&mut server, 10_000);
                    run(
                        &mut server,
                        doc! {"insert": "c", "documents": documents(n, 1)},
                    );
                }
                travel(&mut server, 10_000);
            }
            let reply = run(&mut server, batch(name, ordered, documents(0, 5)));
            let all: Vec<(i32, i32)> = (pass..5).map(|index| (index, 16500)).collect();
            let expected = if ordered { &all[..1] } else { &all[..] };
            assert_eq!(failed(&reply), expected, "{name} {ordered}: {reply}");
            assert_eq!(
                (reply.get_i32("n").ok(), reply.get_f64("ok").ok()),
                (Some(pass), Some(1.0))
            );
            // A client that waits exactly as long as the message says succeeds.
            let rest = batch(name, ordered, documents(pass, 5 - pass));
            let wait = retry_after(words(&reply));
            travel(&mut server, wait - 1);
            assert_eq!(
                failed(&run(&mut server, rest.clone()))[0],
                (0, 16500),
                "{name}"
            );
            travel(&mut server, 1);
            let reply = run(&mut server, rest);
            assert!(reply.get_i32("n").unwrap() > 0, "{name}: {reply}");
        }
    }
}

#[test]
fn bulk_writes_are_limited_collection_by_collection() {
    let mut server = limited(&["7", "shop.rich=1000"]);
    let ops: Vec<Document> = (0..8)
        .map(|n| doc! {"insert": n % 2, "document": {"_id": n}})
        .collect();
    let bulk = doc! {
        "bulkWrite": 1, "ops": ops, "ordered": false, "nsInfo": [{"ns": "shop.c"}, {"ns": "shop.rich"}], "$db": "admin",
    };
    let reply = run(&mut server, bulk);
    assert_eq!(reply.get_i32("nInserted").ok(), Some(6), "{reply}");
    assert_eq!(reply.get_i32("nErrors").ok(), Some(2), "{reply}");
    let code = |entry: &Document| Some((entry.get_i32("idx").ok()?, entry.get_i32("code").ok()?));
    let codes: Vec<_> = batch(&reply).iter().filter_map(code).collect();
    assert_eq!(codes, [(4, 16500), (6, 16500)]);
}

#[test]
fn commands_without_effect_cost_one_unit() {
    let mut server = limited(&["3"]);
    let update = doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}]};
    let refused = |reply: Document| !failed(&reply).is_empty();
    let refused: Vec<bool> = (0..4)
        .map(|_| refused(run(&mut server, update.clone())))
        .collect();
    assert_eq!(refused, [false, false, false, true]);
    travel(&mut server, 1000);
    let counts: Vec<_> = (0..4)
        .map(|_| code(&mut server, doc! {"count": "c"}))
        .collect();
    assert_eq!(counts, [None, None, None, Some(16500)]);
}

#[test]
fn every_command_on_documents_is_limited() {
    let mut server = limited(&["10"]);
    run(
        &mut server,
        doc! {"insert": "c", "documents": documents(0, 1)},
    );
    let cursor = run(&mut server, doc! {"find": "c", "batchSize": 0});
    let cursor = cursor
        .get_document("cursor")
        .unwrap()
        .get_i64("id")
        .unwrap();
    travel(&mut server, 1000);
    run(
        &mut server,
        doc! {"update": "c", "updates": [{"q": {"_id": 0}, "u": {"$set": {"a": 1}}}]},
    );
    let rows: Vec<(Document, Option<i32>)> = vec![
        (doc! {"find": "c"}, Some(16500)),
        (doc! {"getMore": cursor, "collection": "c"}, Some(16500)),
        (
            doc! {"aggregate": "c", "pipeline": [], "cursor": {}},
            Some(16500),
        ),
        (doc! {"count": "c"}, Some(16500)),
        (doc! {"distinct": "c", "key": "a"}, Some(16500)),
        (
            doc! {"findAndModify": "c", "query": {}, "remove": true},
            Some(16500),
        ),
        (doc! {"ping": 1}, None),
        (doc! {"listCollections": 1}, None),
        (doc! {"listIndexes": "c"}, None),
        (doc! {"collStats": "c"}, None),
        (doc! {"find": "other"}, None),
        (doc! {"usersInfo": "c"}, None),
    ];
    for (command, expected) in rows {
        assert_eq!(code(&mut server, command.clone()), expected, "{command}");
    }
    let refused = run(&mut server, doc! {"count": "c"});
    let wait = retry_after(words(&refused));
    travel(&mut server, wait);
    // The cursor is still open after the refusal.
    let more = run(&mut server, doc! {"getMore": cursor, "collection": "c"});
    assert_eq!(more.get_f64("ok").ok(), Some(1.0), "{more}");
    assert_eq!(code(&mut server, doc! {"count": "c"}), None);
}

#[test]
fn throughput_is_provisioned_for_a_collection_or_a_database() {
    let mut server = limited(&["10"]);
    let spend = |server: &mut Server, collection: &str, n: usize| {
        let insert = doc! {"insert": collection, "documents": vec![doc! {}; n], "ordered": false};
        let n = run(server, insert).get_i32("n").unwrap();
        travel(server, 1000);
        n
    };
    assert_eq!(spend(&mut server, "c", 100), 2);
    // A shard key adds no throughput.
    let shard = doc! {"shardCollection": "shop.c", "key": {"a": 1}, "$db": "admin"};
    assert_eq!(code(&mut server, shard), None);
    assert_eq!(spend(&mut server, "c", 100), 2);
    let buy = doc! {"customAction": "UpdateCollection", "collection": "c", "offerThroughput": 400};
    assert_eq!(code(&mut server, buy), None);
    assert_eq!(spend(&mut server, "c", 100), 80);
    let buy = doc! {"customAction": "UpdateDatabase", "offerThroughput": 500};
    assert_eq!(code(&mut server, buy), None);
    assert_eq!(spend(&mut server, "d", 200), 100);
    // The collections of a database share its throughput.
    run(
        &mut server,
        doc! {"insert": "d", "documents": vec![doc! {}; 100]},
    );
    assert_eq!(code(&mut server, doc! {"find": "e"}), Some(16500));
    assert_eq!(code(&mut server, doc! {"find": "c"}), None);
    travel(&mut server, 1000);
    // A collection that is created again has no throughput of its own.
    run(&mut server, doc! {"drop": "c"});
    assert_eq!(spend(&mut server, "c", 200), 100);
    run(&mut server, doc! {"dropDatabase": 1});
    assert_eq!(spend(&mut server, "d", 200), 2);
}

#[test]
fn a_fail_point_refuses_items_one_by_one() {
    let mut server = with(CosmosConfig::default());
    let five = |from| doc! {"insert": "c", "documents": documents(from, 5), "ordered": false};
    let set = |server: &mut Server, mode: Bson, more: Document| {
        let mut data =
            doc! {"failCommands": ["insert", "bulkWrite", "find", "delete"], "errorCode": 16500};
        data.extend(more);
        let set =
            doc! {"configureFailPoint": "failCommand", "mode": mode, "data": data, "$db": "admin"};
        assert_eq!(code(server, set), None);
    };
    let failing = |from: i32, to: i32| (from..to).map(|n| (n, 16500)).collect::<Vec<_>>();
    // (mode, more data, the items of five that fail)
    let rows: [(Bson, Document, Vec<_>); 9] = [
        ("alwaysOn".into(), doc! {}, failing(0, 5)),
        (doc! {"times": 2}.into(), doc! {}, failing(0, 2)),
        (doc! {"skip": 3}.into(), doc! {}, failing(3, 5)),
        (
            "alwaysOn".into(),
            doc! {"namespace": "shop.c"},
            failing(0, 5),
        ),
        ("alwaysOn".into(), doc! {"namespace": "shop.d"}, vec![]),
        ("alwaysOn".into(), doc! {"appName": "other"}, vec![]),
        (
            "alwaysOn".into(),
            doc! {"threadName": "conn7"},
            failing(0, 5),
        ),
        ("alwaysOn".into(), doc! {"threadName": "conn8"}, vec![]),
        ("off".into(), doc! {}, vec![]),
    ];
    for (n, (mode, more, expected)) in rows.into_iter().enumerate() {
        set(&mut server, mode.clone(), more.clone());
        let reply = run(&mut server, five(n as i32 * 10));
        assert_eq!(failed(&reply), expected, "{mode} {more}: {reply}");
        assert_eq!(reply.get_i32("n").ok(), Some(5 - expected.len() as i32));
    }
    set(&mut server, doc! {"skip": 2}.into(), doc! {});
    let reply = run(
        &mut server,
        doc! {"insert": "c", "documents": documents(900, 5)},
    );
    assert_eq!(
        (reply.get_i32("n").ok(), failed(&reply)),
        (Some(2), failing(2, 3))
    );
    assert_eq!(retry_after(words(&reply)), 10);
    let ops = doc! {"insert": 0, "document": {}};
    let bulk = doc! {"bulkWrite": 1, "ops": [ops.clone(), ops], "ordered": false, "nsInfo": [{"ns": "shop.c"}], "$db": "admin"};
    assert_eq!(run(&mut server, bulk).get_i32("nErrors").ok(), Some(2));
    let delete = doc! {"delete": "c", "deletes": [{"q": {}, "limit": 0}]};
    assert_eq!(failed(&run(&mut server, delete)), failing(0, 1));
    // A command without statements is refused as a whole. So is every command if the fail point also blocks the connection.
    let found = run(&mut server, doc! {"find": "c"});
    assert_eq!(
        (found.get_i32("code").ok(), retry_after(words(&found))),
        (Some(16500), 10)
    );
    set(
        &mut server,
        "alwaysOn".into(),
        doc! {"blockConnection": true, "blockTimeMS": 1},
    );
    assert_eq!(code(&mut server, five(950)), Some(16500));
}
