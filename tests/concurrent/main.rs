//! Many at once: no reply holds a document that has ended, no acknowledged write is lost, counts stay exact, memory stays
//! bounded. What takes minutes is run by name, in a release build: `cargo test --release --test concurrent -- --ignored`.

#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod figures;
mod time_travel;
mod workers;

use bson::Document;
use support::client::Client;
use support::world::{DB, int};

fn ok(client: &mut Client, command: Document) -> Document {
    let shown = command.to_string();
    let reply = client.command(DB, command).unwrap();
    let good = reply.get("ok").and_then(int) == Some(1) && !reply.contains_key("writeErrors");
    assert!(good, "{}\n  {reply}", &shown[..shown.len().min(500)]);
    reply
}
