//! Runs the operations of a bulkWrite one by one.

use std::borrow::Cow;

use super::LIST;
use super::op::BulkOp;
use super::results::{ReplyContext, Results};
use crate::command::write::{
    self, Added, RunningAction, Statement, StatementRun, Statements, Writing,
};
use crate::command::{Counter, Counters, DocumentList, UpdateForms};
use crate::engine::write::{Intake, WriteTarget};
use crate::error::{Error, Result};
use crate::query::stage::StepBudget;
use crate::session;
use crate::value::{Doc, DocBuf, DocBuilder};

/// A collection that operations refer to by its number.
pub struct BulkNamespace {
    pub database: String,
    pub collection: String,
    /// Why no operation can run on it: clients may not write to it, or the UUID belongs to another collection. Each
    /// operation gets this error.
    pub refused: Option<Error>,
}

/// How operations count, by [`BulkOp::kind`].
const COUNTED: [Counter; 3] = [Counter::Insert, Counter::Update, Counter::Delete];

pub struct Bulk {
    pub namespaces: Vec<BulkNamespace>,
    pub let_vars: Option<DocBuf>,
    pub keeps_empty_timestamps: bool,
    /// The offset of the next operation, and its index.
    pub offset: usize,
    pub next: usize,
    /// The running operation, with the number of its collection.
    pub current: Option<(usize, RunningAction)>,
    /// How many operations of each kind were tried, in the order of [`COUNTED`].
    pub tried: [u64; 3],
    pub forms: UpdateForms,
    /// The operation may take long and has not begun.
    pub is_slow: bool,
    pub results: Results,
    pub answer: ReplyContext,
}

// === impl Bulk ===

impl Statements for Bulk {
    const LIST: Option<&'static str> = Some(LIST);

    fn step(&mut self, run: &mut StatementRun<'_>, slice: &dyn StepBudget) -> Result<bool> {
        let documents = run.documents;
        loop {
            let going_on = match self.current.take() {
                Some((namespace, current)) => match self.go_on(namespace, current, run, slice)? {
                    Some(going_on) => going_on,
                    None => return Ok(false),
                },
                None => match self.begin(documents, run)? {
                    Some(going_on) => going_on,
                    None => return Ok(true),
                },
            };
            if !going_on {
                return Ok(true);
            }
            if run.place.is_blocked() || slice.is_over() || std::mem::take(&mut self.is_slow) {
                return Ok(false);
            }
        }
    }

    fn reply(&mut self, reply: &mut DocBuilder<'_>) {
        self.results.reply(&mut self.answer, reply);
    }

    fn count(&self, counters: &Counters, shard: usize) {
        for (counted, n) in COUNTED.into_iter().zip(self.tried) {
            counters.add(shard, counted, n);
        }
        counters.updated("bulkWrite", self.forms);
    }
}

impl Bulk {
    /// Begins the next operation. Consecutive inserts are done together. Returns `None` if no operation is left, else
    /// whether to continue.
    fn begin(
        &mut self,
        documents: DocumentList<'_>,
        run: &mut StatementRun<'_>,
    ) -> Result<Option<bool>> {
        let start = self.offset;
        let Some(value) = documents.take_next(&mut self.offset) else {
            return Ok(None);
        };
        let index = self.next;
        self.next += 1;
        let op = BulkOp::read(value.as_doc().unwrap_or(Doc::EMPTY))?;
        if self.results.repeat(index, run.retry.as_ref()) {
            return Ok(Some(true));
        }
        self.tried[op.kind()] += 1;
        let namespace = self.namespaces.get(op.namespace());
        if let Some(error) = namespace.and_then(|namespace| namespace.refused.clone()) {
            let modified = matches!(op, BulkOp::Update(..)).then_some(0);
            return Ok(Some(self.results.fail(index, &error, 0, modified)));
        }
        let into = place(&self.namespaces, op.namespace(), run);
        if let Err(refusal) = run.admit(&into) {
            let modified = matches!(op, BulkOp::Update(..)).then_some(0);
            return Ok(Some(self.results.fail(index, &refusal, 0, modified)));
        }
        // As in MongoDB, `$$CLUSTER_TIME` of an operation is the time of the last write before it.
        if run.vars.cluster_time().is_some() {
            let latest = run.place.catalog.time().latest();
            run.vars = run.vars.clone().with_cluster_time(latest);
        }
        let let_vars = self.let_vars.as_ref().map(DocBuf::as_doc);
        let parsed = match op {
            BulkOp::Insert(namespace, document) => {
                let inserted = self.insert((index, start), namespace, document, documents, run);
                return inserted.map(Some);
            }
            BulkOp::Update(at, statement) => statement
                .parse(let_vars, &run.vars)
                .map(|updating| (at, RunningAction::Update(Box::new(updating)))),
            BulkOp::Delete(at, statement) => statement
                .parse(let_vars, &run.vars)
                .map(|deleting| (at, RunningAction::Remove(Box::new(deleting)))),
        };
        match parsed {
            Ok((at, mut action)) => {
                if self.keeps_empty_timestamps {
                    action.keep_empty_timestamps();
                }
                action.note_form(&mut self.forms);
                self.is_slow = action.is_slow();
                self.current = Some((at, action));
            }
            Err(error) => {
                let modified = value.as_doc().is_some_and(|doc| doc.has("update"));
                return Ok(Some(self.results.fail(
                    index,
                    &error,
                    0,
                    modified.then_some(0),
                )));
            }
        }
        Ok(Some(true))
    }

    /// Continues an update or a delete. Returns `None` if the time slice is over, else whether to continue with other
    /// operations.
    fn go_on(
        &mut self,
        namespace: usize,
        mut current: RunningAction,
        run: &mut StatementRun<'_>,
        slice: &dyn StepBudget,
    ) -> Result<Option<bool>> {
        let into = place(&self.namespaces, namespace, run);
        let stepped = current.step(&into, slice, &mut run.effort);
        run.pay(into.name());
        if matches!(stepped, Ok(false)) {
            self.current = Some((namespace, current));
            return Ok(None);
        }
        let index = self.next - 1;
        let outcome = current.outcome();
        Ok(Some(match stepped {
            Err(error) if error.is_interruption() => return Err(error),
            Ok(_) => {
                self.results.done(index, outcome, run.retry.as_mut());
                true
            }
            Err(error) => {
                // What the operation did before it failed stays done, and counts.
                let (n, modified) = self.results.sum(&outcome);
                self.results.fail(index, &error, n, modified)
            }
        }))
    }

    /// Inserts this document, given with its index and offset, and the following ones that go to the same collection. Returns
    /// whether to continue.
    fn insert(
        &mut self,
        (first, start): (usize, usize),
        namespace: usize,
        document: Doc<'_>,
        documents: DocumentList<'_>,
        run: &mut StatementRun<'_>,
    ) -> Result<bool> {
        let intake = Intake {
            ids: run.place.ids,
            now: run.place.now(),
            keeps_empty_timestamps: self.keeps_empty_timestamps,
        };
        let mut admitted: Vec<(usize, Cow<'_, [u8]>)> = Vec::new();
        match intake.admit(document) {
            Ok(bytes) => admitted.push((first, bytes)),
            Err(error) => return Ok(self.results.fail(first, &error, 0, None)),
        }
        while admitted.len() < run.batch() {
            let mut ahead = self.offset;
            let next = documents
                .take_next(&mut ahead)
                .and_then(|value| BulkOp::read(value.as_doc()?).ok());
            let Some(BulkOp::Insert(at, document)) = next else {
                break;
            };
            if at != namespace || self.results.ran_before(self.next, run.retry.as_ref()) {
                break;
            }
            // A refused document is handled again after the documents before it are inserted.
            let Ok(bytes) = intake.admit(document) else {
                break;
            };
            admitted.push((self.next, bytes));
            self.offset = ahead;
            self.next += 1;
        }
        let place = place(&self.namespaces, namespace, run);
        let mut interrupted = None;
        let (results, retry) = (&mut self.results, &mut *run.retry);
        let [tried, ..] = &mut self.tried;
        let added = write::add(&place, &mut run.effort, &admitted, |index, failed| {
            // The first one is counted already.
            *tried += u64::from(index > first);
            match failed {
                None => {
                    results.done(index, session::StatementOutcome::Inserted, retry.as_mut());
                    true
                }
                Some(error) if error.is_interruption() => {
                    interrupted = Some(error);
                    false
                }
                Some(error) => results.fail(index, &error, 0, None),
            }
        });
        run.pay(place.name());
        if let Some(error) = interrupted {
            return Err(error);
        }
        if let Added::Blocked(index) = added {
            self.offset = start;
            self.next = first;
            while self.next < index {
                documents.take_next(&mut self.offset);
                self.next += 1;
            }
        }
        Ok(added != Added::Failed)
    }
}

/// Returns the collection with this number, to which an operation writes.
fn place<'p>(
    namespaces: &'p [BulkNamespace],
    number: usize,
    run: &StatementRun<'p>,
) -> WriteTarget<'p> {
    let (database, collection) = namespaces.get(number).map_or(("", ""), |namespace| {
        (&*namespace.database, &*namespace.collection)
    });
    WriteTarget {
        database,
        collection,
        ..run.place
    }
}
