//! Answers requests by asking an existing cluster, under the rules of TTL.md.
//!
//! `README.md` in this folder describes the whole. In short: the control plane is the `mongodb` driver; the data plane
//! forwards the bytes that clients send, except for the few fields that the rules change.

mod ask;
pub mod rewrite;
mod rules;

pub use ask::{Ask, Lost};
pub use rules::{DateRule, HIDDEN_FIELD, Rules};
