//! Regular expressions with PCRE2, as in mongod. Filters (`$regex`, `$in`, `$jsonSchema`) and expressions (`$regexFind`) share
//! them.
//!
//! - **Compiling** ([`compile`]): a [`Pattern`] checks its source and flags, with mongod's messages. Each thread caches some
//!   compiled patterns, because the same query tends to be repeated.
//! - **Memory** ([`quota`]): every compiled pattern holds a `PatternQuota`. Forty bytes of source can compile to as many
//!   kilobytes, so the total is limited, and only the first thousand or so become machine code.
//! - **Searching** ([`search`]): one PCRE2 call cannot be interrupted from outside. [`cost`] predicts its cost from the
//!   pattern. A search that is predicted to be cheap runs plainly; a short text first gets a trial with few steps.
//! - **Interruption**: every other search uses a second compilation of the pattern, which calls back before each of its items.
//!   The callback counts work, lets other tasks run, and stops the search when its command must end. The answer is the same.
//! - **Step limit**: a search that reaches PCRE2's limits returns a [`SearchError`]. As in mongod, a filter treats it as no
//!   match, and an expression reports it.
//!
//! [`pcre`] contains all the unsafe code. [`prefix`] finds the literal prefix with which the planner can use an index. This
//! module knows nothing about filters and expressions.

mod compile;
mod cost;
mod pcre;
mod prefix;
mod quota;
mod search;

pub use compile::Pattern;
pub(crate) use pcre::Captures;
pub(crate) use search::SearchError;
