//! Encryption, on the same port as plain connections.
//!
//! [`Acceptor`] looks at the first bytes of a connection and shakes hands with those that ask for TLS (1.2 or 1.3). `identity` reads
//! the certificate that it shows, or has one made by `authority`, which is kept in a directory so that clients can be told
//! once whom to trust.

mod acceptor;
mod authority;
mod identity;

pub use acceptor::{Acceptor, Greeting};

pub(super) use acceptor::Accepted;
