//! Exact counts, and memory that is freed, with very many documents.

use std::thread;
use std::time::Duration;

use bson::{Document, doc};
use sundown::clock::monotonic;

use crate::ok;
use crate::support::binary::Binary;
use crate::support::client::Client;
use crate::support::world::{Reaper, World, batch, int};

/// Documents expire at 50 different seconds while the reaper is off. The counts are exact all the time.
fn exact_counts(documents: i64) {
    let mut world = World::new(Reaper::Off);
    world.run(doc! {"create": "c", "defaultTtl": 10});
    // One in a hundred never expires, one in ten inherits the default, and the others expire after 11 to 60 seconds.
    let ttl = |id: i64| match id % 100 {
        0 => -1,
        n if n % 10 == 1 => 10,
        n => 11 + (id / 100 + n) % 50,
    };
    for from in (0..documents).step_by(5_000) {
        world.insert(
            "c",
            (from..(from + 5_000).min(documents)).map(|id| match ttl(id) {
                10 => doc! {"_id": id},
                ttl => doc! {"_id": id, "ttl": ttl},
            }),
        );
    }
    for (added, second) in (0..).zip([0, 9, 10, 11, 12, 30, 59, 60, 61, 100]) {
        for offset in [-1, 0, 1] {
            world.at(second * 1000 + offset);
            let living = (0..documents)
                .filter(|&id| ttl(id) == -1 || second * 1000 + offset < ttl(id) * 1000)
                .count() as i64
                + added;
            let counted = world.run(doc! {"count": "c"});
            assert_eq!(
                counted.get("n").and_then(int),
                Some(living),
                "{second} s {offset} ms"
            );
            let stats = world.run(doc! {"collStats": "c"});
            assert_eq!(
                stats.get("count").and_then(int),
                Some(living),
                "{second} s {offset} ms"
            );
        }
        // A few new documents that never expire. One of them reuses an `_id` whose document may have expired.
        world.insert("c", [doc! {"_id": documents + second, "ttl": -1}]);
    }
    assert!(world.ttl_metric("pendingDocuments") > documents * 9 / 10);
    assert_eq!(world.ttl_metric("deletedDocuments"), 0);
}

#[test]
fn counts_are_exact_before_expired_documents_are_freed() {
    exact_counts(200_000);
}

#[test]
#[ignore = "long: run by name, in a release build"]
fn counts_are_exact_before_a_million_expired_documents_are_freed() {
    exact_counts(1_000_000);
}

/// Frequent writes to one document under a long default keep no memory per write.
#[test]
#[ignore = "minutes: run by name, in a release build"]
fn ten_million_increments_do_not_grow_memory() {
    const TOTAL: u64 = 10_000_000;
    const FIRST: u64 = 100_000;
    const BATCH: u64 = 1_000;
    let server = Binary::start();
    let mut client = server.connect();
    ok(&mut client, doc! {"create": "c", "defaultTtl": 90 * 86_400});
    let documents: Vec<Document> = (0..1_000)
        .map(|id| doc! {"_id": id, "n": 0i64, "pad": "x".repeat(100)})
        .collect();
    ok(&mut client, doc! {"insert": "c", "documents": documents});
    let mut after_first = 0;
    let mut done = 0;
    while done < TOTAL {
        let updates: Vec<Document> = (0..BATCH).map(|nth| doc! {"q": {"_id": ((done + nth * 7) % 1_000) as i32}, "u": {"$inc": {"n": 1}}}).collect();
        let reply = ok(&mut client, doc! {"update": "c", "updates": updates});
        assert_eq!(reply.get("nModified").and_then(int), Some(BATCH as i64));
        done += BATCH;
        if done == FIRST {
            after_first = server.resident();
        }
    }
    let at_the_end = server.resident();
    println!("resident after {FIRST}: {after_first}, after {TOTAL}: {at_the_end}");
    assert!(
        at_the_end <= after_first + after_first / 10,
        "{after_first} after {FIRST}, {at_the_end} after {TOTAL}"
    );
    let rows = batch(&ok(&mut client, doc! {"aggregate": "c", "pipeline": [{"$group": {"_id": null, "n": {"$sum": "$n"}}}], "cursor": {}})).0;
    assert_eq!(rows[0].get("n").and_then(int), Some(TOTAL as i64));
}

/// The number of documents in the memory test. `DOCUMENTS=10000000` gives the full size.
fn documents() -> i64 {
    std::env::var("DOCUMENTS").map_or(1_000_000, |n| n.parse().unwrap())
}

fn fill(client: &mut Client, documents: i64, living: impl Fn(i64) -> bool, all: bool) {
    let mut waiting: Vec<Document> = Vec::new();
    let mut flush = |waiting: &mut Vec<Document>| {
        if !waiting.is_empty() {
            ok(
                client,
                doc! {"insert": "c", "documents": std::mem::take(waiting)},
            );
        }
    };
    for id in 0..documents {
        let lives = living(id);
        if lives || all {
            waiting
                .push(doc! {"_id": id, "ttl": if lives { -1 } else { 60 }, "pad": "x".repeat(150)});
        }
        if waiting.len() == 5_000 {
            flush(&mut waiting);
        }
    }
    flush(&mut waiting);
}

/// After a mass expiry and a pause, the server uses about as much memory as one that never had the expired documents.
fn memory_after(living: impl Fn(i64) -> bool + Copy, index: bool) {
    let documents = documents();
    let server = Binary::start();
    let fresh = Binary::start();
    let mut client = server.connect();
    for (server, all) in [(&server, true), (&fresh, false)] {
        let mut client = server.connect();
        ok(&mut client, doc! {"create": "c", "defaultTtl": -1});
        if index {
            ok(
                &mut client,
                doc! {"createIndexes": "c", "indexes": [{"key": {"pad": 1, "_id": 1}, "name": "pad"}]},
            );
        }
        fill(&mut client, documents, living, all);
    }
    let full = server.resident();
    ok(&mut client, doc! {"timeTravel": 1, "advanceSeconds": 61});
    // Waits for two minutes at most, because the allocator returns memory to the system with a delay.
    let begin = monotonic();
    let small = loop {
        let (now, bound) = (server.resident(), fresh.resident() * 13 / 10 + (16 << 20));
        if now <= bound || begin.elapsed() > Duration::from_secs(120) {
            break (now, bound);
        }
        thread::sleep(Duration::from_millis(500));
    };
    println!(
        "{documents} documents: full {full}, after {:?} {} of at most {}",
        begin.elapsed(),
        small.0,
        small.1
    );
    assert!(
        small.0 <= small.1,
        "{} bytes are left of {full}, {} would be fine",
        small.0,
        small.1
    );
    let expected = (0..documents).filter(|&id| living(id)).count() as i64;
    let counted = ok(&mut client, doc! {"count": "c"});
    assert_eq!(counted.get("n").and_then(int), Some(expected));
}

#[test]
#[ignore = "a minute: run by name, in a release build"]
fn memory_is_freed_when_nearly_all_documents_expire() {
    memory_after(|id| id % 1_000 == 0, false);
}

#[test]
#[ignore = "a minute: run by name, in a release build"]
fn memory_is_freed_when_a_random_tenth_survives() {
    memory_after(
        |id| (id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0xff < 26,
        false,
    );
    memory_after(
        |id| (id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0xff < 26,
        true,
    );
}
