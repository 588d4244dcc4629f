//! What expiry promises, over the wire: the matrix and every rule of the README, as tables. Time is moved and never waited for.

#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod commands;
mod cursors;
mod dates;
mod default_ttl;
mod finality;
mod instants;
mod matrix;
mod statistics;
mod ts_field;
mod ts_renewal;
