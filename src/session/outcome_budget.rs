//! What all sessions together remember of their retryable writes.
//!
//! A session keeps the outcome of its latest write until the next one, and that of a findAndModify is a whole reply: a thousand
//! sessions would keep gigabytes for repeats that hardly ever come. So there is a limit for all of them, and beyond it the oldest
//! outcomes are forgotten. Whoever then repeats such a write is told that its history is incomplete; it is not run twice.
//!
//! Sessions write again and again, mostly with outcomes of about the same size. Those keep their place and look at nothing that is
//! everybody's; that they have written since shows when their turn to be forgotten comes, and they get another one.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::Session;

pub(super) struct OutcomeBudget {
    limit: usize,
    kept: Mutex<StoredOutcomes>,
}

/// The last in the order of locks (`storage/mod.rs`): a session's may be held when this one is taken, never the other way round.
#[derive(Default)]
struct StoredOutcomes {
    bytes: usize,
    next: u64,
    /// In the order in which they came. Each leaves with its [`OutcomeShare`].
    sessions: BTreeMap<u64, Weak<Session>>,
}

/// What one session has among them. Dropped with the outcomes that it stands for.
pub(super) struct OutcomeShare {
    all: Arc<OutcomeBudget>,
    nth: u64,
    bytes: usize,
}

/// Sixteen of the largest replies.
pub(super) const LIMIT: usize = 256 * 1024 * 1024;

/// Outcomes that take no more than about what a session takes itself are not counted: their number is bounded with that of the
/// sessions, and most writes have no others.
const SMALL: usize = 1024;

/// What outcomes of so many bytes count as: nothing, or the next power of two, so that outcomes of about the same size
/// count the same.
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

    /// Lets the oldest go until all others fit. Call it with no session's lock held.
    pub(super) fn fit(&self) {
        // Those who get another turn lose it with the next; those who are just writing keep it.
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

    /// It had its turn, and gets another one behind all others.
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
