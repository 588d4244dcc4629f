//! The official driver as an ordinary user. Apart from moving the clock, nothing here depends on Sundown.

#![allow(clippy::unwrap_used)]

#[path = "../support/raw.rs"]
mod raw;
mod server;

mod collections;
mod documents;
mod expiry;
mod sessions;
mod tailing;
