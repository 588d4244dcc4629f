//! Encrypted and plain connections on one port, generated and given certificates, client certificates, and reloading.

#![allow(clippy::unwrap_used)] // a panic says where

#[path = "../support/raw.rs"]
mod raw;

mod clients;
mod settings;

mod certificates;
mod connections;
