//! Sundown: a MongoDB-compatible server whose documents end exactly on time.
//!
//! (The life of a request is told here once the rooms stand.)

pub mod clock;
pub mod config;
pub mod error;
pub mod handler;
pub mod query;
pub mod value;
pub mod wire;
