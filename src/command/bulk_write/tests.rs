use bson::{Document, bson, doc};

use crate::command::tests::server::{ask, server};
use crate::config::{Config, Topology};

fn sums(reply: &Document) -> Vec<i32> {
    [
        "nErrors",
        "nInserted",
        "nMatched",
        "nModified",
        "nUpserted",
        "nDeleted",
    ]
    .iter()
    .map(|name| reply.get_i32(name).unwrap_or(-1))
    .collect()
}

#[test]
fn operations_of_every_kind() {
    let mut server = server(Config {
        topology: Topology::ReplicaSet {
            name: "rs0".into(),
            advertise: None,
        },
        ..Config::default()
    });
    let ops = bson!([
        {"insert": 0, "document": {"_id": 1, "x": 1}},
        {"insert": 0, "document": {"_id": 2, "x": 1}},
        {"insert": 1, "document": {"_id": 1}},
        {"insert": 0, "document": {"_id": 1}},
        {"update": 0, "filter": {"x": 1}, "updateMods": {"$set": {"y": 1}}, "multi": true},
        {"update": 1, "filter": {"_id": 9}, "updateMods": {"$set": {"y": 1}}, "upsert": true},
        {"update": 1, "filter": {"$nope": 9}, "updateMods": {"$set": {"y": 1}}},
        {"delete": 0, "filter": {"_id": 2}},
    ]);
    let names = bson!([{"ns": "d.a"}, {"ns": "d.b"}]);
    let command = doc! {"bulkWrite": 1, "ops": ops, "nsInfo": names.clone(), "ordered": false, "$db": "admin"};
    let reply = ask(&mut server, command.clone());
    assert_eq!(sums(&reply), [2, 3, 2, 2, 1, 1], "{reply}");
    let rows = reply.get_document("cursor").unwrap();
    let rows = rows.get_array("firstBatch").unwrap();
    assert_eq!(rows.len(), 8, "{reply}");
    assert_eq!(
        rows[5],
        bson!({"ok": 1.0, "idx": 5, "n": 1, "nModified": 0, "upserted": {"_id": 9}})
    );
    assert_eq!(
        rows[3].as_document().unwrap().get_i32("code").unwrap(),
        11000
    );

    let mut ordered = command;
    ordered.insert("ordered", true);
    ordered.insert("errorsOnly", true);
    let reply = ask(&mut server, ordered);
    assert_eq!(sums(&reply), [1, 0, 0, 0, 0, 0], "{reply}");

    let ops = bson!([
        {"insert": 0, "document": {"_id": 5}},
        {"update": 0, "filter": {"_id": 5}, "updateMods": {"$inc": {"n": 1}}},
    ]);
    let lsid = doc! {"id": bson::Uuid::new()};
    let retryable = doc! {"bulkWrite": 1, "ops": ops, "nsInfo": names, "lsid": lsid, "txnNumber": 1_i64,
    "cursor": {"batchSize": 1}, "$db": "admin"};
    for again in [false, true] {
        let reply = ask(&mut server, retryable.clone());
        assert_eq!(sums(&reply), [0, 1, 1, 1, 0, 0], "{reply}");
        assert_eq!(reply.contains_key("retriedStmtIds"), again, "{reply}");
        let cursor = reply.get_document("cursor").unwrap();
        assert_eq!(cursor.get_array("firstBatch").unwrap().len(), 1);
        let more = doc! {"getMore": cursor.get_i64("id").unwrap(), "collection": "$cmd.bulkWrite",
        "lsid": retryable.get_document("lsid").unwrap().clone(), "$db": "admin"};
        let more = ask(&mut server, more);
        let cursor = more.get_document("cursor").unwrap();
        assert_eq!(cursor.get_array("nextBatch").unwrap().len(), 1, "{more}");
    }
    let five = ask(
        &mut server,
        doc! {"count": "a", "query": {"_id": 5, "n": 1}, "$db": "d"},
    );
    assert_eq!(five.get_i32("n").unwrap(), 1);
}

#[test]
fn refusals() {
    let mut server = server(Config::default());
    let insert = bson!({"insert": 0, "document": {"_id": 1}});
    let names = bson!([{"ns": "d.a"}]);
    for (fields, code) in [
        (doc! {"ops": [], "nsInfo": names.clone()}, 16),
        (doc! {"nsInfo": names.clone()}, 40414),
        (
            doc! {"ops": [{"insert": 0}], "nsInfo": names.clone()},
            40414,
        ),
        (
            doc! {"ops": [{"delete": 0}], "nsInfo": names.clone()},
            40414,
        ),
        (
            doc! {"ops": [{"update": 0, "updateMods": {}}], "nsInfo": names.clone()},
            40414,
        ),
        (
            doc! {"ops": [{"insert": 5, "document": {}}], "nsInfo": names.clone()},
            2,
        ),
        (
            doc! {"ops": [{"insert": -1, "document": {}}], "nsInfo": names.clone()},
            2,
        ),
        (
            doc! {"ops": [{"replace": 0}], "nsInfo": names.clone()},
            40415,
        ),
        (doc! {"ops": [insert.clone()], "nsInfo": []}, 2),
        (
            doc! {"ops": [insert.clone()], "nsInfo": [{"ns": "nodot"}]},
            73,
        ),
        (
            doc! {"ops": [insert.clone()], "nsInfo": names.clone(), "ordered": 1},
            14,
        ),
        (
            doc! {"ops": [insert.clone()], "nsInfo": names.clone(), "nope": 1},
            40415,
        ),
    ] {
        let mut command = doc! {"bulkWrite": 1, "$db": "admin"};
        command.extend(fields.clone());
        let reply = ask(&mut server, command);
        assert_eq!(reply.get_i32("code").ok(), Some(code), "{fields}: {reply}");
    }
}

/// A transaction may change many documents with one operation, and reads the results that do not fit as its own cursor.
#[test]
fn bulk_writes_are_part_of_a_transaction() {
    let mut server = server(Config {
        topology: Topology::ReplicaSet {
            name: "rs0".into(),
            advertise: None,
        },
        ..Config::default()
    });
    let session = doc! {"id": bson::Uuid::new()};
    let ops = bson!([
        {"insert": 0, "document": {"_id": 1, "x": 1}},
        {"insert": 0, "document": {"_id": 2, "x": 1}},
        {"update": 0, "filter": {"x": 1}, "updateMods": {"$set": {"y": 1}}, "multi": true},
        {"delete": 0, "filter": {"y": 1}, "multi": true},
    ]);
    let mut command = doc! {
        "bulkWrite": 1, "ops": ops, "nsInfo": [{"ns": "d.a"}], "cursor": {"batchSize": 1},
        "lsid": session.clone(), "txnNumber": 1_i64, "$db": "admin",
    };
    let refused = ask(&mut server, command.clone());
    assert_eq!(refused.get_i32("code").ok(), Some(72), "{refused}");
    command.insert("txnNumber", 2_i64);
    command.insert("autocommit", false);
    command.insert("startTransaction", true);
    let reply = ask(&mut server, command);
    assert_eq!(sums(&reply), [0, 2, 2, 2, 0, 2], "{reply}");
    let id = reply.get_document("cursor").unwrap().get_i64("id").unwrap();
    let more = doc! {
        "getMore": id, "collection": "$cmd.bulkWrite",
        "lsid": session.clone(), "txnNumber": 2_i64, "autocommit": false, "$db": "admin",
    };
    let rest = ask(&mut server, more);
    let rows = rest.get_document("cursor").unwrap().get_array("nextBatch");
    assert_eq!(rows.unwrap().len(), 3, "{rest}");
    let commit = doc! {
        "commitTransaction": 1, "lsid": session, "txnNumber": 2_i64, "autocommit": false, "$db": "admin",
    };
    assert_eq!(ask(&mut server, commit).get_f64("ok").ok(), Some(1.0));
}

#[test]
fn each_operation_reads_the_time_of_the_writes_before_it() {
    let mut server = server(Config {
        topology: Topology::ReplicaSet {
            name: "rs0".into(),
            advertise: None,
        },
        ..Config::default()
    });
    let upsert = |id: i32| bson!({"update": 0, "filter": {"_id": id}, "updateMods": [{"$set": {"t": "$$CLUSTER_TIME"}}], "upsert": true});
    let ops: Vec<_> = (0..3).map(upsert).collect();
    let command =
        doc! {"bulkWrite": 1, "ops": ops, "nsInfo": bson!([{"ns": "d.a"}]), "$db": "admin"};
    let reply = ask(&mut server, command);
    assert_eq!(reply.get_i32("nUpserted").ok(), Some(3), "{reply}");
    let found = ask(
        &mut server,
        doc! {"find": "a", "sort": {"_id": 1}, "$db": "d"},
    );
    let rows = found.get_document("cursor").unwrap();
    let rows = rows.get_array("firstBatch").unwrap().iter();
    let times: Vec<_> = rows
        .map(|row| row.as_document().unwrap().get_timestamp("t").unwrap())
        .map(|time| (time.time, time.increment))
        .collect();
    assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
    assert_eq!(times.len(), 3);
}
