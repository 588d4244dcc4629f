//! The length of a step.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::clock;
use crate::query::stage::StepBudget;

/// The length of a step: short enough that other tasks hardly notice, long enough that yielding costs nothing.
pub const STEP: Duration = Duration::from_micros(500);

/// The time of one step, by the monotonic clock (time travel does not affect it). It begins with the first call of
/// [`TimeSlice::until`] or `is_over`, so a step that finishes before that does not read the clock.
#[derive(Default)]
pub struct TimeSlice {
    until: Cell<Option<Instant>>,
}

// === impl TimeSlice ===

impl TimeSlice {
    pub fn begin() -> Self {
        Self::default()
    }

    /// Returns the instant at which the slice is over.
    pub fn until(&self) -> Instant {
        self.until.get().unwrap_or_else(|| {
            let until = clock::monotonic() + STEP;
            self.until.set(Some(until));
            until
        })
    }
}

impl StepBudget for TimeSlice {
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
