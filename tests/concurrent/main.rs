//! Many clients at once: no reply contains an expired document, no acknowledged write is lost, counts stay exact, and
//! memory stays bounded. Tests that take minutes are run in a release build: `cargo test --release --test concurrent --
//! --ignored`.

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
