//! The room as a client sees it.

mod actions;
mod charges;
mod limits;
mod shards;
mod strict;

use bson::{Document, doc};

use crate::command::tests::server::{ask, server};
use crate::command::{Commands, Connection};
use crate::config::{Config, CosmosConfig};

type Server = (Commands, Connection);

fn with(cosmos: CosmosConfig) -> Server {
    server(Config {
        cosmos,
        enable_test_commands: true,
        ..Config::default()
    })
}

fn run(server: &mut Server, mut command: Document) -> Document {
    if !command.contains_key("$db") {
        command.insert("$db", "shop");
    }
    ask(server, command)
}

fn code(server: &mut Server, command: Document) -> Option<i32> {
    run(server, command).get_i32("code").ok()
}

/// Moves the server's clock forward by `millis`.
fn travel(server: &mut Server, millis: i64) {
    let seconds = millis as f64 / 1000.0;
    let travel = doc! {"timeTravel": 1, "advanceSeconds": seconds, "$db": "admin"};
    assert_eq!(code(server, travel), None);
}

/// Returns the failed items of a bulk, each with its index and its code.
fn failed(reply: &Document) -> Vec<(i32, i32)> {
    let errors = match reply.get_array("writeErrors") {
        Ok(errors) => errors.iter().filter_map(|error| error.as_document()),
        Err(_) => return Vec::new(),
    };
    let pair = |error: &Document| {
        (
            error.get_i32("index").unwrap(),
            error.get_i32("code").unwrap(),
        )
    };
    errors.map(pair).collect()
}

/// Returns the documents of a cursor's first batch.
fn batch(reply: &Document) -> Vec<Document> {
    let cursor = reply.get_document("cursor").unwrap();
    let batch = cursor.get_array("firstBatch").unwrap().iter();
    batch
        .map(|doc| doc.as_document().unwrap().clone())
        .collect()
}
