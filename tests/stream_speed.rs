//! How fast change streams are. Ignored, because times mean something only on a machine that does nothing else.
//!
//! ```text
//! cargo test --release --test stream_speed -- --ignored --nocapture --test-threads 1
//! ```

#![allow(clippy::unwrap_used)] // a panic says where

#[path = "support/mod.rs"]
mod support;

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bson::{Document, doc};
use sundown::Sundown;
use sundown::clock::{Clock, monotonic};
use sundown::config::Config;
use support::client::Client;

/// Opens a stream on the collection `d.c` and sends each `_id` with the moment at which it came, until `last` comes.
fn watch(address: SocketAddr, last: i32, told: Sender<(i32, Instant)>) -> JoinHandle<()> {
    let mut client = Client::connect(address).unwrap();
    let open = doc! {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}};
    let opened = client.command("d", open).unwrap();
    let cursor = opened.get_document("cursor").unwrap();
    let id = cursor.get_i64("id").unwrap();
    std::thread::spawn(move || {
        loop {
            let more = doc! {"getMore": id, "collection": "c", "maxTimeMS": 60_000};
            let reply = client.command("d", more).unwrap();
            let came = monotonic();
            let batch = reply.get_document("cursor").unwrap().get_array("nextBatch");
            for event in batch.unwrap() {
                let key = event.as_document().unwrap().get_document("documentKey");
                let id = key.unwrap().get_i32("_id").unwrap();
                told.send((id, came)).unwrap();
                if id == last {
                    return;
                }
            }
        }
    })
}

fn insert(client: &mut Client, id: i32) -> Instant {
    let insert = doc! {"insert": "c", "documents": [{"_id": id, "text": "x".repeat(100)}]};
    let reply = client.command("d", insert).unwrap();
    assert_eq!(reply.get_i32("n").ok(), Some(1), "{reply}");
    monotonic()
}

async fn server() -> Sundown {
    let config = Config {
        port: 0,
        ..Config::default()
    };
    Sundown::start(config, Clock::system()).await.unwrap()
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() - 1) * percent / 100]
}

/// From the acknowledged write to the delivered event, under a millisecond.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "times need a quiet machine"]
async fn an_event_follows_its_write_within_a_millisecond() {
    const COUNT: i32 = 1_000;
    let server = server().await;
    let address = server.local_addr();
    let mut delays = tokio::task::block_in_place(|| {
        let mut client = Client::connect(address).unwrap();
        let (told, events): (_, Receiver<(i32, Instant)>) = channel();
        let reader = watch(address, COUNT - 1, told);
        let mut delays = Vec::new();
        for id in 0..COUNT {
            let written = insert(&mut client, id);
            let (told, came) = events.recv().unwrap();
            assert_eq!(told, id);
            delays.push(came.saturating_duration_since(written));
            std::thread::sleep(Duration::from_millis(1)); // real time: the stream waits again
        }
        reader.join().unwrap();
        delays
    });
    delays.sort();
    let [half, most] = [50, 99].map(|percent| percentile(&delays, percent));
    println!("from write to event: p50 {half:?}, p99 {most:?}");
    assert!(most < Duration::from_millis(1), "p99 {most:?}");
}

/// With a watcher on each of 100 connections and 2,000 inserts a second, every watcher gets every event, in order, once. One
/// writer that waits for each reply cannot keep that pace on few cores, because 100 deliveries stand between two of its
/// inserts; so there are eight.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ten seconds, and a quiet machine to keep the pace"]
async fn a_hundred_watchers_get_every_event_once_and_in_order() {
    const WATCHERS: usize = 100;
    const WRITERS: i32 = 8;
    const RATE: i32 = 2_000;
    const COUNT: i32 = 5 * RATE;
    const LAST: i32 = COUNT;
    let server = server().await;
    let address = server.local_addr();
    tokio::task::block_in_place(|| {
        let watchers: Vec<_> = (0..WATCHERS)
            .map(|_| {
                let (told, events) = channel();
                (watch(address, LAST, told), events)
            })
            .collect();
        let begun = monotonic();
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                scope.spawn(move || {
                    let mut client = Client::connect(address).unwrap();
                    for id in (writer..COUNT).step_by(WRITERS as usize) {
                        insert(&mut client, id);
                        let due = begun + Duration::from_secs(1) * (id + 1) as u32 / RATE as u32;
                        std::thread::sleep(due.saturating_duration_since(monotonic())); // real time: the pace
                    }
                });
            }
        });
        let took = monotonic() - begun;
        let written = insert(&mut Client::connect(address).unwrap(), LAST);
        let mut seen: Option<Vec<i32>> = None;
        for (reader, events) in watchers {
            reader.join().unwrap();
            let ids: Vec<i32> = events.try_iter().map(|(id, _)| id).collect();
            for writer in 0..WRITERS {
                let own = ids
                    .iter()
                    .copied()
                    .filter(|id| *id < LAST && id % WRITERS == writer);
                assert!(
                    own.eq((writer..COUNT).step_by(WRITERS as usize)),
                    "{} events",
                    ids.len()
                );
            }
            assert_eq!(ids.len(), COUNT as usize + 1);
            // All watchers see one order.
            assert_eq!(*seen.get_or_insert_with(|| ids.clone()), ids);
        }
        let behind = monotonic() - written;
        println!("{COUNT} inserts in {took:?}, all watchers done {behind:?} later");
        assert!(
            took < Duration::from_millis(5_500),
            "{COUNT} inserts in {took:?}"
        );
    });
}

/// What an insert takes, as a client sees it, with no stream, with one and with a thousand that wait. The watchers need the
/// processor, too: with few cores the figure tells their cost as well as that of the writer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "times need a quiet machine"]
async fn an_insert_beside_waiting_streams() {
    const COUNT: i32 = 5_000;
    let server = server().await;
    let address = server.local_addr();
    tokio::task::block_in_place(|| {
        let mut client = Client::connect(address).unwrap();
        let mut next = 0;
        let mut waiting: Vec<Client> = Vec::new();
        for streams in [0, 1, 1_000] {
            // They follow another collection, so nothing but the wake-up is theirs.
            while waiting.len() < streams {
                let mut watcher = Client::connect(address).unwrap();
                let pipeline = [doc! {"$changeStream": {}}];
                let open = doc! {"aggregate": "other", "pipeline": &pipeline[..], "cursor": {}};
                let opened: Document = watcher.command("d", open).unwrap();
                let id = opened
                    .get_document("cursor")
                    .unwrap()
                    .get_i64("id")
                    .unwrap();
                let more = doc! {"getMore": id, "collection": "other", "maxTimeMS": 600_000};
                watcher.send("d", more).unwrap();
                waiting.push(watcher);
            }
            let mut times = Vec::new();
            for _ in 0..COUNT {
                let begun = monotonic();
                times.push(insert(&mut client, next) - begun);
                next += 1;
            }
            times.sort();
            let half = percentile(&times, 50);
            println!("{streams} streams: an insert takes {half:?} (p50 at the client)");
        }
    });
}
