//! What all sessions together remember of their retryable writes.
//!
//! A session keeps the outcome of its latest write until the next one, and that of a findAndModify is a whole reply: a thousand
//! sessions would keep gigabytes for repeats that hardly ever come. So there is a limit for all of them, and beyond it the oldest
//! outcomes are forgotten. Whoever then repeats such a write is told that its history is incomplete; it is not run twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::Session;

pub(super) struct Remembered {
    limit: usize,
    kept: Mutex<Kept>,
}

/// A session's lock may be held when this one is taken, never the other way round.
#[derive(Default)]
struct Kept {
    bytes: usize,
    next: u64,
    /// In the order in which they came. Each leaves with its [`Part`].
    sessions: BTreeMap<u64, (Weak<Session>, usize)>,
}

/// What one session has among them. Dropped with the outcomes that it stands for.
pub(super) struct Part {
    all: Arc<Remembered>,
    nth: u64,
}

/// Seventeen of the largest replies.
pub(super) const LIMIT: usize = 256 * 1024 * 1024;

/// Outcomes that take no more than about what a session takes itself are not counted: their number is bounded with that of the
/// sessions, and most writes have no others.
pub(super) const SMALL: usize = 1024;

// === impl Remembered ===

impl Remembered {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            kept: Mutex::default(),
        })
    }

    pub(super) fn add(self: &Arc<Self>, session: &Arc<Session>, bytes: usize) -> Part {
        let mut kept = self.kept.lock();
        let nth = kept.next;
        kept.next += 1;
        kept.bytes += bytes;
        let session = Arc::downgrade(session);
        kept.sessions.insert(nth, (session, bytes));
        Part {
            all: Arc::clone(self),
            nth,
        }
    }

    /// Lets the oldest go until all others fit. Call it with no session's lock held.
    pub(super) fn fit(&self) {
        while let Some((nth, session)) = self.oldest_beyond() {
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
        let (nth, (session, bytes)) = kept.sessions.pop_first()?;
        kept.bytes -= bytes;
        Some((nth, session))
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.kept.lock().bytes
    }
}

// === impl Part ===

impl Part {
    pub(super) fn is(&self, nth: u64) -> bool {
        self.nth == nth
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut kept = self.all.kept.lock();
        if let Some((_, bytes)) = kept.sessions.remove(&self.nth) {
            kept.bytes -= bytes;
        }
    }
}
