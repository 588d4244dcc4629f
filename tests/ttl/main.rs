//! The promises of expiry, over the wire: the matrix and every rule of the README, as tables. Tests move the clock and
//! never wait.

#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
pub mod support;

mod commands;
mod cursors;
mod dates;
mod default_ttl;
mod finality;
mod instants;
mod matrix;
mod reuse;
mod statistics;
mod ts_field;
mod ts_renewal;
