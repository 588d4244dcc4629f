//! A write command of many statements: sending it, and sending parts of it again after ended documents made way.

use bson::doc;
use bytes::Bytes;
use smallvec::SmallVec;

use crate::error::{Code, Error};
use crate::upstream::Ask;
use crate::value::{ArrayBuilder, Doc, DocBuf, DocBuilder, ValueRef, is_true};
use crate::wire::Request;

use super::fields::{body_with, with_statements};
use super::run::{Stop, is_ok};
use super::takeover::Takeover;

/// The statements of a command as they are sent, one after the other.
#[derive(Default)]
pub struct StatementBytes {
    bytes: Vec<u8>,
    /// The same bytes once they are complete, to be sent without a copy.
    sealed: Bytes,
    /// Where each one ends.
    ends: Vec<usize>,
    /// Statements that Sundown refuses. They are sent as nothing.
    pub refused: Vec<(usize, Error)>,
}

/// A write command.
pub struct Batch<'a> {
    pub request: &'a Request,
    /// The name of the statements: `documents`, `updates`, `deletes`.
    pub name: &'static str,
    pub statements: StatementBytes,
    /// Fields of the body that change.
    pub fields: Vec<(&'static str, ValueRef<'a>)>,
    pub takeover: Takeover<'a>,
    /// The reply to all statements, if they were sent before in another way. Only those that have failed, and those that the
    /// cluster did not come to, are still to be sent.
    pub begun: Option<Bytes>,
}

/// The reply to a batch.
pub struct SentBatch {
    pub reply: Bytes,
    /// It is the cluster's, to the whole command, which was sent once.
    pub once: bool,
}

/// What has become of the statements so far.
#[derive(Default)]
struct BatchResult {
    n: i64,
    modified: Option<i64>,
    upserted: Vec<(usize, DocBuf)>,
    errors: Vec<(usize, DocBuf)>,
}

/// After this many duplicate keys in one command, everything that has ended makes way at once.
const ONE_BY_ONE: usize = 2;

/// A bound for what cannot happen: each round but the first needs a document that made way.
const MAX_ROUNDS: usize = 100_000;

const DUPLICATE_KEY: i64 = 11000;

// === impl StatementBytes ===

impl StatementBytes {
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            ..Self::default()
        }
    }

    pub fn push(&mut self, statement: Doc<'_>) {
        self.bytes.extend_from_slice(statement.bytes());
        self.ends.push(self.bytes.len());
    }

    /// Writes a statement in place.
    pub fn push_with(&mut self, write: impl FnOnce(&mut DocBuilder<'_>)) {
        let mut statement = DocBuilder::begin(&mut self.bytes);
        write(&mut statement);
        statement.end();
        self.ends.push(self.bytes.len());
    }

    pub fn refuse(&mut self, error: Error) {
        self.refused.push((self.ends.len(), error));
        self.ends.push(self.bytes.len());
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    fn bytes_of(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).and_then(|at| self.ends.get(at));
        let end = self.ends.get(at).copied().unwrap_or_default();
        self.sealed
            .get(start.copied().unwrap_or_default()..end)
            .unwrap_or_default()
    }

    /// Returns whether a statement can be sent again after it has failed. One that changes many documents may have changed
    /// some of them.
    fn can_repeat(&self, at: usize) -> bool {
        !is_true(Doc::new(self.bytes_of(at)).get("multi"))
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn seal(&mut self) {
        self.sealed = std::mem::take(&mut self.bytes).into();
    }

    fn some(&self, which: &[usize]) -> Bytes {
        if which.len() == self.len() {
            return self.sealed.clone();
        }
        let mut bytes = Vec::new();
        for &at in which {
            bytes.extend_from_slice(self.bytes_of(at));
        }
        bytes.into()
    }
}

// === impl Batch ===

impl Batch<'_> {
    /// Sends the command until it is through or fails for another reason than an ended document.
    pub async fn send<A: Ask>(self, ask: &mut A) -> Result<Bytes, Stop> {
        Ok(self.run(ask).await?.reply)
    }

    /// The same, and tells whether the command was sent as one.
    pub async fn run<A: Ask>(mut self, ask: &mut A) -> Result<SentBatch, Stop> {
        let several = |reply: Bytes| SentBatch { reply, once: false };
        self.statements.seal();
        let body = self.request.body();
        let ordered = is_ordered(body);
        let retryable = body.has("txnNumber");
        let first_refused = self.statements.refused.first().map(|(at, _)| *at);
        let is_refused = |at: &usize| self.statements.refused.iter().any(|(no, _)| no == at);
        let mut pending: Vec<usize> = match (ordered, first_refused) {
            (_, None) => (0..self.statements.len()).collect(),
            (true, Some(first)) => (0..first).collect(),
            (false, Some(_)) => (0..self.statements.len())
                .filter(|at| !is_refused(at))
                .collect(),
        };
        let mut outcome = BatchResult::default();
        if let Some(reply) = &self.begun {
            let answer = Doc::new(reply);
            let failed: Vec<usize> = errors_of(answer).iter().map(|(no, _)| *no).collect();
            outcome.add(answer, &pending, |_| false);
            pending = match (ordered, failed.first()) {
                (true, Some(first)) => pending.split_off((*first).min(pending.len())),
                _ => failed,
            };
        }
        if pending.is_empty() {
            return Ok(several(self.reply(outcome, None, false, ordered)));
        }
        let free_keys = !self.takeover.in_transaction() && self.takeover.rules.can_end();
        let mut resent = false;
        for round in 0..MAX_ROUNDS {
            let reply = ask.ask(self.part(&pending)).await?;
            let answer = Doc::new(&reply);
            if !is_ok(answer) {
                return Ok(several(reply));
            }
            let errors = errors_of(answer);
            let duplicates: Vec<_> = errors
                .iter()
                .filter(|(no, error)| {
                    let at = pending.get(*no).copied();
                    is_duplicate(*error) && at.is_some_and(|at| self.statements.can_repeat(at))
                })
                .collect();
            if self.takeover.in_transaction() && !duplicates.is_empty() {
                // The duplicate has ended the transaction. A holder that has ended should have made way before it, but the
                // unique index is younger than what is known of the collection.
                let errors = duplicates.iter().map(|(_, error)| *error);
                if self.takeover.outside().free_keys(ask, errors).await? > 0 {
                    return Err(conflict().into());
                }
            }
            let again = free_keys && !duplicates.is_empty() && {
                let freed = match round {
                    0..ONE_BY_ONE => {
                        let errors = duplicates.iter().map(|(_, error)| *error);
                        Box::pin(self.takeover.free_keys(ask, errors)).await?
                    }
                    _ => Box::pin(self.takeover.drain(ask)).await?,
                };
                // The holder may just have been deleted by someone else, so the first time counts in any case. In a capped
                // collection it would rather be the later statements of this command that removed it.
                freed > 0 || (round == 0 && !self.takeover.rules.capped)
            };
            if !again {
                if round == 0 && self.statements.refused.is_empty() && self.begun.is_none() {
                    return Ok(SentBatch { reply, once: true });
                }
                outcome.add(answer, &pending, |_| true);
                return Ok(several(self.reply(outcome, Some(answer), resent, ordered)));
            }
            resent = true;
            if retryable {
                // Statements that were executed are answered from the history of the session, at their old places.
                continue;
            }
            let duplicated = |at: usize| duplicates.iter().any(|(no, _)| *no == at);
            outcome.add(answer, &pending, |no| !duplicated(no));
            pending = match ordered {
                true => {
                    let first = errors.first().map_or(0, |(at, _)| *at);
                    pending.split_off(first.min(pending.len()))
                }
                false => duplicates
                    .iter()
                    .filter_map(|(no, _)| pending.get(*no).copied())
                    .collect(),
            };
        }
        Err(Error::new(Code::WriteConflict, "too many ended documents in the way").into())
    }

    /// Returns the command with some of its statements.
    fn part(&self, which: &[usize]) -> Request {
        let statements = self.statements.some(which);
        let ids = self.request.body().get("stmtIds").as_array();
        let kept = ids
            .filter(|_| which.len() < self.statements.len())
            .map(|ids| {
                let mut bytes = Vec::new();
                let mut kept = ArrayBuilder::begin(&mut bytes);
                let ids = ids.iter().enumerate();
                for (_, id) in ids.filter(|(at, _)| which.contains(at)) {
                    kept.push(id.value);
                }
                kept.end();
                DocBuf::from_bytes(bytes)
            });
        match &kept {
            None => part(self.request, self.name, statements, &self.fields),
            Some(kept) => {
                let mut fields = self.fields.clone();
                fields.push(("stmtIds", ValueRef::array(kept.as_doc())));
                part(self.request, self.name, statements, &fields)
            }
        }
    }

    /// Returns the reply for all statements together.
    fn reply(
        &self,
        mut outcome: BatchResult,
        last: Option<Doc<'_>>,
        resent: bool,
        ordered: bool,
    ) -> Bytes {
        let stopped = ordered && !outcome.errors.is_empty();
        for (at, error) in self.statements.refused.iter().filter(|_| !stopped) {
            let failed = DocBuf::build(|out| {
                out.put_i32("code", error.code().number());
                out.put_str("errmsg", error.message());
            });
            outcome.errors.push((*at, failed));
            if ordered {
                break;
            }
        }
        outcome.errors.sort_by_key(|(at, _)| *at);
        outcome.upserted.sort_by_key(|(at, _)| *at);
        let modified = outcome.modified.or((self.name == "updates").then_some(0));
        let reply = DocBuf::build(|out| {
            out.put_i32("n", i32::try_from(outcome.n).unwrap_or(i32::MAX));
            put_indexed("writeErrors", &outcome.errors, out);
            put_indexed("upserted", &outcome.upserted, out);
            if let Some(modified) = modified {
                out.put_i32("nModified", i32::try_from(modified).unwrap_or(i32::MAX));
            }
            const COUNTED: &[&str] = &["n", "nModified", "upserted", "writeErrors"];
            match last {
                None => {
                    out.put_f64("ok", 1.0);
                }
                Some(last) => {
                    for elem in last {
                        let retried = resent && elem.name() == "retriedStmtIds";
                        if !COUNTED.contains(&elem.name()) && !retried {
                            out.put(elem.name(), elem.value);
                        }
                    }
                }
            }
        });
        reply.into_bytes().into()
    }
}

// === impl BatchResult ===

impl BatchResult {
    /// Adds a reply to some of the statements. `counts` tells which errors stay.
    fn add(&mut self, reply: Doc<'_>, sent: &[usize], counts: impl Fn(usize) -> bool) {
        let number = |name| reply.get(name).as_num().map(|n| n.to_i64_saturating());
        self.n += number("n").unwrap_or_default();
        if let Some(modified) = number("nModified") {
            *self.modified.get_or_insert(0) += modified;
        }
        let place = |no: usize| sent.get(no).copied().unwrap_or(no);
        for (no, upserted) in indexed(reply, "upserted") {
            self.upserted.push((place(no), without_index(upserted)));
        }
        for (no, error) in errors_of(reply).into_iter().filter(|(no, _)| counts(*no)) {
            self.errors.push((place(no), without_index(error)));
        }
    }
}

/// Returns the command with other statements, and with some fields of its body changed.
pub fn part(
    request: &Request,
    name: &'static str,
    statements: impl Into<Bytes>,
    fields: &[(&str, ValueRef<'_>)],
) -> Request {
    let mut changed: SmallVec<[(&str, ValueRef<'_>); 4]> = SmallVec::from_slice(fields);
    changed.push((name, ValueRef::MISSING));
    if request.unacknowledged {
        // Without a reply nobody would learn of a duplicate key.
        changed.push(("writeConcern", ValueRef::MISSING));
    }
    let body = body_with(request, &changed);
    let mut part = with_statements(request, body, name, statements);
    part.unacknowledged = false;
    part
}

/// The error upon which drivers begin a transaction anew.
fn conflict() -> Error {
    let labels = DocBuf::from(&doc! {"errorLabels": ["TransientTransactionError"]});
    let error = Error::new(
        Code::WriteConflict,
        "a document that has ended held a unique key. It is deleted now. Please retry your operation or multi-document \
         transaction.",
    );
    error.with_details(labels.into_bytes())
}

fn indexed<'a>(reply: Doc<'a>, name: &str) -> Vec<(usize, Doc<'a>)> {
    let entries = reply.get(name).as_array().into_iter().flatten();
    let entries = entries.filter_map(|elem| elem.value.as_doc());
    entries
        .map(|entry| {
            let no = entry
                .get("index")
                .as_num()
                .map_or(0, |n| n.to_i64_saturating());
            (usize::try_from(no).unwrap_or_default(), entry)
        })
        .collect()
}

pub fn errors_of(reply: Doc<'_>) -> Vec<(usize, Doc<'_>)> {
    indexed(reply, "writeErrors")
}

/// Returns whether a write command stops at the first statement that fails.
pub fn is_ordered(command: Doc<'_>) -> bool {
    command.get("ordered").as_bool() != Some(false)
}

/// Returns whether an error, of a statement or of a whole command, is a duplicate key.
pub fn is_duplicate(error: Doc<'_>) -> bool {
    let code = error.get("code").as_num().map(|n| n.to_i64_saturating());
    code == Some(DUPLICATE_KEY)
}

fn without_index(entry: Doc<'_>) -> DocBuf {
    DocBuf::build(|out| super::stamp::put_without(entry, &["index"], out))
}

fn put_indexed(name: &str, entries: &[(usize, DocBuf)], out: &mut DocBuilder<'_>) {
    if entries.is_empty() {
        return;
    }
    let mut array = out.array(name);
    for (at, entry) in entries {
        let mut indexed = array.doc();
        indexed.put_i32("index", i32::try_from(*at).unwrap_or(i32::MAX));
        indexed.put_body(entry.as_doc().body());
        indexed.end();
    }
    array.end();
}
