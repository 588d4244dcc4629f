//! A retryable write: which of its statements have run, and their outcomes.
//!
//! A session remembers only the outcomes of its latest transaction number, as MongoDB does: a driver retries a write at
//! most until it starts the next one. A statement that failed or matched nothing is not remembered, because it changed
//! nothing: a retry runs it again.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Session;
use crate::value::{DocBuf, Value};

/// A session that a command has checked out, and the statements of its transaction number. Dropping it returns the session.
pub struct Retry {
    session: Arc<Session>,
    pub(super) done: CompletedStatements,
    number: i64,
}

/// What a statement did, as far as the reply to a retry needs it.
#[derive(Debug, Clone, PartialEq)]
pub enum StatementOutcome {
    Inserted,
    Deleted {
        n: u64,
    },
    Updated {
        n: u64,
        modified: u64,
        upserted: Option<Box<Value>>,
    },
    /// The whole reply (of findAndModify): a document without its `ok`.
    Reply(Arc<DocBuf>),
}

/// The statements that have run, by number. Neighbours with the same outcome share one entry, so that a large insert takes
/// a single one. The entries are sorted, so that a search among a hundred thousand upserts is fast.
pub(super) type CompletedStatements = SmallVec<[OutcomeRun; 1]>;

#[derive(Debug, Clone)]
pub(super) struct OutcomeRun {
    first: i32,
    count: i32,
    outcome: StatementOutcome,
}

// === impl Retry ===

impl Retry {
    pub(super) fn new(session: Arc<Session>, number: i64, done: CompletedStatements) -> Self {
        Self {
            session,
            done,
            number,
        }
    }

    /// Returns the outcome of the statement, if it has run before.
    #[inline]
    pub fn outcome(&self, statement: i32) -> Option<&StatementOutcome> {
        if self.done.is_empty() {
            return None;
        }
        let run = self.done.get(self.index_after(statement).checked_sub(1)?)?;
        run.has(statement).then_some(&run.outcome)
    }

    /// Returns the index after the last entry that begins at or before the statement.
    fn index_after(&self, statement: i32) -> usize {
        self.done.partition_point(|run| run.first <= statement)
    }

    /// Records that the statement has run. Call it together with the write, so that nothing can come between the two.
    #[inline]
    pub fn record(&mut self, statement: i32, outcome: StatementOutcome) {
        let run = OutcomeRun {
            first: statement,
            count: 1,
            outcome,
        };
        if self.done.is_empty() {
            self.done.push(run);
            return;
        }
        let at = self.index_after(statement);
        if let Some(before) = at.checked_sub(1).and_then(|at| self.done.get_mut(at))
            && before.first.checked_add(before.count) == Some(statement)
            && before.outcome == run.outcome
        {
            before.count += 1;
            return;
        }
        self.done.insert(at, run);
    }
}

// === impl StatementOutcome ===

impl StatementOutcome {
    /// Returns whether the statement matched nothing and did nothing.
    pub fn is_miss(&self) -> bool {
        match self {
            Self::Deleted { n } => *n == 0,
            Self::Updated { n, upserted, .. } => *n == 0 && upserted.is_none(),
            Self::Inserted | Self::Reply(_) => false,
        }
    }

    /// Returns the bytes that the outcome takes besides its entry.
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

/// Returns the bytes that the outcomes take besides their session.
pub(super) fn weight(done: &CompletedStatements) -> usize {
    let entries = if done.spilled() {
        done.capacity() * size_of::<OutcomeRun>()
    } else {
        0
    };
    entries + done.iter().map(|run| run.outcome.weight()).sum::<usize>()
}

// === impl OutcomeRun ===

impl OutcomeRun {
    fn has(&self, statement: i32) -> bool {
        // The numbers come from the client: the difference of two may overflow.
        statement
            .checked_sub(self.first)
            .is_some_and(|distance| (0..self.count).contains(&distance))
    }
}

impl Drop for Retry {
    fn drop(&mut self) {
        self.session
            .return_session(self.number, std::mem::take(&mut self.done));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Idle, SessionId, Sessions};
    use super::*;

    #[test]
    fn statements_are_found_in_any_order_of_numbers() {
        let sessions = Sessions::new(Idle::default());
        let id = SessionId::new([1; 16]);
        let session = sessions.get(&id, &mut None).unwrap();
        let mut retry = session.check_out(1).unwrap().unwrap();
        for statement in [7, 5, 6, i32::MIN, i32::MAX, 8] {
            assert_eq!(retry.outcome(statement), None, "{statement}");
            retry.record(statement, StatementOutcome::Deleted { n: 1 });
        }
        retry.record(9, StatementOutcome::Inserted);
        for statement in [5, 6, 7, 8, i32::MIN, i32::MAX] {
            let expected = Some(&StatementOutcome::Deleted { n: 1 });
            assert_eq!(retry.outcome(statement), expected, "{statement}");
        }
        assert_eq!(retry.outcome(9), Some(&StatementOutcome::Inserted));
        for statement in [4, 10, 0, i32::MIN + 1, i32::MAX - 1] {
            assert_eq!(retry.outcome(statement), None, "{statement}");
        }
    }
}
