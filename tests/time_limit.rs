//! `maxTimeMS` stops the work itself: every command that can run long ends with MaxTimeMSExpired soon after its deadline.

#![allow(clippy::unwrap_used)] // a panic says where

use std::time::Duration;

use bson::{Document, doc};
use sundown::clock::monotonic;

mod support;

use support::client::Client;
use support::world::{Reaper, World};

const MAX_TIME_MS_EXPIRED: i32 = 50;

/// Returns a filter that takes a while for each document and matches none.
fn slow() -> Document {
    let sum = doc! {"$reduce": {
        "input": {"$range": [0, 50_000]},
        "initialValue": "$_id",
        "in": {"$add": ["$$value", "$$this"]},
    }};
    doc! {"$expr": {"$eq": [sum, -1]}}
}

#[test]
fn every_command_ends_at_its_time_limit() {
    let world = World::new(Reaper::Off);
    let mut client = Client::connect(world.server.local_addr()).unwrap();
    let mut run = |command: Document| client.command("test", command).unwrap();
    for part in 0..4 {
        let documents: Vec<Document> = (0..500)
            .map(|n| doc! {"_id": part * 500 + n, "a": n % 7})
            .collect();
        run(doc! {"insert": "t", "documents": documents});
    }
    let update = doc! {"q": slow(), "u": {"$set": {"x": 1}}, "multi": true};
    let commands = [
        doc! {"find": "t", "filter": slow()},
        doc! {"find": "t", "filter": slow(), "sort": {"a": 1}},
        doc! {"count": "t", "query": slow()},
        doc! {"distinct": "t", "key": "a", "query": slow()},
        doc! {"aggregate": "t", "pipeline": [{"$match": slow()}], "cursor": {}},
        doc! {"aggregate": "t", "pipeline": [{"$group": {"_id": slow()["$expr"].clone()}}], "cursor": {}},
        doc! {"update": "t", "updates": [update]},
        doc! {"delete": "t", "deletes": [{"q": slow(), "limit": 0}]},
        doc! {"findAndModify": "t", "query": slow(), "remove": true},
        doc! {"explain": {"find": "t", "filter": slow()}, "verbosity": "executionStats"},
    ];
    for mut command in commands {
        command.insert("maxTimeMS", 20);
        let began = monotonic();
        let reply = run(command.clone());
        assert_eq!(
            reply.get_i32("code").ok(),
            Some(MAX_TIME_MS_EXPIRED),
            "{command}: {reply}"
        );
        // Only a command that ignores its limit takes this long.
        assert!(monotonic() - began < Duration::from_secs(120), "{command}");
    }
    let mut admin = Client::connect(world.server.local_addr()).unwrap();
    let bulk = doc! {
        "bulkWrite": 1,
        "nsInfo": [{"ns": "test.t"}],
        "ops": [{"update": 0, "filter": slow(), "updateMods": {"$set": {"x": 1}}, "multi": true}],
        "maxTimeMS": 20,
    };
    let reply = admin.command("admin", bulk).unwrap();
    assert_eq!(
        reply.get_i32("code").ok(),
        Some(MAX_TIME_MS_EXPIRED),
        "{reply}"
    );
    assert_eq!(run(doc! {"count": "t"}).get_i32("n").unwrap(), 2_000);
}

#[test]
fn the_limit_of_a_find_covers_its_get_mores() {
    let world = World::new(Reaper::Off);
    let mut client = Client::connect(world.server.local_addr()).unwrap();
    let mut run = |command: Document| client.command("test", command).unwrap();
    let documents: Vec<Document> = (0..2_000).map(|n| doc! {"_id": n}).collect();
    run(doc! {"insert": "t", "documents": documents});
    // The next document takes longer than any limit in this test.
    let endless = doc! {"$eq": [{"$max": {"$map": {"input": {"$range": [0, 200_000]}, "in": slow()["$expr"].clone()}}}, -1]};
    // On a busy machine the first batch may take longer than a short limit allows.
    let mut limits = std::iter::successors(Some(40), |limit| Some(limit * 2));
    let found = loop {
        let limit = limits.next().filter(|limit| *limit < 120_000);
        let found = run(doc! {
            "find": "t",
            "filter": {"$or": [{"_id": {"$lt": 2}}, {"$expr": &endless}]},
            "batchSize": 2,
            "maxTimeMS": limit.expect("a first batch in two minutes"),
        });
        if found.get_i32("code").ok() != Some(MAX_TIME_MS_EXPIRED) {
            break found;
        }
    };
    let id = found.get_document("cursor").unwrap().get_i64("id").unwrap();
    assert_ne!(id, 0, "{found}");
    let more = doc! {"getMore": id, "collection": "t"};
    let reply = run(more.clone());
    assert_eq!(
        reply.get_i32("code").ok(),
        Some(MAX_TIME_MS_EXPIRED),
        "{reply}"
    );
    // A cursor that exceeded its time limit is closed.
    assert_eq!(run(more).get_i32("code").ok(), Some(43));
}
