//! When a document ends: the rule and its settings, and nothing else.
//!
//! [`rule`] is the matrix: collection default, document ttl and last write give one instant. A TTL index on dates gives
//! another ([`date_end`]), and the earliest counts. [`settings`] is what clients may set and how it shows. This room knows
//! neither storage nor commands: whatever answers for documents applies the same rule.

mod date_rule;
mod rule;
mod settings;

pub use crate::value::TS_FIELD;
pub use date_rule::date_end;
pub use rule::{DefaultTtl, End, OwnTtl};
pub use settings::{
    Expiry, IndexingMode, TS_INDEX, TsIndex, check_mode, is_ts_key, names_ts, parse_default,
};
