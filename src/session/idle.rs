//! Idling, counted in minutes that somebody else announces.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The minute that the server is in. Using a session or a cursor notes it (a load, and seldom a store); the sweep, once a
/// minute, compares. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Idle(Arc<AtomicU32>);

// === impl Idle ===

impl Idle {
    /// Another minute has passed.
    pub fn tick(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    pub fn minute(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Notes a use in `used`.
    #[inline]
    pub fn touch(&self, used: &AtomicU32) {
        let minute = self.minute();
        // Written once a minute, so that the line stays shared between cores for the rest of it.
        if used.load(Ordering::Relaxed) != minute {
            used.store(minute, Ordering::Relaxed);
        }
    }

    /// Whether `used` lies more than `minutes` back.
    pub fn is_over(&self, used: &AtomicU32, minutes: u32) -> bool {
        self.minute().wrapping_sub(used.load(Ordering::Relaxed)) > minutes
    }
}
