//! What a read sees.

use crate::value::Millis;

/// The point from which a command reads: every document that it gets has passed the rule of TTL at this `now`.
///
/// Nothing reads past its read point. A transaction adds its snapshot and its own writes here, so that no reader between a
/// command and [`super::Collection::read`] has to know of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadPoint {
    now: Millis,
}

// === impl ReadPoint ===

impl ReadPoint {
    /// What is there at `now`, outside any transaction. A command makes one when it begins (`Call::read_point`), and whatever
    /// it reads goes by that one. Made anew from a moment, it would lose a snapshot: only who looks at the collection itself,
    /// not at what a client may see of it, does that ([`super::Collection::read_present`]).
    pub const fn at(now: Millis) -> Self {
        Self { now }
    }

    /// The same at another moment: for a getMore, which goes on with the reads of an earlier command, and for a command that
    /// has waited.
    #[must_use]
    pub const fn moved_to(mut self, now: Millis) -> Self {
        self.now = now;
        self
    }

    pub const fn now(self) -> Millis {
        self.now
    }
}
