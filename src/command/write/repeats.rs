//! What a session remembers about the statements of a write, in case the client sends them again.

use super::Numbers;
use crate::session::{Retry, StatementOutcome};
use crate::value::{DocBuilder, Value};

pub struct Repeats {
    numbers: Numbers,
    /// The numbers of the statements that had run before.
    retried: Vec<i32>,
}

// === impl Repeats ===

impl Repeats {
    pub fn new(numbers: Numbers) -> Self {
        Self {
            numbers,
            retried: Vec::new(),
        }
    }

    /// Returns the outcome of a statement that has run before.
    pub fn outcome<'r>(
        &self,
        index: usize,
        retry: Option<&'r Retry>,
    ) -> Option<&'r StatementOutcome> {
        retry.and_then(|retry| retry.outcome(self.numbers.of(index)))
    }

    /// Returns the outcome of a statement that has run before, and notes that it was sent again.
    pub fn recall(&mut self, index: usize, retry: Option<&Retry>) -> Option<StatementOutcome> {
        let outcome = self.outcome(index, retry)?.clone();
        self.retried.push(self.numbers.of(index));
        Some(outcome)
    }

    pub fn record(&self, index: usize, outcome: &StatementOutcome, retry: Option<&mut Retry>) {
        if let Some(retry) = retry.filter(|_| !outcome.is_miss()) {
            retry.record(self.numbers.of(index), outcome.clone());
        }
    }

    /// Writes `retriedStmtIds`, if there are any: the statements that were answered with their earlier outcome.
    pub fn reply(&self, reply: &mut DocBuilder<'_>) {
        if self.retried.is_empty() {
            return;
        }
        let mut array = reply.array("retriedStmtIds");
        for number in &self.retried {
            array.push(Value::int32(*number).as_ref());
        }
        array.end();
    }
}
