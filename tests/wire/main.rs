//! Raw bytes over TCP, good and hostile, against a server in process. The handler here is the test's own, so that what
//! fails is the wire or the server.

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
