//! Whether a connection may be ended now, agreed between its task and the server that shuts down.

use std::sync::atomic::{AtomicU8, Ordering};

const WAITING: u8 = 0;
const WORKING: u8 = 1;
const CLOSING: u8 = 2;

/// Two uncontended atomics per batch of requests: cheaper than a shutdown signal that every read would have to watch too.
#[derive(Debug)]
pub(super) struct ConnectionPhase(AtomicU8);

// === impl ConnectionPhase ===

impl ConnectionPhase {
    /// A connection begins at work; its first wait ends that.
    pub(super) fn new() -> Self {
        Self(AtomicU8::new(WORKING))
    }

    /// Before waiting for a request. False: the server is closing, so end.
    pub(super) fn wait(&self) -> bool {
        self.turn(WORKING, WAITING)
    }

    /// Before running what has arrived. False: the server is closing and must not be kept waiting.
    pub(super) fn work(&self) -> bool {
        self.turn(WAITING, WORKING)
    }

    /// The server closes. True: nothing is running, and nothing will begin any more.
    pub(super) fn close(&self) -> bool {
        self.0.swap(CLOSING, Ordering::AcqRel) == WAITING
    }

    fn turn(&self, from: u8, to: u8) -> bool {
        self.0
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_waits_for_work_and_lets_none_begin() {
        let idle = ConnectionPhase::new();
        assert!(idle.wait());
        assert!(idle.close());
        assert!(!idle.work());

        let busy = ConnectionPhase::new();
        assert!(busy.wait() && busy.work());
        assert!(!busy.close());
        assert!(!busy.wait());
    }
}
