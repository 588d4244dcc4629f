//! Encrypted and plain connections on one port, certificates made and given, clients' own, and new ones while the server runs.

#![allow(clippy::unwrap_used)] // a panic says where

#[path = "../support/raw.rs"]
mod raw;

mod clients;
mod settings;

mod certificates;
mod connections;
