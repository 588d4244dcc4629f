//! TLS (1.2 or 1.3), on the same port as plain connections.
//!
//! [`Acceptor`] looks at the first bytes of a connection, and performs the handshake if they start one. `identity` reads
//! the configured certificate, or lets `authority` generate one. The authority can be kept in a directory, so that clients
//! need to trust it only once. This module knows no message: after the handshake the connection serves a stream of bytes.

mod acceptor;
mod authority;
mod identity;

pub use acceptor::{Acceptor, Greeting};

pub(super) use acceptor::Accepted;
