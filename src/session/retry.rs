//! A retryable write: which of its statements have run, and what came of them.
//!
//! A session remembers the outcomes of its latest transaction number only, as MongoDB does: a driver repeats a write at most until
//! it starts the next one. A failed statement is not remembered, since it changed nothing: a repeat runs it again.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Session;
use crate::value::Value;

/// A session that one command has to itself, and the statements of its transaction number. Dropping it gives the
/// session back.
pub struct Retry {
    session: Arc<Session>,
    pub(super) done: Done,
    number: i64,
}

/// What a statement did, as far as a repeat has to answer the same.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Inserted,
    Deleted {
        n: u64,
    },
    Updated {
        n: u64,
        modified: u64,
        upserted: Option<Box<Value>>,
    },
    /// The whole reply (findAndModify): a document without its `ok`.
    Reply(Arc<[u8]>),
}

/// The statements that have run: runs of neighbours with the same outcome, so that a large insert takes one entry.
pub(super) type Done = SmallVec<[Run; 1]>;

#[derive(Debug, Clone)]
pub(super) struct Run {
    first: i32,
    count: i32,
    outcome: Outcome,
}

// === impl Retry ===

impl Retry {
    pub(super) fn new(session: Arc<Session>, number: i64, done: Done) -> Self {
        Self {
            session,
            done,
            number,
        }
    }

    pub fn number(&self) -> i64 {
        self.number
    }

    /// What came of that statement when it ran before.
    #[inline]
    pub fn outcome(&self, statement: i32) -> Option<&Outcome> {
        if self.done.is_empty() {
            return None;
        }
        self.done
            .iter()
            .find(|run| statement >= run.first && statement - run.first < run.count)
            .map(|run| &run.outcome)
    }

    /// Notes that the statement has run. Call it in the same breath as the write.
    #[inline]
    pub fn record(&mut self, statement: i32, outcome: Outcome) {
        if let Some(last) = self.done.last_mut()
            && last.first.checked_add(last.count) == Some(statement)
            && last.outcome == outcome
        {
            last.count += 1;
            return;
        }
        self.done.push(Run {
            first: statement,
            count: 1,
            outcome,
        });
    }
}

impl Drop for Retry {
    fn drop(&mut self) {
        self.session
            .give_back(self.number, std::mem::take(&mut self.done));
    }
}
