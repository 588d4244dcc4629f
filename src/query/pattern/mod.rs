//! Regular expressions: PCRE2, as mongod has it. Filters (`$regex`, `$in`, `$jsonSchema`) and expressions (`$regexFind`) share it.
//!
//! - **Compiled** ([`compile`]): a [`Pattern`] checks its source and flags in mongod's words. Each thread keeps some compiled
//!   patterns, because the same query tends to come again.
//! - **Bounded in memory** ([`quota`]): every compiled pattern holds a `PatternQuota`. Forty bytes of source can compile to as many
//!   kilobytes, so the total is limited, and only the first thousand or so become machine code.
//! - **Searched** ([`search`]): one PCRE2 call cannot be interrupted from outside. Its cost is predicted from the pattern ([`cost`]).
//!   A search that is predicted to be cheap runs plainly; a short text gets a trial with few steps.
//! - **Interrupted**: every other search runs a second compilation of the pattern that calls back before each of its items. The
//!   callback counts work, lets other tasks run, and ends the search with its command. The answer is the same.
//! - **Limited in steps**: a search that reaches PCRE2's limits gives a [`SearchError`]. A filter takes it as no match, an
//!   expression reports it, as in mongod.
//!
//! [`pcre`] holds everything unsafe. [`prefix`] finds the literal prefix that lets the planner use an index. This room knows
//! nothing of filters and expressions.

mod compile;
mod cost;
mod pcre;
mod prefix;
mod quota;
mod search;

pub use compile::Pattern;
pub(crate) use pcre::Captures;
pub(crate) use search::SearchError;
