//! Answers requests by asking an existing cluster, under the rules of TTL.md.
//!
//! `README.md` in this folder describes the whole. In short: the control plane is the `mongodb` driver; the data plane
//! forwards the bytes that clients send, except for the few fields that the rules change.

mod ask;
mod cluster;
mod command_rules;
mod dial;
mod last_writes;
mod link;
mod proxy;
mod relay;
mod retry;
pub mod rewrite;
mod rules;
mod ruling;
mod schema;
pub mod settings;
mod statistics;
mod status;
mod watch;

pub use ask::{Ask, Lost, Term};
pub use cluster::Cluster;
pub use last_writes::{KnownWrites, LastWrites};
pub use proxy::Proxy;
pub use rules::{CollectionRules, DateRule, Former, HIDDEN_FIELD, RuledView};
