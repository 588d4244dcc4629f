//! Delete events of expired documents: when they come, in which order, and that each comes once.

use bson::{Document, doc};

use super::server::{ask, server};
use crate::clock::monotonic;
use crate::command::{Commands, Connection};
use crate::config::{Config, ExpiryEventTime};
use crate::value::Millis;

type Server = (Commands, Connection);

const START: i64 = 1_000_000;

fn instant() -> Server {
    let mut config = Config::default();
    config.oplog.expiry_events = ExpiryEventTime::Instant;
    let mut server = server(config);
    for name in ["c", "e"] {
        run(&mut server, doc! {"create": name, "defaultTtl": -1});
    }
    server
}

fn run(server: &mut Server, mut command: Document) -> Document {
    command.insert("$db", "d");
    let reply = ask(server, command);
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    assert!(reply.get("writeErrors").is_none(), "{reply}");
    reply
}

fn insert(server: &mut Server, collection: &str, id: &str, ttl: i32) {
    run(
        server,
        doc! {"insert": collection, "documents": [{"_id": id, "ttl": ttl}]},
    );
}

fn watch(server: &mut Server) -> i64 {
    let watch = doc! {"aggregate": 1, "pipeline": [{"$changeStream": {}}], "cursor": {}};
    let opened = run(server, watch);
    opened
        .get_document("cursor")
        .unwrap()
        .get_i64("id")
        .unwrap()
}

fn advance(server: &Server, millis: i64) {
    server.0.context().clock.advance(millis);
}

/// Returns the events of a stream as `operation id@milliseconds`.
fn told(server: &mut Server, stream: i64) -> Vec<String> {
    let more = doc! {"getMore": stream, "collection": "$cmd.aggregate", "maxTimeMS": 0};
    let reply = run(server, more);
    let batch = reply.get_document("cursor").unwrap().get_array("nextBatch");
    let words = batch.unwrap().iter().map(|event| {
        let event = event.as_document().unwrap();
        let key = event.get_document("documentKey");
        let id = key.map_or("", |key| key.get_str("_id").unwrap());
        let wall = event.get_datetime("wallTime").unwrap().timestamp_millis() - START;
        format!("{} {id}@{wall}", event.get_str("operationType").unwrap())
    });
    words.collect()
}

/// Lets the reaper free everything.
fn reap(server: &Server) {
    let context = server.0.context();
    for collection in context.catalog.collections() {
        let until = monotonic() + std::time::Duration::from_secs(5);
        collection.reap(context.clock.now(), until);
    }
}

#[test]
fn ends_stand_in_their_order_before_everything_that_comes_later() {
    let mut server = instant();
    let stream = watch(&mut server);
    insert(&mut server, "c", "a", 3);
    insert(&mut server, "c", "b", 1);
    insert(&mut server, "e", "d", 2);
    advance(&server, 2_500);
    insert(&mut server, "e", "x", 60);
    advance(&server, 2_500);
    insert(&mut server, "c", "y", 60);
    reap(&server);
    let expected = [
        "insert a@0",
        "insert b@0",
        "insert d@0",
        "delete b@1000",
        "delete d@2000",
        "insert x@2500",
        "delete a@3000",
        "insert y@5000",
    ];
    assert_eq!(told(&mut server, stream), expected);
    reap(&server);
    assert!(told(&mut server, stream).is_empty());
    // A reader is enough: nobody writes.
    advance(&server, 60_000);
    assert_eq!(
        told(&mut server, stream),
        ["delete x@62500", "delete y@65000"]
    );
}

#[test]
fn a_takeover_tells_an_end_once() {
    let mut server = instant();
    let stream = watch(&mut server);
    insert(&mut server, "c", "a", 1);
    advance(&server, 1_000);
    insert(&mut server, "c", "a", 1);
    advance(&server, 1_500);
    let upsert = doc! {"q": {"_id": "a"}, "u": {"$set": {"ttl": 9}}, "upsert": true};
    run(&mut server, doc! {"update": "c", "updates": [upsert]});
    reap(&server);
    let expected = [
        "insert a@0",
        "delete a@1000",
        "insert a@1000",
        "delete a@2000",
        "insert a@2500",
    ];
    assert_eq!(told(&mut server, stream), expected);
}

/// A rule that begins to hold ends documents then, and not in the past. A change that would revive them tells nothing twice.
#[test]
fn changed_rules_tell_each_end_once() {
    let mut server = instant();
    let stream = watch(&mut server);
    run(
        &mut server,
        doc! {"insert": "c", "documents": [{"_id": "a"}, {"_id": "b", "ttl": 60}]},
    );
    advance(&server, 5_000);
    run(&mut server, doc! {"collMod": "c", "defaultTtl": 2});
    assert_eq!(
        told(&mut server, stream),
        ["insert a@0", "insert b@0", "delete a@5000"]
    );
    run(&mut server, doc! {"collMod": "c", "defaultTtl": 100});
    run(
        &mut server,
        doc! {"insert": "c", "documents": [{"_id": "f"}]},
    );
    advance(&server, 50_000);
    run(&mut server, doc! {"collMod": "c", "defaultTtl": 50});
    reap(&server);
    // The end of the inherited life was the instant of the change.
    assert_eq!(
        told(&mut server, stream),
        ["insert f@5000", "delete f@55000"]
    );
    advance(&server, 10_000);
    run(&mut server, doc! {"collMod": "c", "defaultTtl": null});
    assert_eq!(told(&mut server, stream), ["delete b@60000"]);
    reap(&server);
    assert!(told(&mut server, stream).is_empty());
}

#[test]
fn a_clock_that_goes_back_repeats_nothing() {
    let mut server = instant();
    let stream = watch(&mut server);
    insert(&mut server, "c", "a", 10);
    insert(&mut server, "e", "b", 30);
    advance(&server, 20_000);
    server.0.context().clock.set(Millis(START + 5_000));
    assert_eq!(
        told(&mut server, stream),
        ["insert a@0", "insert b@0", "delete a@10000"]
    );
    // It is written again in the past, and ends earlier than before.
    let touch = doc! {"q": {"_id": "b"}, "u": {"$set": {"ttl": 1}}};
    run(&mut server, doc! {"update": "e", "updates": [touch]});
    advance(&server, 1_500);
    let events = told(&mut server, stream);
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events[1].starts_with("delete b@"), "{events:?}");
    advance(&server, 60_000);
    reap(&server);
    assert!(told(&mut server, stream).is_empty());
}

/// Documents that ended before anybody watched are nobody's events.
#[test]
fn a_stream_hears_of_no_end_before_it_was_opened() {
    let mut server = instant();
    insert(&mut server, "c", "a", 1);
    insert(&mut server, "c", "b", 9);
    advance(&server, 5_000);
    let stream = watch(&mut server);
    advance(&server, 5_000);
    assert_eq!(told(&mut server, stream), ["delete b@9000"]);
}

/// By default the event comes with the removal, and serverStatus says how late it was.
#[test]
fn by_default_an_end_is_told_when_the_document_is_removed() {
    let mut server = server(Config::default());
    run(&mut server, doc! {"create": "c", "defaultTtl": -1});
    let stream = watch(&mut server);
    insert(&mut server, "c", "a", 1);
    advance(&server, 1_200);
    insert(&mut server, "c", "b", 9);
    assert_eq!(told(&mut server, stream), ["insert a@0", "insert b@1200"]);
    reap(&server);
    assert_eq!(told(&mut server, stream), ["delete a@1200"]);
    let status = run(&mut server, doc! {"serverStatus": 1});
    let metrics = status.get_document("metrics").unwrap();
    let ttl = metrics.get_document("ttl").unwrap();
    assert_eq!(ttl.get_str("eventsAt").ok(), Some("removal"));
    assert_eq!(ttl.get_i64("longestEventDelayMillis").ok(), Some(200));
}
