//! Raw bytes over TCP, valid and hostile, against a server in this process. The handler belongs to the test, so a failure
//! is a failure of the wire or the server.

#![allow(clippy::unwrap_used)] // a panic says where

#[path = "../support/dice.rs"]
mod dice;
#[path = "../support/raw.rs"]
mod raw;
mod scripted;

mod compressed;
mod hostile;
mod messages;
mod shutdown;
mod streams;
mod work;
