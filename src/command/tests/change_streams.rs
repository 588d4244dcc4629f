//! Change streams over several commands: where they go on, how they wake, and how they end.

use std::pin::Pin;
use std::task::{Context, Waker};

use bson::{Bson, Document, Timestamp, doc};

use super::server::{ask, begin, server};
use crate::command::{Commands, Connection};
use crate::config::{Config, Topology};
use crate::handler::Progress;

type Server = (Commands, Connection);

fn insert(server: &mut Server, id: i32) {
    let done = ask(
        server,
        doc! {"insert": "c", "documents": [{"_id": id}], "$db": "d"},
    );
    assert_eq!(done.get_i32("n").ok(), Some(1), "{done}");
}

/// Opens a stream. `options` is the argument of the stage.
fn watch(server: &mut Server, options: Document) -> Document {
    ask(
        server,
        doc! {"aggregate": "c", "pipeline": [{"$changeStream": options}], "cursor": {}, "$db": "d"},
    )
}

fn cursor(reply: &Document) -> &Document {
    reply
        .get_document("cursor")
        .unwrap_or_else(|_| panic!("{reply}"))
}

fn more(server: &mut Server, opened: &Document, batch_size: i32) -> Document {
    let id = cursor(opened).get_i64("id").unwrap();
    ask(
        server,
        doc! {"getMore": id, "collection": "c", "batchSize": batch_size, "maxTimeMS": 0, "$db": "d"},
    )
}

/// Returns the ids of the inserted documents in a batch.
fn ids(reply: &Document) -> Vec<i32> {
    let batch = cursor(reply);
    let batch = batch
        .get_array("nextBatch")
        .or_else(|_| batch.get_array("firstBatch"));
    let ids = batch.unwrap().iter().map(|event| {
        let event = event.as_document().unwrap();
        let key = event.get_document("documentKey").unwrap();
        key.get_i32("_id").unwrap()
    });
    ids.collect()
}

fn token(reply: &Document) -> Document {
    let token = cursor(reply).get_document("postBatchResumeToken");
    token.unwrap().clone()
}

fn code(reply: &Document) -> i32 {
    reply.get_i32("code").unwrap_or_else(|_| panic!("{reply}"))
}

/// Every batch, also an empty one, says where to go on, and nothing is lost or told twice.
#[test]
fn a_stream_goes_on_behind_its_last_batch() {
    let mut server = server(Config::default());
    let opened = watch(&mut server, doc! {});
    let empty = more(&mut server, &opened, 10);
    (1..=5).for_each(|id| insert(&mut server, id));
    let first = more(&mut server, &opened, 2);
    assert_eq!(ids(&first), [1, 2]);
    let rest = more(&mut server, &opened, 10);
    assert_eq!(ids(&rest), [3, 4, 5]);
    let rows = [
        (&opened, vec![1, 2, 3, 4, 5]),
        (&empty, vec![1, 2, 3, 4, 5]),
        (&first, vec![3, 4, 5]),
        (&rest, vec![]),
    ];
    for (after, expected) in rows {
        for option in ["resumeAfter", "startAfter"] {
            let resumed = watch(&mut server, doc! {option: token(after)});
            assert_eq!(ids(&resumed), expected, "{option} {after}");
        }
    }
    // A write to another collection moves the mark behind it.
    ask(
        &mut server,
        doc! {"insert": "other", "documents": [{}], "$db": "d"},
    );
    let passed = more(&mut server, &opened, 10);
    assert!(token(&passed).get_str("_data").unwrap() > token(&rest).get_str("_data").unwrap());
    insert(&mut server, 6);
    let resumed = watch(&mut server, doc! {"resumeAfter": token(&passed)});
    assert_eq!(ids(&resumed), [6]);
}

#[test]
fn a_stream_starts_at_a_time() {
    let mut server = server(Config::default());
    let opened = watch(&mut server, doc! {});
    (1..=3).for_each(|id| insert(&mut server, id));
    let all = more(&mut server, &opened, 10);
    let second = cursor(&all).get_array("nextBatch").unwrap()[1].clone();
    let time = second.as_document().unwrap().get("clusterTime").unwrap();
    let started = watch(&mut server, doc! {"startAtOperationTime": time.clone()});
    assert_eq!(ids(&started), [2, 3]);
}

/// Recording begins with the first stream. What was written before is lost, and the client is told.
#[test]
fn history_that_was_not_recorded_is_refused() {
    let mut server = server(Config::default());
    insert(&mut server, 1);
    let before = Timestamp {
        time: 1,
        increment: 0,
    };
    let refused = watch(&mut server, doc! {"startAtOperationTime": before});
    assert_eq!(code(&refused), 286, "{refused}");
    let labels = refused.get_array("errorLabels").unwrap();
    assert_eq!(*labels, [Bson::from("NonResumableChangeStreamError")]);
    let unknown = "8270DBD880000000FF2B022C0100296E5A10040000000000000000000000000000000004";
    let lost = watch(&mut server, doc! {"resumeAfter": {"_data": unknown}});
    assert_eq!(ids(&lost), [0; 0]);
    insert(&mut server, 2);
    let refused = more(&mut server, &lost, 10);
    assert_eq!(code(&refused), 280, "{refused}");
}

#[test]
fn a_stream_ends_with_its_collection_and_may_start_after_that() {
    let mut server = server(Config::default());
    let opened = watch(&mut server, doc! {});
    insert(&mut server, 1);
    ask(&mut server, doc! {"drop": "c", "$db": "d"});
    insert(&mut server, 2);
    let dropped = more(&mut server, &opened, 2);
    let drop_event = token(&dropped);
    let ended = more(&mut server, &opened, 10);
    let batch = cursor(&ended).get_array("nextBatch").unwrap();
    let kind = batch[0].as_document().unwrap().get_str("operationType");
    assert_eq!(kind.ok(), Some("invalidate"), "{ended}");
    assert_eq!(cursor(&ended).get_i64("id").ok(), Some(0));
    assert_eq!(cursor(&ended).get_bool("invalidated").ok(), Some(true));
    let refused = watch(&mut server, doc! {"resumeAfter": token(&ended)});
    assert_eq!(code(&refused), 260, "{refused}");
    let after = watch(&mut server, doc! {"startAfter": token(&ended)});
    assert_eq!(ids(&after), [2]);
    // A client that has not seen the end sees it when it resumes.
    let resumed = watch(&mut server, doc! {"resumeAfter": drop_event});
    let batch = cursor(&resumed).get_array("firstBatch").unwrap();
    let kinds = batch.iter().map(|event| event.as_document().unwrap());
    let kinds: Vec<&str> = kinds
        .map(|event| event.get_str("operationType").unwrap())
        .collect();
    assert_eq!(kinds, ["invalidate"], "{resumed}");
    assert_eq!(cursor(&resumed).get_i64("id").ok(), Some(0), "{resumed}");
}

/// Nothing but the write wakes a stream that waits.
#[tokio::test]
async fn a_waiting_stream_is_woken_by_the_next_write() {
    let mut server = server(Config::default());
    let opened = watch(&mut server, doc! {});
    let id = cursor(&opened).get_i64("id").unwrap();
    let get_more = doc! {"getMore": id, "collection": "c", "maxTimeMS": 3_600_000, "$db": "d"};
    let mut work = begin(&mut server, get_more);
    let Ok(Progress::Wait(mut wait)) = work.step(&mut Vec::new()) else {
        panic!("it does not wait");
    };
    let mut is_over = || {
        let mut nobody = Context::from_waker(Waker::noop());
        Pin::new(&mut wait).poll(&mut nobody).is_ready()
    };
    assert!(!is_over());
    insert(&mut server, 1);
    assert!(is_over());
    let mut reply = Vec::new();
    assert!(work.step(&mut reply).unwrap().is_done());
    assert_eq!(ids(&Document::from_reader(&reply[..]).unwrap()), [1]);
}

#[test]
fn a_standalone_has_no_change_streams() {
    let mut server = server(Config {
        topology: Topology::Standalone,
        ..Config::default()
    });
    assert_eq!(code(&watch(&mut server, doc! {})), 40573);
}

/// A touch of `_ts` alone is told to nobody, and expiry is told when the document is removed.
#[test]
fn an_update_that_changes_nothing_sends_no_event() {
    let mut server = server(Config::default());
    insert(&mut server, 1);
    let opened = watch(&mut server, doc! {});
    ask(
        &mut server,
        doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"_id": 1}}}], "$db": "d"},
    );
    insert(&mut server, 2);
    assert_eq!(ids(&more(&mut server, &opened, 10)), [2]);
}

/// The events of a transaction come together at its commit, in the order of its statements, each as its own event.
#[test]
fn a_transaction_is_one_group_of_events() {
    let mut server = server(Config::default());
    insert(&mut server, 1);
    let opened = watch(&mut server, doc! {});
    let session = doc! {"id": bson::Binary {
        subtype: bson::spec::BinarySubtype::Uuid,
        bytes: vec![7; 16],
    }};
    let mut first = true;
    let mut within = |server: &mut Server, mut command: Document, db: &str| {
        command.extend(doc! {"lsid": &session, "txnNumber": 4_i64, "autocommit": false, "$db": db});
        if std::mem::take(&mut first) {
            command.insert("startTransaction", true);
        }
        let reply = ask(server, command);
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    };
    let set = |value: i32| doc! {"q": {"_id": 1}, "u": {"$set": {"a": value}}};
    for value in 1..=300 {
        let update = doc! {"update": "c", "updates": [set(value)]};
        within(&mut server, update, "d");
    }
    insert(&mut server, 2);
    within(&mut server, doc! {"commitTransaction": 1}, "admin");
    insert(&mut server, 3);
    let all = more(&mut server, &opened, 1_000);
    let events = cursor(&all).get_array("nextBatch").unwrap();
    let events: Vec<&Document> = events
        .iter()
        .map(|event| event.as_document().unwrap())
        .collect();
    assert_eq!(ids(&all)[..2], [2, 1]);
    let group: Vec<_> = events
        .iter()
        .filter(|event| event.contains_key("txnNumber"))
        .collect();
    assert_eq!(group.len(), 300);
    let time = group[0].get("clusterTime");
    for (event, value) in group.iter().zip(1..) {
        let updated = event.get_document("updateDescription").unwrap();
        assert_eq!(
            updated.get_document("updatedFields").ok(),
            Some(&doc! {"a": value})
        );
        assert_eq!(event.get("clusterTime"), time);
        assert_eq!(event.get_i64("txnNumber").ok(), Some(4));
        let lsid = event.get_document("lsid").unwrap();
        assert_eq!(lsid.keys().collect::<Vec<_>>(), ["id", "uid"]);
    }
    // A client may go on in the middle of the group.
    for at in [0, 63, 280, 299] {
        let token = group[at].get_document("_id").unwrap().clone();
        let resumed = watch(&mut server, doc! {"resumeAfter": token});
        let rest = ids(&resumed).len() + ids(&more(&mut server, &resumed, 1_000)).len();
        assert_eq!(rest, 300 - at, "behind {at}");
    }
}
