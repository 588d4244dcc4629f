//! The results of the operations: sums, and a row for each operation.

use std::sync::Arc;

use crate::command::write::{Numbers, Repeats};
use crate::command::{Context, cursor, reply};
use crate::effort::Effort;
use crate::engine::ReadPoint;
use crate::error::Error;
use crate::session::{self, CursorInfo, Fill, ReplyBatch, Retry};
use crate::value::{Doc, DocBuf, DocBuilder, Value};

pub struct Results {
    /// No operation runs after a failed one.
    ordered: bool,
    /// Only failures get a row.
    errors_only: bool,
    repeats: Repeats,
    sums: WriteCounts,
    rows: Vec<DocBuf>,
}

#[derive(Default)]
struct WriteCounts {
    errors: u64,
    inserted: u64,
    matched: u64,
    modified: u64,
    upserted: u64,
    deleted: u64,
}

/// What writing the reply needs.
pub struct ReplyContext {
    pub context: Arc<Context>,
    pub at: ReadPoint,
    pub batch_size: Option<u32>,
    /// The cursor that keeps the results that do not fit. Taken when it opens.
    pub info: Option<CursorInfo>,
}

// === impl Results ===

impl Results {
    pub fn new(ordered: bool, errors_only: bool, numbers: Numbers) -> Self {
        Self {
            ordered,
            errors_only,
            repeats: Repeats::new(numbers),
            sums: WriteCounts::default(),
            rows: Vec::new(),
        }
    }

    pub fn reply(&mut self, answer: &mut ReplyContext, reply: &mut DocBuilder<'_>) {
        answer.put_cursor(std::mem::take(&mut self.rows), reply);
        for (name, n) in [
            ("nErrors", self.sums.errors),
            ("nInserted", self.sums.inserted),
            ("nMatched", self.sums.matched),
            ("nModified", self.sums.modified),
            ("nUpserted", self.sums.upserted),
            ("nDeleted", self.sums.deleted),
        ] {
            reply::put_count(reply, name, n);
        }
        self.repeats.reply(reply);
    }

    /// Counts what an operation did, now or when it ran before. Returns its `n`, and its `nModified` if it is an update.
    pub fn sum(&mut self, outcome: &session::StatementOutcome) -> (u64, Option<u64>) {
        match outcome {
            session::StatementOutcome::Inserted => {
                self.sums.inserted += 1;
                (1, None)
            }
            session::StatementOutcome::Deleted { n } => {
                self.sums.deleted += n;
                (*n, None)
            }
            session::StatementOutcome::Updated {
                n,
                modified,
                upserted,
            } => {
                let added = u64::from(upserted.is_some());
                self.sums.matched += n - added;
                self.sums.modified += modified;
                self.sums.upserted += added;
                (*n, Some(*modified))
            }
            session::StatementOutcome::Reply(_) => (0, None),
        }
    }

    /// Whether the operation has run before.
    pub fn ran_before(&self, index: usize, retry: Option<&Retry>) -> bool {
        self.repeats.outcome(index, retry).is_some()
    }

    /// Adds the result of an operation that has run before. Returns whether it has.
    pub fn repeat(&mut self, index: usize, retry: Option<&Retry>) -> bool {
        let Some(outcome) = self.repeats.recall(index, retry) else {
            return false;
        };
        self.put(index, outcome);
        true
    }

    /// Adds the result of an operation that succeeded. The session remembers it.
    pub fn done(
        &mut self,
        index: usize,
        outcome: session::StatementOutcome,
        retry: Option<&mut Retry>,
    ) {
        self.repeats.record(index, &outcome, retry);
        self.put(index, outcome);
    }

    fn put(&mut self, index: usize, outcome: session::StatementOutcome) {
        let (n, modified) = self.sum(&outcome);
        if self.errors_only {
            return;
        }
        let upserted: Option<Box<Value>> = match outcome {
            session::StatementOutcome::Updated { upserted, .. } => upserted,
            _ => None,
        };
        self.rows.push(DocBuf::build(|row| {
            row.put_f64("ok", 1.0).put_i32("idx", place_of(index));
            reply::put_count(row, "n", n);
            if let Some(modified) = modified {
                reply::put_count(row, "nModified", modified);
            }
            if let Some(id) = upserted {
                let mut upserted = row.doc("upserted");
                upserted.put("_id", id.as_ref().as_ref());
                upserted.end();
            }
        }));
    }

    /// Adds the result of an operation that failed. Returns whether the others still run.
    pub fn fail(&mut self, index: usize, error: &Error, n: u64, modified: Option<u64>) -> bool {
        self.sums.errors += 1;
        self.rows.push(DocBuf::build(|row| {
            row.put_f64("ok", 0.0)
                .put_i32("idx", place_of(index))
                .put_i32("code", error.code().number());
            if let Some(details) = error.details() {
                row.put_body(Doc::new(details).body());
            }
            row.put_str("errmsg", error.message());
            reply::put_count(row, "n", n);
            if let Some(modified) = modified {
                reply::put_count(row, "nModified", modified);
            }
        }));
        !self.ordered
    }
}

fn place_of(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}

// === impl ReplyContext ===

impl ReplyContext {
    /// Writes the first results. A cursor keeps those that do not fit.
    fn put_cursor(&mut self, rows: Vec<DocBuf>, reply: &mut DocBuilder<'_>) {
        let mut source = cursor::listed(rows);
        let limit = self.batch_size.unwrap_or(u32::MAX);
        let mut answer = reply.doc("cursor");
        let filled = answer.array_with("firstBatch", |out| {
            let mut batch = ReplyBatch::new(out, limit);
            source.fill(self.at, &mut batch, &mut Effort::default())
        });
        if let Some(info) = self.info.take() {
            let namespace = Arc::clone(&info.namespace);
            let id = match filled {
                // If the server can keep no further cursor, the sums still tell the client about the rows that are missing
                // here.
                Ok(Fill::Full) => self.context.cursors.keep(source, info).unwrap_or(0),
                _ => 0,
            };
            answer.put_i64("id", id).put_str("ns", &namespace);
        }
        answer.end();
    }
}
