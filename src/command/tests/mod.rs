//! Tests of several commands together: who may run which command, every way to set DefaultTTL, change streams,
//! and transactions.

mod change_streams;
mod default_ttl;
mod expiry_events;
mod oplog;
mod rights;
pub(in crate::command) mod server;
mod transactions;
