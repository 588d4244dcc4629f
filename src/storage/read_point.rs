//! The point in time at which a command reads.

use crate::value::Millis;

/// The point at which a command reads: every document that it gets has passed the TTL rule at this `now`.
///
/// No read goes past its read point. A transaction adds its snapshot and its own writes here, so the code between a command
/// and [`super::Collection::read`] need not know them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadPoint {
    now: Millis,
}

// === impl ReadPoint ===

impl ReadPoint {
    /// Creates the read point at `now`, outside any transaction. A command creates one when it begins (`Call::read_point`)
    /// and uses it for all its reads. Creating another one from a moment would lose the snapshot. Only code that works on
    /// the collection itself, and not on what a client may see, does so ([`super::Collection::read_present`]).
    pub const fn at(now: Millis) -> Self {
        Self { now }
    }

    /// Returns the same read point at another moment: for a getMore, which continues the reads of an earlier command, and
    /// for a command that has waited.
    #[must_use]
    pub const fn moved_to(mut self, now: Millis) -> Self {
        self.now = now;
        self
    }

    pub const fn now(self) -> Millis {
        self.now
    }
}
