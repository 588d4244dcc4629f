//! The agreement between a connection's task and a server that shuts down: whether the connection may be closed now.

use std::sync::atomic::{AtomicU8, Ordering};

const WAITING: u8 = 0;
const WORKING: u8 = 1;
const CLOSING: u8 = 2;

/// The phase of a connection: waiting for a request, working, or closing.
///
/// It costs two uncontended atomic operations per batch of requests. That is cheaper than a shutdown signal that every read
/// would have to watch as well.
#[derive(Debug)]
pub(super) struct ConnectionPhase(AtomicU8);

// === impl ConnectionPhase ===

impl ConnectionPhase {
    /// Starts in the working phase, which the first wait ends.
    pub(super) fn new() -> Self {
        Self(AtomicU8::new(WORKING))
    }

    /// Enters the waiting phase. Returns false if the server is closing: the connection must end.
    pub(super) fn wait(&self) -> bool {
        self.turn(WORKING, WAITING)
    }

    /// Enters the working phase. Returns false if the server is closing: the connection must not start what has arrived.
    pub(super) fn work(&self) -> bool {
        self.turn(WAITING, WORKING)
    }

    /// Closes the connection on behalf of the server. Returns true if nothing is running; then nothing can start any more.
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
    fn closing_waits_for_running_work_and_starts_no_new_work() {
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
