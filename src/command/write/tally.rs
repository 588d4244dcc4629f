//! Counts what the statements of a write have done, and writes that part of the reply.

use super::{Numbers, Repeats};
use crate::command::reply;
use crate::error::{Error, WriteError};
use crate::session;
use crate::value::{DocBuilder, Value};

/// What all statements so far have done.
pub struct Tally {
    /// No statement runs after a failed one.
    ordered: bool,
    repeats: Repeats,
    n: u64,
    modified: u64,
    upserted: Vec<(usize, Value)>,
    errors: Vec<WriteError>,
}

// === impl Tally ===

impl Tally {
    pub fn new(ordered: bool, numbers: Numbers) -> Self {
        Self {
            ordered,
            repeats: Repeats::new(numbers),
            n: 0,
            modified: 0,
            upserted: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Counts the outcome of a statement that has run before. Returns whether it has.
    pub fn repeat(&mut self, index: usize, retry: Option<&session::Retry>) -> bool {
        let Some(outcome) = self.repeats.recall(index, retry) else {
            return false;
        };
        self.count(index, outcome);
        true
    }

    /// Returns whether a statement had run before this command.
    pub fn ran_before(&self, index: usize, retry: Option<&session::Retry>) -> bool {
        self.repeats.outcome(index, retry).is_some()
    }

    /// Counts what a statement has done, and lets the session remember it.
    pub fn done(
        &mut self,
        index: usize,
        outcome: session::StatementOutcome,
        retry: Option<&mut session::Retry>,
    ) {
        self.repeats.record(index, &outcome, retry);
        self.count(index, outcome);
    }

    /// Counts what a statement has done.
    pub fn count(&mut self, index: usize, outcome: session::StatementOutcome) {
        match outcome {
            session::StatementOutcome::Inserted => self.n += 1,
            session::StatementOutcome::Deleted { n } => self.n += n,
            session::StatementOutcome::Updated {
                n,
                modified,
                upserted,
            } => {
                self.n += n;
                self.modified += modified;
                self.upserted.extend(upserted.map(|id| (index, *id)));
            }
            session::StatementOutcome::Reply(_) => {}
        }
    }

    /// Notes a failed statement. Returns whether the others still run.
    pub fn fail(&mut self, index: usize, error: Error) -> bool {
        self.errors.push(WriteError { index, error });
        !self.ordered
    }

    /// Writes the counts and the errors in mongod's order. With `modifies`, the reply also says how many documents really changed.
    pub fn reply(&mut self, modifies: bool, reply: &mut DocBuilder<'_>) {
        reply::put_count(reply, "n", self.n);
        self.errors.sort_by_key(|error| error.index);
        reply::put_write_errors(reply, &self.errors);
        self.repeats.reply(reply);
        if !self.upserted.is_empty() {
            let mut array = reply.array("upserted");
            for (index, id) in &self.upserted {
                let mut entry = array.doc();
                entry
                    .put_i32("index", i32::try_from(*index).unwrap_or(i32::MAX))
                    .put("_id", id.as_ref());
                entry.end();
            }
            array.end();
        }
        if modifies {
            reply::put_count(reply, "nModified", self.modified);
        }
    }
}
