//! A moment, and the field that shows the moment of a document's last write.

/// Milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub i64);

/// The root field that shows the last write, in whole seconds. Clients do not set it.
pub const TS_FIELD: &str = "_ts";

// === impl Millis ===

impl Millis {
    /// Whole seconds since 1970, as `_ts` is shown to clients.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }
}
