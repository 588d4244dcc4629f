//! Tests of several commands together: who may run which command, and every way to set DefaultTTL.

mod default_ttl;
mod rights;
pub(in crate::command) mod server;
