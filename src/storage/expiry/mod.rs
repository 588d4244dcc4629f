//! How a collection keeps the ends of its documents, and frees what has ended.
//!
//! [`crate::ttl`] says when a document ends; visibility is a comparison with that moment, made when a document is used.
//! [`bounds`] say from when on something in a segment may have ended, so that whoever looks for ended documents skips the
//! rest. [`dates`] changes the rules of TTL indexes on dates without holding anybody up, [`date_ends`] is the column of
//! ends that it works on. [`reap`] frees what has ended, in slices, and [`reaper`] is the task that has it done; neither
//! decides who is visible. [`rewind`] follows a clock that a test sets back.

mod bounds;
pub(super) mod date_ends;
pub(super) mod dates;
mod reap;
mod reaper;
mod rewind;

pub use bounds::Bounds;
pub use dates::{DateRuleChange, DateRuleMigration};
pub(super) use reap::Drained;
pub use reap::Slice;
pub use reaper::{Reaper, ReaperStats};
pub(super) use rewind::Horizon;
