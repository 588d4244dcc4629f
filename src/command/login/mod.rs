//! Logs users in and out: `saslStart`, `saslContinue`, `authenticate`, `logout`, `connectionStatus`, and the log-in that a
//! driver begins within its first hello.
//!
//! [`sasl`] carries the messages of a conversation between the client and `auth`. A successful conversation logs the user in
//! on this connection. This room knows no passwords and no rights; those are in `auth`.

mod sasl;
mod status;

pub(super) use sasl::{AUTHENTICATE, CONTINUE, START, put_mechanisms, speculate};
pub(super) use status::{CONNECTION_STATUS, LOGOUT};
