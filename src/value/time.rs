//! A moment.

/// Milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub i64);

// === impl Millis ===

impl Millis {
    /// Whole seconds since 1970, as `_ts` is shown to clients.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }
}
