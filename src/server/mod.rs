//! Sockets: accepting, one task per connection, encryption, limits, shutdown.
//!
//! `listen` accepts a connection and spawns its task. The task (`connection`) reads into one buffer, runs every complete
//! message in it, inline and in order, appends all replies to another buffer, and writes that buffer once. Work
//! that takes longer runs step by step, so that other tasks get their turn in between. `inflate_budget` and
//! `unread_replies` limit the memory that clients can make the server use. This module knows no command: the
//! [`Handler`](crate::handler::Handler) answers the requests.

mod connection;
mod drain;
mod inflate_budget;
mod listen;
mod park;
mod stream;
mod tls;
mod unread_replies;

pub use listen::Server;
pub use park::yield_if_busy;
pub use tls::{Acceptor, Greeting};
