//! Sockets: accepting, one task per connection, encryption, limits, draining. Knows no command.
//!
//! A connection's task reads into one buffer, runs every whole message that is in it, inline and in order, appends all
//! replies to another, and writes that once. Work that takes longer is stepped, and in between others get their turn. What a
//! request means is the [`Handler`](crate::handler::Handler)'s business.

mod buffers;
mod connection;
mod drain;
mod inflate_budget;
mod listen;
mod stepping;
mod stream;
mod tls;
mod unread_replies;

pub use listen::Server;
pub use tls::{Acceptor, Greeting};
