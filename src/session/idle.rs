//! Idle times, counted in minutes. The caller announces each minute.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The current minute of the server. Each use of a session or a cursor stores it (a load, and seldom a store), and the
/// sweep compares it once a minute. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Idle(Arc<AtomicU32>);

// === impl Idle ===

impl Idle {
    /// Notes that another minute has passed.
    pub fn tick(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    pub fn minute(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Stores the current minute in `used`.
    #[inline]
    pub fn touch(&self, used: &AtomicU32) {
        let minute = self.minute();
        // Written at most once a minute, so that the cache line stays shared between cores for the rest of it.
        if used.load(Ordering::Relaxed) != minute {
            used.store(minute, Ordering::Relaxed);
        }
    }

    /// Returns how many minutes ago `used` was.
    pub fn minutes_since(&self, used: &AtomicU32) -> u32 {
        self.minute().wrapping_sub(used.load(Ordering::Relaxed))
    }

    /// Returns whether `used` is more than `minutes` ago.
    pub fn is_over(&self, used: &AtomicU32, minutes: u32) -> bool {
        self.minutes_since(used) > minutes
    }
}
