#![doc = include_str!("README.md")]

pub mod args;
pub mod auth;
pub mod clock;
pub mod command;
pub mod config;
pub mod cosmos;
pub mod effort;
mod embed;
pub mod engine;
pub mod error;
pub mod handler;
pub mod healthcheck;
pub mod interrupt;
pub mod latency;
pub mod names;
pub mod query;
pub mod server;
pub mod session;
pub mod storage;
mod trust;
pub mod ttl;
pub mod upstream;
pub mod value;
pub mod vocabulary;
pub mod wait;
pub mod wire;

pub use clock::{Clock, Millis};
pub use config::Config;
pub use embed::{Backend, Sundown};
