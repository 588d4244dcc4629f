//! A moment in time, and the field that shows the time of a document's last write.

/// A moment, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub i64);

/// A moment of logical time: seconds since 1970 in the upper half, a counter within the second in the lower half. Clients
/// see it as a BSON timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ClusterTime(pub u64);

/// The root field that shows the time of the last write, in whole seconds. Clients cannot set it.
pub const TS_FIELD: &str = "_ts";

// === impl Millis ===

impl Millis {
    /// Returns whole seconds since 1970, as clients see `_ts`.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }
}

// === impl ClusterTime ===

impl ClusterTime {
    /// Returns the first moment of a second.
    pub fn first_of(now: Millis) -> Self {
        let seconds = now.seconds().clamp(0, i64::from(u32::MAX));
        Self::from_parts(seconds as u32, 1)
    }

    pub fn from_parts(seconds: u32, increment: u32) -> Self {
        Self(u64::from(seconds) << 32 | u64::from(increment))
    }

    /// Returns the seconds and the counter within the second.
    pub fn parts(self) -> (u32, u32) {
        ((self.0 >> 32) as u32, self.0 as u32)
    }
}
