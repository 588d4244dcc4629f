//! The ends of the documents of a collection, and the freeing of expired documents.
//!
//! [`crate::ttl`] says when a document ends. Visibility is a comparison with that instant, made whenever a document is
//! used. [`bounds`] tell when a segment may hold expired documents, so that a search for them skips the other segments.
//! [`dates`] changes the rules of TTL indexes on dates without blocking other commands, and [`date_ends`] is the column of
//! ends that it works on. [`reap`] frees expired documents in slices, and [`reaper`] is the task that calls it. Neither
//! decides what is visible. [`events`] says when change streams learn of an end. [`rewind`] follows a clock that a test sets back.

mod bounds;
pub(super) mod date_ends;
pub(super) mod dates;
mod events;
mod reap;
mod reaper;
mod rewind;

pub use bounds::Bounds;
pub use dates::{DateRuleChange, DateRuleMigration};
pub use events::ExpiryEvents;
pub(super) use reap::Drained;
pub use reap::Slice;
pub use reaper::{Reaper, ReaperStats};
pub(super) use rewind::Horizon;
