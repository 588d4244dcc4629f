//! Turns a client's command into what the cluster is asked, and the cluster's reply into what the client sees.
//!
//! [`run`] is the only entry. It looks up the rules of all collections that the command touches ([`namespaces()`]). If none
//! of them has rules, the request passes as it is. Otherwise the command's own file writes the command anew: filters get
//! the [`Predicate`], writes get the [`Stamp`], rows of a reply pass [`Visibility`] once more and lose the hidden fields.
//! This module knows no connection ([`Ask`](super::Ask)), no clock ([`Moment`]) and no place where rules come from
//! ([`Rulebook`]).

mod predicate;
mod rulebook;
mod stamp;
mod visible;

#[cfg(test)]
mod agreement;

pub use predicate::Predicate;
pub use rulebook::{Moment, Rulebook};
pub use stamp::Stamp;
pub use visible::Visibility;
