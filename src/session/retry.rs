//! A retryable write: which of its statements have run, and what came of them.
//!
//! A session remembers the outcomes of its latest transaction number only, as MongoDB does: a driver repeats a write at
//! most until it starts the next one. A failed statement is not remembered, since it changed nothing: a repeat runs it
//! again.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Session;
use crate::value::{DocBuf, Value};

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
    Reply(Arc<DocBuf>),
}

/// The statements that have run, by their numbers: runs of neighbours with the same outcome, so that a large insert takes one
/// entry, and in order, so that a hundred thousand upserts are found in no time.
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

    /// What came of that statement when it ran before.
    #[inline]
    pub fn outcome(&self, statement: i32) -> Option<&Outcome> {
        if self.done.is_empty() {
            return None;
        }
        let run = self.done.get(self.behind(statement).checked_sub(1)?)?;
        run.has(statement).then_some(&run.outcome)
    }

    /// The place behind the last run that begins at or before the statement.
    fn behind(&self, statement: i32) -> usize {
        self.done.partition_point(|run| run.first <= statement)
    }

    /// Notes that the statement has run. Call it in the same breath as the write.
    #[inline]
    pub fn record(&mut self, statement: i32, outcome: Outcome) {
        let at = self.behind(statement);
        if let Some(before) = at.checked_sub(1).and_then(|at| self.done.get_mut(at))
            && before.first.checked_add(before.count) == Some(statement)
            && before.outcome == outcome
        {
            before.count += 1;
            return;
        }
        let run = Run {
            first: statement,
            count: 1,
            outcome,
        };
        self.done.insert(at, run);
    }
}

// === impl Outcome ===

impl Outcome {
    /// Bytes that it takes besides its entry.
    fn weight(&self) -> usize {
        match self {
            Self::Reply(reply) => reply.bytes().len(),
            Self::Updated {
                upserted: Some(id), ..
            } => size_of::<Value>() + id.as_ref().as_ref().data().len(),
            _ => 0,
        }
    }
}

/// Bytes that the outcomes take besides their session.
pub(super) fn weight(done: &Done) -> usize {
    let entries = if done.spilled() {
        done.capacity() * size_of::<Run>()
    } else {
        0
    };
    entries + done.iter().map(|run| run.outcome.weight()).sum::<usize>()
}

// === impl Run ===

impl Run {
    fn has(&self, statement: i32) -> bool {
        // The numbers are the client's: the distance of two may not fit.
        statement
            .checked_sub(self.first)
            .is_some_and(|distance| (0..self.count).contains(&distance))
    }
}

impl Drop for Retry {
    fn drop(&mut self) {
        self.session
            .give_back(self.number, std::mem::take(&mut self.done));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Idle, SessionId, Sessions};
    use super::*;

    #[test]
    fn statements_are_found_whatever_their_numbers_and_their_order() {
        let sessions = Sessions::new(Idle::default());
        let id = SessionId::new([1; 16]);
        let session = sessions.get(&id, &mut None).unwrap();
        let mut retry = session.check_out(1).unwrap().unwrap();
        for statement in [7, 5, 6, i32::MIN, i32::MAX, 8] {
            assert_eq!(retry.outcome(statement), None, "{statement}");
            retry.record(statement, Outcome::Deleted { n: 1 });
        }
        retry.record(9, Outcome::Inserted);
        for statement in [5, 6, 7, 8, i32::MIN, i32::MAX] {
            let expected = Some(&Outcome::Deleted { n: 1 });
            assert_eq!(retry.outcome(statement), expected, "{statement}");
        }
        assert_eq!(retry.outcome(9), Some(&Outcome::Inserted));
        for statement in [4, 10, 0, i32::MIN + 1, i32::MAX - 1] {
            assert_eq!(retry.outcome(statement), None, "{statement}");
        }
    }
}
