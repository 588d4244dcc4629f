//! Encryption, on the same port as plain connections.
//!
//! [`Door`] looks at the first bytes of a connection and shakes hands with those that ask for TLS (1.2 or 1.3). `identity` reads
//! the certificate that it shows, or has one made by `authority`, which is kept in a directory so that clients can be told
//! once whom to trust.

mod authority;
mod door;
mod identity;

pub use door::{Door, Greeting};

pub(super) use door::Met;
