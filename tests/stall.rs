//! One computation that cannot be cut holds up nobody but whoever asked for it, on however few threads.

#![allow(clippy::unwrap_used)] // a panic says where

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use bson::{Bson, Document, doc};
use sundown::Sundown;
use sundown::clock::{Clock, monotonic};
use sundown::config::Config;
use tokio::runtime::{Builder, Runtime};

mod support;

use support::client::Client;

/// Far less than what is asked for takes, and far more than an answer takes on a busy machine.
const SOON: Duration = Duration::from_secs(1);
/// What is told to end ends by then, though tests run side by side.
const LATE: Duration = Duration::from_secs(10);

/// An expression of one document that goes on for many seconds, if nobody stops it.
fn endless(start: impl Into<Bson>) -> Document {
    let inner = doc! {"$reduce": {
        "input": {"$range": [0, 1000]},
        "initialValue": start.into(),
        "in": {"$add": ["$$value", "$$this"]},
    }};
    doc! {"$sum": {"$map": {"input": {"$range": [0, 100_000]}, "in": inner}}}
}

fn start(workers: usize) -> (Runtime, Sundown) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .unwrap();
    let config = Config {
        bind: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        ..Config::default()
    };
    let server = runtime
        .block_on(Sundown::start(config, Clock::system()))
        .unwrap();
    let mut client = Client::connect(server.local_addr()).unwrap();
    let documents = doc! {"insert": "t", "documents": [{"_id": 1}]};
    client.command("test", documents).unwrap();
    (runtime, server)
}

/// Asks on a connection of its own; the reply comes when it comes.
fn ask(address: SocketAddr, command: Document) -> Receiver<Document> {
    let (tell, reply) = channel();
    thread::spawn(move || {
        let mut client = Client::connect(address).unwrap();
        // Nobody listens any more where the test was over first.
        let _ = tell.send(client.command("test", command).unwrap());
    });
    reply
}

/// The numbers by which so many operations on the collection are killed, once they are to be seen.
fn running(client: &mut Client, count: usize) -> Vec<Bson> {
    let began = monotonic();
    loop {
        let reply = client
            .command("admin", doc! {"currentOp": 1, "ns": "test.t"})
            .unwrap();
        let found = reply.get_array("inprog").unwrap();
        if found.len() == count {
            return found
                .iter()
                .map(|operation| operation.as_document().unwrap()["opid"].clone())
                .collect();
        }
        assert!(monotonic() - began < Duration::from_secs(20), "{reply}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn others_are_answered_while_expressions_compute_and_all_can_be_killed() {
    for workers in [1, 2] {
        let (_runtime, server) = start(workers);
        let address = server.local_addr();
        let mut client = Client::connect(address).unwrap();
        // More of them than there are workers; one of them under the collection's lock.
        let mut asked = vec![ask(
            address,
            doc! {"find": "t", "filter": {"$expr": {"$eq": [endless("$_id"), 0]}}},
        )];
        for _ in 0..workers {
            let stage = doc! {"$project": {"x": endless("$_id")}};
            asked.push(ask(
                address,
                doc! {"aggregate": "t", "pipeline": [stage], "cursor": {}},
            ));
        }
        let operations = running(&mut client, asked.len());
        let mut slowest = Duration::ZERO;
        for _ in 0..50 {
            let began = monotonic();
            client.command("admin", doc! {"ping": 1}).unwrap();
            slowest = slowest.max(monotonic() - began);
            thread::sleep(Duration::from_millis(5));
        }
        assert!(slowest < SOON, "{workers} workers: {slowest:?}");
        for reply in &asked {
            assert_eq!(reply.try_recv(), Err(TryRecvError::Empty), "too early");
        }
        let began = monotonic();
        for op in operations {
            let killed = client.command("admin", doc! {"killOp": 1, "op": op});
            assert_eq!(killed.unwrap().get_f64("ok").unwrap(), 1.0);
        }
        for reply in asked {
            let reply = reply.recv().unwrap();
            assert_eq!(reply.get_i32("code").ok(), Some(11601), "{reply}");
        }
        assert!(monotonic() - began < LATE, "{workers} workers");
    }
}

/// Neither holds a document's size times the size of a filter.
#[test]
fn a_long_filter_on_a_large_array_ends_at_the_time_limit() {
    let (_runtime, server) = start(2);
    let mut client = Client::connect(server.local_addr()).unwrap();
    let mut run = |command: Document| client.command("test", command).unwrap();
    let large: Vec<i32> = (0..100_000).collect();
    run(doc! {"insert": "t", "documents": [{"_id": 2, "a": large}]});
    let conditions: Vec<Document> = (0..10_000).map(|n| doc! {"a": {"$ne": -1 - n}}).collect();
    for command in [
        doc! {"count": "t", "query": {"$and": &conditions}, "maxTimeMS": 20},
        doc! {"find": "t", "filter": {"$nor": [{"$and": &conditions}]}, "maxTimeMS": 20},
        doc! {"delete": "t", "deletes": [{"q": {"$and": &conditions}, "limit": 0}], "maxTimeMS": 20},
    ] {
        let name = command.keys().next().unwrap().clone();
        let began = monotonic();
        let reply = run(command);
        assert_eq!(reply.get_i32("code").ok(), Some(50), "{name}: {reply}");
        assert!(monotonic() - began < LATE, "{name}");
    }
}

#[test]
fn one_expression_ends_at_the_time_limit() {
    let (_runtime, server) = start(2);
    let mut client = Client::connect(server.local_addr()).unwrap();
    let update = doc! {"q": {"_id": 1}, "u": [{"$set": {"x": endless("$_id")}}]};
    for mut command in [
        doc! {"find": "t", "filter": {"_id": 1}, "projection": {"x": endless("$_id")}},
        doc! {"aggregate": "t", "pipeline": [{"$project": {"x": endless("$_id")}}], "cursor": {}},
        doc! {"aggregate": "t", "pipeline": [], "let": {"x": endless(0)}, "cursor": {}},
        doc! {"update": "t", "updates": [update]},
        doc! {"findAndModify": "t", "query": {"_id": 1}, "update": [{"$set": {"x": endless("$_id")}}]},
        doc! {"count": "t", "query": {"$expr": endless("$_id")}},
    ] {
        command.insert("maxTimeMS", 20);
        let began = monotonic();
        let reply = client.command("test", command.clone()).unwrap();
        assert_eq!(reply.get_i32("code").ok(), Some(50), "{command}: {reply}");
        assert_eq!(
            reply.get_str("errmsg").unwrap(),
            "operation exceeded time limit"
        );
        assert!(monotonic() - began < LATE, "{command}");
    }
}
