//! A moment in time, and the field that shows the time of a document's last write.

/// A moment, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub i64);

/// The root field that shows the time of the last write, in whole seconds. Clients cannot set it.
pub const TS_FIELD: &str = "_ts";

// === impl Millis ===

impl Millis {
    /// Returns whole seconds since 1970, as clients see `_ts`.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }
}
