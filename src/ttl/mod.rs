//! When a document ends: the rule and its settings.
//!
//! [`rule`] is the matrix: the collection's default, the document's `ttl` and the time of its last write give one instant.
//! A TTL index on dates gives another ([`date_end`]). The earliest instant counts. [`settings`] parses what clients can
//! set. This module knows neither storage nor commands; everything that shows documents applies the same rule.

mod date_rule;
mod indexing_policy;
mod rule;
mod settings;

pub use crate::value::TS_FIELD;
pub use date_rule::date_end;
pub use indexing_policy::parse_indexing_policy;
pub use rule::{DefaultTtl, End, OwnTtl};
pub use settings::{
    Expiry, IndexingMode, TS_INDEX, TsIndex, check_mode, is_ts_key, names_ts, parse_default,
};
