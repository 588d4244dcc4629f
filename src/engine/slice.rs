//! How long a step may take.

use std::time::{Duration, Instant};

use crate::clock;
use crate::query::stage::Slice;

/// Half a millisecond: short enough that others hardly notice, long enough that yielding costs nothing.
pub const STEP: Duration = Duration::from_micros(500);

/// A step's time, by the monotonic clock (time travel does not touch it).
pub struct TimeSlice {
    until: Instant,
}

// === impl TimeSlice ===

impl TimeSlice {
    pub fn begin() -> Self {
        Self {
            until: clock::monotonic() + STEP,
        }
    }

    pub fn until(&self) -> Instant {
        self.until
    }
}

impl Slice for TimeSlice {
    fn is_over(&self) -> bool {
        clock::monotonic() >= self.until
    }
}
