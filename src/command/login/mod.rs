//! Logging in and out: `saslStart`, `saslContinue`, `authenticate`, `logout`, `connectionStatus`, and the log-in that a
//! driver begins within its first hello.

mod sasl;
mod status;

pub(super) use sasl::{AUTHENTICATE, CONTINUE, START, put_mechanisms, speculate};
pub(super) use status::{CONNECTION_STATUS, LOGOUT};
