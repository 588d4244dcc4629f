//! What the monitor of a driver relies on: a hello that waits, hellos that stream, and cursors that stream.

#![allow(clippy::unwrap_used)] // a panic says where

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::{Document, doc};
use mongodb::event::sdam::SdamEvent;
use mongodb::options::{ClientOptions, ServerMonitoringMode};
use sundown::Sundown;
use sundown::clock::{Clock, monotonic};
use sundown::config::{Config, Topology};

#[path = "support/raw.rs"]
mod raw;

use raw::{Client, EXHAUST_ALLOWED, MORE_TO_COME, body, msg};

const WAIT: i64 = 300;
/// No test waits this long: a reply comes at once, or the test fails.
const AN_HOUR: i64 = 3_600_000;

async fn start(topology: Topology) -> Sundown {
    let config = Config {
        port: 0,
        topology,
        shutdown_timeout: raw::PATIENCE,
        ..Config::default()
    };
    Sundown::start(config, Clock::system()).await.unwrap()
}

async fn version(client: &mut Client) -> Document {
    let hello = client.ask(doc! {"hello": 1, "$db": "admin"}).await;
    hello.get_document("topologyVersion").unwrap().clone()
}

fn awaiting(name: &str, version: &Document, millis: i64) -> Document {
    doc! {name: 1, "$db": "admin", "topologyVersion": version.clone(), "maxAwaitTimeMS": millis}
}

async fn gauges(client: &mut Client) -> (i32, i32, i32) {
    let status = client.ask(doc! {"serverStatus": 1, "$db": "admin"}).await;
    let connections = status.get_document("connections").unwrap();
    let gauge = |name| connections.get_i32(name).unwrap();
    (
        gauge("awaitingTopologyChanges"),
        gauge("exhaustHello"),
        gauge("exhaustIsMaster"),
    )
}

/// Waits until the gauges have the wanted values. The server notices a monitor that comes or goes with a short delay.
async fn gauges_come_to(client: &mut Client, what: &str, wanted: impl Fn((i32, i32, i32)) -> bool) {
    let begun = monotonic();
    loop {
        let seen = gauges(client).await;
        if wanted(seen) {
            return;
        }
        assert!(begun.elapsed() < raw::PATIENCE, "{what}: {seen:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn an_awaitable_hello_waits_for_a_new_topology_version() {
    let server = start(Topology::Router).await;
    let mut client = Client::connect(server.local_addr()).await;
    let known = version(&mut client).await;
    let mut stranger = known.clone();
    stranger.insert("processId", bson::oid::ObjectId::new());
    let mut older = known.clone();
    older.insert("counter", -1i64);
    for (what, version, patience) in [
        ("known", &known, WAIT),
        ("another process", &stranger, AN_HOUR),
        ("an older state", &older, AN_HOUR),
    ] {
        let begun = monotonic();
        let reply = client.ask(awaiting("hello", version, patience)).await;
        assert_eq!(reply.get_f64("ok").unwrap(), 1.0, "{what} {reply}");
        assert_eq!(reply.get_document("topologyVersion").unwrap(), &known);
        if patience == WAIT {
            assert!(begun.elapsed() >= Duration::from_millis(WAIT as u64));
        }
    }
    for (command, code) in [
        (
            doc! {"hello": 1, "$db": "admin", "maxAwaitTimeMS": 5i64},
            31372,
        ),
        (
            doc! {"hello": 1, "$db": "admin", "topologyVersion": known.clone()},
            31368,
        ),
        (awaiting("hello", &known, -1), 2),
        (
            awaiting(
                "hello",
                &doc! {"processId": known.get_object_id("processId").unwrap(), "counter": 1i64},
                5,
            ),
            31382,
        ),
    ] {
        let reply = client.ask(command.clone()).await;
        assert_eq!(reply.get_i32("code").ok(), Some(code), "{command} {reply}");
    }
}

#[tokio::test]
async fn many_waiting_hellos_do_not_block_others() {
    let server = start(Topology::Router).await;
    let mut client = Client::connect(server.local_addr()).await;
    let known = version(&mut client).await;
    let mut waiting = Vec::new();
    for _ in 0..200 {
        let mut monitor = Client::connect(server.local_addr()).await;
        let hello = awaiting("hello", &known, i64::from(i32::MAX));
        monitor.send(&msg(1, 0, &[&body(hello)])).await;
        waiting.push(monitor);
    }
    gauges_come_to(&mut client, "all wait", |seen| seen.0 == 200).await;
    drop(waiting.split_off(100));
    gauges_come_to(&mut client, "half left", |seen| seen.0 == 100).await;
    assert_eq!(server.stop().await, 0);
    for mut monitor in waiting {
        monitor.assert_hung_up("the server has stopped").await;
    }
}

#[tokio::test]
async fn hellos_stream_until_the_client_leaves() {
    let server = start(Topology::Router).await;
    let mut client = Client::connect(server.local_addr()).await;
    let known = version(&mut client).await;
    for (name, gauge) in [("hello", (1, 1, 0)), ("isMaster", (1, 0, 1))] {
        let mut monitor = Client::connect(server.local_addr()).await;
        let hello = awaiting(name, &known, 50);
        let begun = monotonic();
        monitor
            .send(&msg(33, EXHAUST_ALLOWED, &[&body(hello)]))
            .await;
        let mut before = 33;
        for _ in 0..5 {
            let reply = monitor.receive().await.unwrap();
            assert_eq!((reply.response_to, reply.flags), (before, MORE_TO_COME));
            assert_eq!(
                reply.document.get_document("topologyVersion").unwrap(),
                &known
            );
            before = reply.request_id;
        }
        assert!(begun.elapsed() >= Duration::from_millis(250));
        gauges_come_to(&mut client, name, |seen| seen == gauge).await;
        drop(monitor);
        gauges_come_to(&mut client, name, |seen| seen == (0, 0, 0)).await;
    }
    // An error is sent once and does not stream.
    let mut monitor = Client::connect(server.local_addr()).await;
    let wrong = awaiting("hello", &known, -1);
    monitor
        .send(&msg(1, EXHAUST_ALLOWED, &[&body(wrong)]))
        .await;
    assert_eq!(monitor.receive().await.unwrap().flags, 0);
    // A hello that does not wait does not stream either.
    let plain = doc! {"hello": 1, "$db": "admin"};
    monitor
        .send(&msg(1, EXHAUST_ALLOWED, &[&body(plain)]))
        .await;
    assert_eq!(monitor.receive().await.unwrap().flags, 0);
}

#[tokio::test]
async fn batches_stream_to_the_end_of_the_cursor() {
    let server = start(Topology::Router).await;
    let mut client = Client::connect(server.local_addr()).await;
    let documents: Vec<_> = (0..1000).map(|id| doc! {"_id": id}).collect();
    client
        .ask(doc! {"insert": "c", "documents": documents, "$db": "d"})
        .await;
    let find = doc! {"find": "c", "batchSize": 10, "$db": "d"};
    client.send(&msg(1, EXHAUST_ALLOWED, &[&body(find)])).await;
    let reply = client.receive().await.unwrap();
    assert_eq!(reply.flags, 0, "the first batch is asked for");
    let id = reply
        .document
        .get_document("cursor")
        .unwrap()
        .get_i64("id")
        .unwrap();
    let more = doc! {"getMore": id, "collection": "c", "batchSize": 10, "$db": "d"};
    client
        .send(&msg(2, EXHAUST_ALLOWED, &[&body(more.clone())]))
        .await;
    let mut before = 2;
    let mut rows = 10;
    loop {
        let reply = client.receive().await.unwrap();
        assert_eq!(reply.response_to, before);
        before = reply.request_id;
        let cursor = reply.document.get_document("cursor").unwrap();
        rows += cursor.get_array("nextBatch").unwrap().len();
        let open = cursor.get_i64("id").unwrap() != 0;
        assert_eq!(reply.flags, if open { MORE_TO_COME } else { 0 });
        if !open {
            break;
        }
    }
    assert_eq!(rows, 1000);
    client.send(&msg(3, EXHAUST_ALLOWED, &[&body(more)])).await;
    let reply = client.receive().await.unwrap();
    assert_eq!((reply.response_to, reply.flags), (3, 0));
    assert_eq!(reply.document.get_i32("code").unwrap(), 43);
}

/// The driver's own monitor sends one hello to introduce itself, then streams, and never fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_drivers_monitor_streams_and_sees_a_healthy_server() {
    let set = Topology::ReplicaSet {
        name: "globaldb".into(),
        advertise: None,
    };
    for topology in [Topology::Router, Topology::Standalone, set] {
        let server = start(topology.clone()).await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut options = ClientOptions::parse(server.uri()).await.unwrap();
        if let Topology::ReplicaSet { name, .. } = &topology {
            options.repl_set_name = Some(name.clone());
        }
        options.server_selection_timeout = Some(raw::PATIENCE);
        options.connect_timeout = Some(raw::PATIENCE);
        options.server_monitoring_mode = Some(ServerMonitoringMode::Stream);
        options.heartbeat_freq = Some(Duration::from_millis(500));
        let log = Arc::clone(&seen);
        options.sdam_event_handler = Some(mongodb::event::EventHandler::callback(move |event| {
            log.lock().unwrap().push(match event {
                SdamEvent::ServerHeartbeatSucceeded(event) if event.awaited => "awaited",
                SdamEvent::ServerHeartbeatSucceeded(_) => "asked",
                SdamEvent::ServerHeartbeatFailed(_) => "failed",
                _ => return,
            });
        }));
        let client = mongodb::Client::with_options(options).unwrap();
        let ping = client.database("admin").run_command(doc! {"ping": 1}).await;
        assert_eq!(ping.unwrap().get_f64("ok").unwrap(), 1.0);
        let awaited = || {
            seen.lock()
                .unwrap()
                .iter()
                .filter(|what| **what == "awaited")
                .count()
        };
        let begun = monotonic();
        while awaited() < 3 {
            assert!(
                begun.elapsed() < raw::PATIENCE,
                "{topology:?}: {:?}",
                seen.lock().unwrap()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(!seen.lock().unwrap().contains(&"failed"), "{topology:?}");
        // Between two replies the gauge is zero for a moment.
        let mut streams = 0;
        while streams != 1 {
            let status = client
                .database("admin")
                .run_command(doc! {"serverStatus": 1})
                .await
                .unwrap();
            let connections = status.get_document("connections").unwrap();
            streams = connections.get_i32("exhaustHello").unwrap()
                + connections.get_i32("exhaustIsMaster").unwrap();
            assert!(begun.elapsed() < raw::PATIENCE, "{topology:?}: {streams}");
        }
    }
}
