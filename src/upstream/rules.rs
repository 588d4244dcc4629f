//! What holds for one collection: when its documents end.

use crate::ttl::DefaultTtl;
use crate::value::{DocBuf, Millis};

/// The hidden root field that holds the moment of the last write, as a date. Clients never see it and may not name it.
pub const HIDDEN_FIELD: &str = "_sundown";

/// The rules of one collection. Immutable: a change makes new rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The collection has, or once had, a DefaultTTL: its documents carry the hidden fields, and every write renews them.
    pub stamped: bool,
    /// The writes also store `_ts`, in seconds. A cluster that keeps `_ts` itself (Sundown) does not need it.
    pub stores_ts: bool,
    pub default: DefaultTtl,
    /// Documents without a stamp count as written at this moment: when the default was switched on.
    pub since: Millis,
    /// MongoDB's own TTL indexes on dates.
    pub dates: Vec<DateRule>,
}

/// A TTL index on dates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DateRule {
    pub path: String,
    pub seconds: i32,
    /// The `partialFilterExpression` of the index: only documents that match it end by the rule.
    pub filter: Option<DocBuf>,
}

// === impl Rules ===

impl Rules {
    /// The rules of a collection whose documents never end and that Sundown has not touched.
    pub const NONE: Self = Self {
        stamped: false,
        stores_ts: false,
        default: DefaultTtl::Off,
        since: Millis(0),
        dates: Vec::new(),
    };

    /// Returns whether commands on the collection pass as they are.
    pub fn is_none(&self) -> bool {
        !self.stamped && self.dates.is_empty()
    }

    /// Returns whether a document may end.
    pub fn can_end(&self) -> bool {
        self.default != DefaultTtl::Off || !self.dates.is_empty()
    }
}
