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
    /// What is there at `now`.
    pub const fn at(now: Millis) -> Self {
        Self { now }
    }

    pub const fn now(self) -> Millis {
        self.now
    }
}
