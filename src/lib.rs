//! Sundown: a MongoDB-compatible server whose documents end exactly on time.
//!
//! (The life of a request is told here once the rooms stand.)

pub mod clock;
pub mod command;
pub mod config;
mod embed;
pub mod engine;
pub mod error;
pub mod handler;
pub mod healthcheck;
pub mod query;
pub mod server;
pub mod session;
pub mod storage;
pub mod value;
pub mod wire;

pub use embed::{Sundown, handler};
