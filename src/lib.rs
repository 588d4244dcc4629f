//! Sundown: a MongoDB-compatible server whose documents end exactly on time.
//!
//! # The front door
//!
//! A program that wants a server inside itself takes [`Sundown`], [`Config`] and [`Clock`]; `examples/embed.rs` shows it whole.
//! The rest is public so that tests, benchmarks and fuzz targets can reach every room, and promises nothing.
//!
//! # The life of a request
//!
//! It travels downwards through the rooms, and its reply back up. Say it is `find`.
//!
//!  1. [`server`] accepts a connection and gives it a task. If TLS is on, the first bytes say whether hands are shaken first
//!     ([`server::Greeting`]). The task reads bytes into one buffer.
//!  2. [`wire`] cuts a whole message out of the buffer ([`wire::Codec`]) and checks it at the door: length, flags, checksum, and
//!     every document through the validator of [`value`] (lengths, UTF-8, at most 200 deep). What cannot be answered ends the
//!     connection ([`error::Hangup`]); what can be cut out but not understood gets MongoDB's error as its reply. From here
//!     on the bytes are trusted, and nobody copies them.
//!  3. The connection begins the frame of the reply in its output buffer and hands the [`wire::Request`] through the seam, the
//!     trait [`handler::Handler`]. `server` knows no command, the rooms below know no socket.
//!  4. [`command`] looks the first field up in the table [`command::COMMANDS`]. A name that MongoDB has and Sundown has not is
//!     refused by name, any other with MongoDB's "no such command".
//!  5. The generic arguments (`$db`, `lsid`, `maxTimeMS`, concerns, stable API) are sorted from the command's own in one pass and
//!     checked. Where somebody has to log in, the row of the command says what they must be allowed to do, and [`auth`] whether
//!     they are; elsewhere that is one look at a flag. So is each of the detours that a test or a team on Azure asks for: a fail
//!     point that is set, and the budgets and the strictness of [`cosmos`], which also counts what a request costs. A retryable
//!     write checks its [`session`] out first; if it has run before, its stored outcome is the answer.
//!  6. The command gets its `now` from the [`Clock`], once. Everything below takes time as an argument, so all of one command
//!     happens at one instant, and a test turns a day in a microsecond.
//!  7. The command's function parses its own arguments and lets [`query`] turn filter, projection, sort, update or pipeline into
//!     typed trees. All complaints about shapes are made here, in MongoDB's codes and words; the trees then run without
//!     looking at an operator's name.
//!  8. [`engine`] plans: which index, which bounds, which order ([`engine::plan`]), by asking the tree of the filter. It walks the
//!     collection or the index in slices of about half a millisecond ([`engine::STEP`]) and tests each document against the
//!     whole filter, unless the plan says that it yields nothing else. (A command like create or collMod makes a value of [`engine::ddl`] instead, and engine makes that change.)
//!  9. [`storage`] finds the collection in its catalog and lends a look under its lock ([`storage::Collection::read`]) or a change
//!     ([`storage::Collection::write`]). The lock is held for one slice or one document; no guard leaves the room.
//! 10. Every document that storage shows has passed the rule of [`ttl`]: (`_ts`, `ttl`, DefaultTTL, now) say until when it is
//!     visible. There is no second place. A write that meets an ended document under its `_id` or a unique key removes it and
//!     goes on. The reaper only frees memory; it never decides what is seen.
//! 11. Rows flow back as raw bytes, through the pipeline's stages if there are any, into the reply. What does not fit the first
//!     batch waits as a cursor in [`session`]; rows that stand for a stored document pass the rule again when they leave it.
//! 12. A command that is done in one go has written its reply in place. One that takes longer returns work, which the connection
//!     steps. Before each step the kill flag and the deadline are looked at; between two steps others get their turn, and a
//!     client that hung up is noticed. Work that cannot go on says what it waits for ([`wait`]). What cannot be cut into steps steps [`aside`].
//! 13. The frame is closed (lengths, checksum if the question had one). When no whole message is left in the buffer, all replies
//!     are written at once, and the task reads again.
//!
//! An error on the way is an [`error::Error`] with MongoDB's code and becomes the reply `{ok: 0, ...}`. `tests/house.rs` holds true who
//! may import whom.

pub mod aside;
pub mod auth;
pub mod clock;
pub mod command;
pub mod config;
pub mod cosmos;
mod embed;
pub mod engine;
pub mod error;
pub mod handler;
pub mod healthcheck;
pub mod query;
pub mod server;
pub mod session;
pub mod storage;
pub mod ttl;
pub mod value;
pub mod wait;
pub mod wire;

pub use clock::{Clock, Millis};
pub use config::Config;
pub use embed::{Sundown, handler};
