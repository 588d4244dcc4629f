//! What holds for one collection: when its documents end.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use super::KnownWrites;
use super::settings::WriteGate;
use crate::ttl::DefaultTtl;
use crate::value::{DocBuf, Millis};

/// The hidden root field that holds the moment of the last write, as a date. Clients never see it and may not name it.
pub const HIDDEN_FIELD: &str = "_sundown";

/// The rules of one collection. Immutable: a change makes new rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionRules {
    /// The collection has, or once had, a DefaultTTL: its documents carry the hidden fields, and every write renews them.
    pub stamped: bool,
    /// The writes also store `_ts`, in seconds. A cluster that keeps `_ts` itself (Sundown) does not need it.
    pub stores_ts: bool,
    pub default: DefaultTtl,
    /// Documents without a stamp count as written at this moment: when the default was switched on.
    pub since: Millis,
    /// MongoDB's own TTL indexes on dates.
    pub dates: Vec<DateRule>,
    /// Rules that were in force until a moment ago, while the documents that ended under them are being deleted.
    pub former: Option<Box<Former>>,
    /// Rules that were in force within the last hour. What ended under them is deleted, but a cursor may have read it before.
    pub past: Vec<Former>,
    /// The collection may have a unique index besides the one on `_id`.
    pub unique_keys: bool,
    /// The collection is capped: an insert may remove the oldest documents.
    pub capped: bool,
    /// The name of the index on `_ts` in whose form clients see the default, if the cluster has none of that name.
    pub ts_index: Option<Box<str>>,
    /// The name is that of a view that reads a collection with rules.
    pub view: Option<Arc<RuledView>>,
    pub guesses: GuessTally,
    /// What is known of the last writes to its documents. `None` if the cluster is one in which no update may go without
    /// predicate: it does not refuse to apply `$pullAll` to a value that is no array.
    pub writes: Option<KnownWrites>,
    pub gate: WriteGate,
}

/// How well it was guessed that a document inherits the default: a wrong guess costs what two right ones save. It begins
/// anew with the rules, which are made again every few seconds.
#[derive(Debug)]
pub struct GuessTally(AtomicI32);

/// A view that reads a collection with rules: directly, through views that it is based on, or in its
/// stages.
#[derive(Debug, PartialEq, Eq)]
pub struct RuledView {
    /// What it is based on, in its database: a collection, or a view that reads no rules. Views with rules are resolved.
    pub base: Box<str>,
    /// The stages, as an array.
    pub stages: DocBuf,
    /// `None` if strings are compared byte by byte.
    pub collation: Option<DocBuf>,
}

/// Rules that no longer hold, but whose ended documents still exist. They must not come back, so a document that had ended
/// under these rules stays ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Former {
    /// Has no former rules of its own.
    pub rules: CollectionRules,
    /// The last moment at which these rules ended a document. See [`CollectionRules::former_at`].
    pub until: Millis,
}

/// A TTL index on dates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DateRule {
    pub path: String,
    pub seconds: i32,
    /// The `partialFilterExpression` of the index: only documents that match it end by the rule.
    pub filter: Option<DocBuf>,
}

// === impl CollectionRules ===

impl CollectionRules {
    /// The rules of a collection whose documents never end and that Sundown has not touched.
    #[allow(clippy::declare_interior_mutable_const)] // each use begins a tally of its own
    pub const NONE: Self = Self {
        stamped: false,
        stores_ts: false,
        default: DefaultTtl::Off,
        since: Millis(0),
        dates: Vec::new(),
        former: None,
        past: Vec::new(),
        unique_keys: true,
        capped: false,
        ts_index: None,
        view: None,
        guesses: GuessTally::new(),
        writes: None,
        gate: WriteGate::NONE,
    };

    /// Returns whether commands on the collection pass as they are.
    pub fn is_none(&self) -> bool {
        !self.stamped && self.dates.is_empty() && self.former.is_none() && self.view.is_none()
    }

    /// Returns whether a document may end.
    pub fn can_end(&self) -> bool {
        self.default != DefaultTtl::Off || !self.dates.is_empty() || self.former.is_some()
    }

    /// Returns the former rules and the moment at which to apply them: a document has ended if it has ended under these
    /// rules at `now`, or under the former rules at that moment.
    pub fn former_at(&self, now: Millis) -> Option<(&Self, Millis)> {
        let former = self.former.as_deref()?;
        Some((&former.rules, now.min(former.until)))
    }
}

// === impl GuessTally ===

impl GuessTally {
    /// A few wrong guesses in a row use it up.
    const MOST: i32 = 8;

    const fn new() -> Self {
        Self(AtomicI32::new(Self::MOST))
    }

    /// Returns whether the next guess is worth it.
    pub fn is_trusted(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    pub fn right(&self) {
        if self.0.load(Ordering::Relaxed) < Self::MOST {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The document was there, and does not inherit the default.
    pub fn wrong(&self) {
        self.0.fetch_sub(2, Ordering::Relaxed);
    }
}

/// Other rules begin anew.
impl Clone for GuessTally {
    fn clone(&self) -> Self {
        Self::new()
    }
}

/// It is no part of what the rules say.
impl PartialEq for GuessTally {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for GuessTally {}
