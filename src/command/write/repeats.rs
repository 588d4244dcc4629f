//! What a session remembers of a write's statements, for when they come again.

use super::Numbers;
use crate::session::{Outcome, Retry};
use crate::value::{DocBuilder, Value};

pub struct Repeats {
    numbers: Numbers,
    /// Statements that had run before, by their numbers.
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

    /// What came of a statement when it ran before, if it did.
    pub fn outcome<'r>(&self, index: usize, retry: Option<&'r Retry>) -> Option<&'r Outcome> {
        retry.and_then(|retry| retry.outcome(self.numbers.of(index)))
    }

    /// The same, for a statement that now comes again.
    pub fn recall(&mut self, index: usize, retry: Option<&Retry>) -> Option<Outcome> {
        let outcome = self.outcome(index, retry)?.clone();
        self.retried.push(self.numbers.of(index));
        Some(outcome)
    }

    pub fn record(&self, index: usize, outcome: &Outcome, retry: Option<&mut Retry>) {
        if let Some(retry) = retry {
            retry.record(self.numbers.of(index), outcome.clone());
        }
    }

    /// `retriedStmtIds`, where there are any: statements answered from what they did before.
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
