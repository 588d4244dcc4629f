//! The official driver as an ordinary user: nothing here knows that it is not talking to MongoDB, except where time is moved.

#![allow(clippy::unwrap_used)]

#[path = "../support/raw.rs"]
mod raw;
mod server;

mod collections;
mod documents;
mod expiry;
mod sessions;
mod tailing;
