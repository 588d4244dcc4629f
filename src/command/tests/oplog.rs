//! `local.oplog.rs`, as tools read and tail it.

use std::pin::Pin;
use std::task::{Context, Waker};

use bson::{Bson, Document, doc};

use super::server::{ask, begin, server};
use crate::command::{Commands, Connection};
use crate::config::{Config, Topology};
use crate::handler::Progress;

type Server = (Commands, Connection);

fn member() -> Config {
    Config {
        topology: Topology::ReplicaSet {
            name: "rs0".to_owned(),
            advertise: None,
        },
        ..Config::default()
    }
}

fn insert(server: &mut Server, id: i32) {
    let insert = doc! {"insert": "c", "documents": [{"_id": id}], "$db": "d"};
    let done = ask(server, insert);
    assert_eq!(done.get_i32("n").ok(), Some(1), "{done}");
}

fn find(options: Document) -> Document {
    let mut find = doc! {"find": "oplog.rs", "$db": "local"};
    find.extend(options);
    find
}

fn batch(reply: &Document) -> Vec<Document> {
    let cursor = reply.get_document("cursor");
    let cursor = cursor.unwrap_or_else(|_| panic!("{reply}"));
    let batch = cursor.get_array("firstBatch");
    let batch = batch.or_else(|_| cursor.get_array("nextBatch")).unwrap();
    let rows = batch.iter().map(|row| row.as_document().unwrap().clone());
    rows.collect()
}

/// Returns `op` and the inserted `_id`s of entries.
fn told(entries: &[Document]) -> Vec<String> {
    let words = entries.iter().map(|entry| {
        let id = entry.get_document("o").unwrap().get_i32("_id").ok();
        let op = entry.get_str("op").unwrap();
        id.map_or_else(|| op.to_owned(), |id| format!("{op}{id}"))
    });
    words.collect()
}

#[test]
fn the_first_reader_starts_the_recording() {
    let mut server = server(member());
    let newest = find(doc! {"sort": {"$natural": -1}, "limit": 1});
    let message = |entries: &[Document]| {
        let message = entries[0].get_document("o").unwrap().get_str("msg");
        message.map(str::to_owned).ok()
    };
    assert_eq!(
        message(&batch(&ask(&mut server, newest.clone()))).as_deref(),
        Some("initiating set")
    );
    insert(&mut server, 1);
    insert(&mut server, 2);
    let all = batch(&ask(&mut server, find(doc! {})));
    assert_eq!(told(&all), ["n", "c", "i1", "i2"]);
    assert_eq!(told(&batch(&ask(&mut server, newest))), ["i2"]);
    let times: Vec<_> = all
        .iter()
        .map(|entry| entry.get_timestamp("ts").unwrap())
        .collect();
    assert!(times.is_sorted());
    let later = find(doc! {"filter": {"ts": {"$gt": times[2]}}});
    assert_eq!(told(&batch(&ask(&mut server, later))), ["i2"]);
    let count = doc! {"count": "oplog.rs", "query": {"op": "i"}, "$db": "local"};
    assert_eq!(ask(&mut server, count).get_i32("n").ok(), Some(2));
}

#[test]
fn what_was_written_before_is_not_there() {
    let mut server = server(member());
    insert(&mut server, 1);
    let entries = batch(&ask(&mut server, find(doc! {})));
    assert_eq!(told(&entries), ["n"]);
    let message = entries[0].get_document("o").unwrap().get_str("msg");
    assert_eq!(message.ok(), Some("the recording of changes begins"));
    insert(&mut server, 2);
    assert_eq!(told(&batch(&ask(&mut server, find(doc! {})))), ["n", "i2"]);
}

/// Nothing but the write wakes a cursor that tails the oplog.
#[tokio::test]
async fn a_tailing_cursor_is_woken_by_the_next_write() {
    let mut server = server(member());
    ask(&mut server, find(doc! {}));
    insert(&mut server, 1);
    for projection in [None, Some(doc! {"o": 1, "op": 1})] {
        let filter = doc! {"op": "i", "ns": "d.c"};
        let mut tail = find(doc! {"tailable": true, "awaitData": true, "filter": filter});
        tail.extend(
            projection
                .map(|fields| doc! {"projection": fields})
                .unwrap_or_default(),
        );
        let opened = ask(&mut server, tail);
        let before = told(&batch(&opened)).len() as i32;
        let id = opened
            .get_document("cursor")
            .unwrap()
            .get_i64("id")
            .unwrap();
        let more =
            doc! {"getMore": id, "collection": "oplog.rs", "maxTimeMS": 3_600_000, "$db": "local"};
        let mut work = begin(&mut server, more);
        let Ok(Progress::Wait(mut wait)) = work.step(&mut Vec::new()) else {
            panic!("it does not wait");
        };
        let mut is_over = || {
            let mut nobody = Context::from_waker(Waker::noop());
            Pin::new(&mut wait).poll(&mut nobody).is_ready()
        };
        assert!(!is_over());
        insert(&mut server, before + 1);
        assert!(is_over());
        let mut reply = Vec::new();
        assert!(work.step(&mut reply).unwrap().is_done());
        let reply = Document::from_reader(&reply[..]).unwrap();
        assert_eq!(told(&batch(&reply)), [format!("i{}", before + 1)]);
    }
}

/// As mongod 6.0.5 refuses them.
#[test]
fn only_the_server_writes_to_it() {
    let mut server = server(member());
    let rows = [
        (doc! {"insert": "oplog.rs", "documents": [{}]}, 73),
        (
            doc! {"update": "oplog.rs", "updates": [{"q": {}, "u": {"$set": {"a": 1}}}]},
            73,
        ),
        (
            doc! {"delete": "oplog.rs", "deletes": [{"q": {}, "limit": 0}]},
            73,
        ),
        (doc! {"findAndModify": "oplog.rs", "remove": true}, 73),
        (
            doc! {"createIndexes": "oplog.rs", "indexes": [{"key": {"a": 1}, "name": "a"}]},
            73,
        ),
        (doc! {"create": "oplog.rs"}, 48),
        (doc! {"drop": "oplog.rs"}, 5_255_000),
        (doc! {"dropDatabase": 1}, 20),
    ];
    for (mut command, code) in rows {
        command.insert("$db", "local");
        let reply = ask(&mut server, command.clone());
        assert_eq!(
            reply.get("code"),
            Some(&Bson::Int32(code)),
            "{command}: {reply}"
        );
    }
}

/// The log is bounded, and so is the collection.
#[test]
fn entries_that_the_log_has_dropped_are_gone() {
    let mut config = member();
    config.oplog.bytes = 4_096;
    config.oplog.from_start = true;
    let mut server = server(config);
    for id in 0..200 {
        insert(&mut server, id);
        if id % 50 == 0 {
            ask(&mut server, find(doc! {}));
        }
    }
    let kept = told(&batch(&ask(&mut server, find(doc! {}))));
    assert!((2..50).contains(&kept.len()), "{kept:?}");
    assert_eq!(kept.last().map(String::as_str), Some("i199"));
    let stats = ask(&mut server, doc! {"collStats": "oplog.rs", "$db": "local"});
    assert_eq!(
        stats.get_i32("count").ok(),
        Some(kept.len() as i32),
        "{stats}"
    );
    assert_eq!(stats.get_bool("capped").ok(), Some(true));
}

#[test]
fn the_log_is_not_resized_like_a_capped_collection() {
    let mut server = server(member());
    let change = |option: &str| doc! {"collMod": "oplog.rs", option: 1000, "$db": "local"};
    for (option, code) in [("cappedMax", 72), ("cappedSize", 72), ("defaultTtl", 73)] {
        let refused = ask(&mut server, change(option));
        assert_eq!(refused.get_i32("code").ok(), Some(code), "{refused}");
    }
}
