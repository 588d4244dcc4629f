//! Tests of commands together: who may run which, and every way to set DefaultTTL.

mod default_ttl;
mod rights;
pub(in crate::command) mod server;
