use std::sync::Arc;

use bson::{Document, doc};
use uuid::Uuid;

use super::*;
use crate::storage::{CollectionOptions, Images};
use crate::ttl::DefaultTtl;

fn entry(op: LogOp) -> Document {
    let logged = LogEntry {
        time: ClusterTime::from_parts(7, 3),
        index: 0,
        wall: Millis(7_500),
        subject: Arc::new(LogSubject {
            namespace: Namespace::new("d", "c"),
            uuid: Some(Uuid::nil()),
        }),
        op,
        transaction: None,
    };
    told(&[Arc::new(logged)])
}

fn told(changes: &[Arc<LogEntry>]) -> Document {
    Document::from_reader(document(changes).bytes()).unwrap()
}

fn buf(document: Document) -> DocBuf {
    DocBuf::from(document)
}

/// As mongod 6.0.5 writes its own log.
#[test]
fn entries_have_the_format_of_mongod() {
    let uuid = bson::Binary {
        subtype: bson::spec::BinarySubtype::Uuid,
        bytes: vec![0; 16],
    };
    let images = Images::default;
    let name = |database: &str| Namespace::new(database, "e");
    let rows = [
        (
            LogOp::Insert {
                document: buf(doc! {"_id": 1, "x": 1}),
            },
            doc! {"op": "i", "ns": "d.c", "ui": &uuid, "o": {"_id": 1, "x": 1}, "o2": {"_id": 1}},
        ),
        (
            LogOp::Update {
                key: buf(doc! {"_id": 1}),
                delta: buf(doc! {"u": {"x": 2}}),
                images: images(),
            },
            doc! {"op": "u", "ns": "d.c", "ui": &uuid, "o": {"$v": 2, "diff": {"u": {"x": 2}}}, "o2": {"_id": 1}},
        ),
        (
            LogOp::Replace {
                document: buf(doc! {"_id": 1, "y": 1}),
                images: images(),
            },
            doc! {"op": "u", "ns": "d.c", "ui": &uuid, "o": {"_id": 1, "y": 1}, "o2": {"_id": 1}},
        ),
        (
            LogOp::Delete {
                key: buf(doc! {"_id": 1}),
                images: images(),
            },
            doc! {"op": "d", "ns": "d.c", "ui": &uuid, "o": {"_id": 1}},
        ),
        (
            LogOp::Create {
                options: Box::new(CollectionOptions::default()),
                default: DefaultTtl::Off,
            },
            doc! {
                "op": "c", "ns": "d.$cmd", "ui": &uuid,
                "o": {"create": "c", "idIndex": {"v": 2, "key": {"_id": 1}, "name": "_id_"}},
            },
        ),
        (
            LogOp::Drop { documents: 3 },
            doc! {"op": "c", "ns": "d.$cmd", "ui": &uuid, "o": {"drop": "c"}, "o2": {"numRecords": 3}},
        ),
        (
            LogOp::Rename {
                to: name("d"),
                replaced: Some(Uuid::nil()),
            },
            doc! {
                "op": "c", "ns": "d.$cmd", "ui": &uuid,
                "o": {"renameCollection": "d.c", "to": "d.e", "stayTemp": false, "dropTarget": &uuid},
            },
        ),
        (
            LogOp::CreateIndexes {
                indexes: vec![buf(doc! {"v": 2, "key": {"x": 1}, "name": "x_1"})],
            },
            doc! {
                "op": "c", "ns": "d.$cmd", "ui": &uuid,
                "o": {"createIndexes": "c", "v": 2, "key": {"x": 1}, "name": "x_1"},
            },
        ),
        (
            LogOp::DropIndexes {
                index: buf(doc! {"v": 2, "key": {"x": 1}, "name": "x_1"}),
            },
            doc! {
                "op": "c", "ns": "d.$cmd", "ui": &uuid, "o": {"dropIndexes": "c", "index": "x_1"},
                "o2": {"v": 2, "key": {"x": 1}, "name": "x_1"},
            },
        ),
        (
            LogOp::Modify {
                change: buf(doc! {"index": {"name": "d_1", "expireAfterSeconds": 20}}),
                before: buf(
                    doc! {"collectionOptions": {"uuid": &uuid}, "indexOptions": {"expireAfterSeconds": 10}},
                ),
            },
            doc! {
                "op": "c", "ns": "d.$cmd", "ui": &uuid,
                "o": {"collMod": "c", "index": {"name": "d_1", "expireAfterSeconds": 20}},
                "o2": {"collectionOptions_old": {"uuid": &uuid}, "indexOptions_old": {"expireAfterSeconds": 10}},
            },
        ),
    ];
    for (op, mut expected) in rows {
        let time = bson::Timestamp {
            time: 7,
            increment: 3,
        };
        let wall = bson::DateTime::from_millis(7_500);
        expected.extend(doc! {"ts": time, "t": 1_i64, "v": 2_i64, "wall": wall});
        assert_eq!(entry(op), expected);
    }
}

/// As mongod 6.0.5 writes a transaction.
#[test]
fn the_changes_of_a_transaction_are_one_entry() {
    let transaction = Arc::new(LogTransaction {
        lsid: buf(doc! {"id": 1, "uid": 2}),
        number: 5,
    });
    let change = |index: u32, op: LogOp| {
        Arc::new(LogEntry {
            time: ClusterTime::from_parts(7, 3),
            index,
            wall: Millis(7_500),
            subject: LogSubject::database("d"),
            op,
            transaction: Some(Arc::clone(&transaction)),
        })
    };
    let document = |id: i32| LogOp::Insert {
        document: buf(doc! {"_id": id}),
    };
    let entry = told(&[change(0, document(1)), change(1, document(2))]);
    let names: Vec<&str> = entry.keys().map(String::as_str).collect();
    let expected = "lsid txnNumber op ns o ts t v wall prevOpTime";
    assert_eq!(names.join(" "), expected);
    let operations = entry.get_document("o").unwrap().get_array("applyOps");
    let ids = operations.unwrap().iter().map(|operation| {
        let operation = operation.as_document().unwrap().get_document("o");
        operation.unwrap().get_i32("_id").unwrap()
    });
    assert_eq!(ids.collect::<Vec<_>>(), [1, 2]);
}
