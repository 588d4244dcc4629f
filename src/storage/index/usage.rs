//! Counts how often an index is used.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::value::Millis;

/// The number of commands that used an index, counted since a moment. It has a cache line of its own: every reader writes
/// to it, and all readers read the data beside it.
#[derive(Debug)]
#[repr(align(64))]
pub struct IndexUsage {
    commands: AtomicU64,
    pub since: Millis,
}

// === impl IndexUsage ===

impl IndexUsage {
    pub fn since(now: Millis) -> Self {
        Self {
            commands: AtomicU64::new(0),
            since: now,
        }
    }

    #[inline]
    pub fn note(&self) {
        self.commands.fetch_add(1, Ordering::Relaxed);
    }

    pub fn commands(&self) -> u64 {
        self.commands.load(Ordering::Relaxed)
    }
}
