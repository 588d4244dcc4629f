//! Bytes and messages: no sockets, no commands.

mod request;

pub use request::{Request, Sequence};
