//! A memory budget for the outcomes of retryable writes in all sessions.
//!
//! A session keeps the outcome of its latest write until the next one, and the outcome of a findAndModify is a whole reply.
//! A thousand sessions would keep gigabytes for retries that hardly ever come. So there is a limit for all sessions
//! together, and beyond it the oldest outcomes are evicted. A retry of such a write gets the error that its history is
//! incomplete; it does not run twice.
//!
//! Sessions write again and again, mostly with outcomes of about the same size. Such a session keeps its position in the
//! queue and touches no shared state. When its turn to be evicted comes, a flag shows that it has written since, and it
//! moves to the end of the queue.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::Session;

/// The budget, shared by all sessions.
pub(super) struct OutcomeBudget {
    limit: usize,
    kept: Mutex<StoredOutcomes>,
}

/// The queue of outcomes. Its lock is the last in the lock order (`storage/mod.rs`): it may be acquired while a session's
/// lock is held, never the other way round.
#[derive(Default)]
struct StoredOutcomes {
    bytes: usize,
    next: u64,
    /// The sessions in the order of their outcomes. Each entry is removed with its [`OutcomeShare`].
    sessions: BTreeMap<u64, Weak<Session>>,
}

/// The share of one session. It is dropped together with the outcomes.
pub(super) struct OutcomeShare {
    all: Arc<OutcomeBudget>,
    nth: u64,
    bytes: usize,
}

/// Sixteen of the largest replies.
pub(super) const LIMIT: usize = 256 * 1024 * 1024;

/// Outcomes up to about the size of a session are not counted: the number of sessions bounds them, and most writes have no
/// larger ones.
const SMALL: usize = 1024;

/// Returns the size that outcomes of this many bytes count as: none if they are small, otherwise the next power of two, so
/// that outcomes of about the same size count the same.
pub(super) fn counted(bytes: usize) -> Option<usize> {
    (bytes > SMALL).then(|| bytes.next_power_of_two())
}

// === impl OutcomeBudget ===

impl OutcomeBudget {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            kept: Mutex::default(),
        })
    }

    pub(super) fn add(self: &Arc<Self>, session: &Arc<Session>, bytes: usize) -> OutcomeShare {
        let mut kept = self.kept.lock();
        kept.bytes += bytes;
        OutcomeShare {
            all: Arc::clone(self),
            nth: kept.append(session),
            bytes,
        }
    }

    /// Evicts the oldest outcomes until the rest fits. Call it without holding the lock of any session.
    pub(super) fn fit(&self) {
        // A session that is moved to the end once is evicted at its second turn. A session that is checked out is moved
        // every time, so the number of turns is limited.
        let mut turns = 2 * self.kept.lock().sessions.len();
        while turns > 0
            && let Some((nth, session)) = self.oldest_beyond()
        {
            turns -= 1;
            if let Some(session) = session.upgrade() {
                session.forget(nth);
            }
        }
    }

    fn oldest_beyond(&self) -> Option<(u64, Weak<Session>)> {
        let mut kept = self.kept.lock();
        if kept.bytes <= self.limit {
            return None;
        }
        kept.sessions.pop_first()
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.kept.lock().bytes
    }
}

// === impl StoredOutcomes ===

impl StoredOutcomes {
    fn append(&mut self, session: &Arc<Session>) -> u64 {
        let nth = self.next;
        self.next += 1;
        self.sessions.insert(nth, Arc::downgrade(session));
        nth
    }
}

// === impl OutcomeShare ===

impl OutcomeShare {
    pub(super) fn is(&self, nth: u64) -> bool {
        self.nth == nth
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Moves the share to the end of the queue, after its turn has come.
    pub(super) fn renew(&mut self, session: &Arc<Session>) {
        self.nth = self.all.kept.lock().append(session);
    }
}

impl Drop for OutcomeShare {
    fn drop(&mut self) {
        let mut kept = self.all.kept.lock();
        kept.sessions.remove(&self.nth);
        kept.bytes -= self.bytes;
    }
}
