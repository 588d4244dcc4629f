//! How long a step may take.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::clock;
use crate::query::stage::Slice;

/// Half a millisecond: short enough that others hardly notice, long enough that yielding costs nothing.
pub const STEP: Duration = Duration::from_micros(500);

/// A step's time, by the monotonic clock (time travel does not touch it). It begins with the first question, so that what is
/// done before anybody asks costs no look at the clock.
#[derive(Default)]
pub struct TimeSlice {
    until: Cell<Option<Instant>>,
}

// === impl TimeSlice ===

impl TimeSlice {
    pub fn begin() -> Self {
        Self::default()
    }

    /// The moment at which it is over.
    pub fn until(&self) -> Instant {
        self.until.get().unwrap_or_else(|| {
            let until = clock::monotonic() + STEP;
            self.until.set(Some(until));
            until
        })
    }
}

impl Slice for TimeSlice {
    fn is_over(&self) -> bool {
        match self.until.get() {
            Some(until) => clock::monotonic() >= until,
            None => {
                self.until();
                false
            }
        }
    }
}
