//! How many transactions there were, and are.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::latency::Histogram;

/// How many transactions there were, and are.
#[derive(Debug, Default)]
pub struct TransactionCounts {
    pub started: AtomicUsize,
    pub committed: AtomicUsize,
    pub aborted: AtomicUsize,
    /// How long those lasted that have ended.
    pub latencies: Mutex<Histogram>,
    /// How often somebody looked for transactions that have lasted too long, and how many that ended.
    pub passes: AtomicUsize,
    pub expired: AtomicUsize,
    /// How many had ended when somebody last looked after what they leave behind.
    looked_at: AtomicUsize,
}

// === impl TransactionCounts ===

impl TransactionCounts {
    /// Returns how many transactions are open.
    pub fn open(&self) -> usize {
        self.started
            .load(Ordering::Relaxed)
            .saturating_sub(self.ended())
    }

    fn ended(&self) -> usize {
        self.committed.load(Ordering::Relaxed) + self.aborted.load(Ordering::Relaxed)
    }

    /// Returns whether a transaction has ended since the last call.
    pub fn has_some_ended(&self) -> bool {
        let ended = self.ended();
        self.looked_at.swap(ended, Ordering::Relaxed) != ended
    }
}
