//! Replies that hold a batch of rows: `{cursor: {firstBatch | nextBatch, id, ns}}`.
//!
//! The first slice of work writes its rows directly into the reply. Only a batch that takes several slices is collected in
//! a buffer of its own, in a [`Task`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Call, Context, Outcome, Step, Task};
use crate::args::fields;
use crate::clock::monotonic;
use crate::effort::Effort;
use crate::engine::{PlanSummary, ReadPoint};
use crate::error::{Code, Error, Result};
use crate::session::{CursorId, CursorInfo, Fill, OpenCursor, ReplyBatch, Source};
use crate::value::{ClusterTime, Doc, DocBuf, DocBuilder, Millis, Value};
use crate::wait::{PermitSlot, Wait};

/// The number of rows in a first batch if the client does not set it.
pub const FIRST_BATCH: u32 = 101;

/// How to open a cursor.
pub struct CursorOptions {
    /// `db.collection`
    pub namespace: String,
    /// The most rows of the first batch; `None` for MongoDB's default.
    pub batch_size: Option<u32>,
    /// The client wants only the first batch.
    pub single_batch: bool,
    pub no_timeout: bool,
    /// A getMore that finds no rows waits for new ones.
    pub awaits: bool,
    /// A single row may take long to compute.
    pub is_slow: bool,
    /// The rows are written to a collection.
    pub writes: bool,
}

/// The limits of one batch.
#[derive(Clone, Copy)]
struct BatchLimits {
    /// The most rows.
    limit: u32,
    /// How long to wait for a first row.
    until: Option<Instant>,
    /// The deadline of the command.
    deadline: Option<Instant>,
}

/// A batch that takes several slices.
struct BatchTask {
    context: Arc<Context>,
    at: ReadPoint,
    rows: u32,
    terms: BatchLimits,
    /// The elements so far, and the work of finding them.
    bytes: Vec<u8>,
    effort: Effort,
    /// The next step may have to wait in its middle, and the framework has been told.
    is_announced: bool,
    /// The permit to use a thread for that step.
    thread: PermitSlot,
    what: Option<BatchCursor>,
}

/// The cursor that the batch belongs to.
enum BatchCursor {
    First {
        source: Box<dyn Source>,
        info: CursorInfo,
        single_batch: bool,
    },
    Next {
        cursor: OpenCursor,
        /// The client receives all further batches without asking for them.
        exhaust: bool,
    },
}

/// Reads `cursor: {batchSize: n}`. Messages name the options by `path`.
pub fn batch_size(path: &str, options: Doc<'_>) -> Result<Option<u32>> {
    let mut size = None;
    for option in fields(path, options) {
        match option.name() {
            "batchSize" => size = option.batch_size()?,
            _ => return Err(option.unknown()),
        }
    }
    Ok(size)
}

/// Returns a cursor over documents that are all known already.
pub fn listed(documents: Vec<DocBuf>) -> Box<dyn Source> {
    Box::new(ListedDocuments {
        bytes: documents.iter().map(weight).sum(),
        documents: documents.into(),
    })
}

/// Replies with such a cursor (listCollections, listIndexes). In mongod's replies to these commands the batch is the last field.
pub fn list(
    call: &mut Call<'_>,
    reply: &mut DocBuilder<'_>,
    documents: Vec<DocBuf>,
    opening: CursorOptions,
) -> Result<Outcome> {
    let source = listed(documents);
    let mut outcome = Ok(Outcome::Reply);
    let opened = DocBuf::build(|reply| outcome = open(call, reply, source, opening));
    if let Some(opened) = opened.as_doc().get("cursor").as_doc() {
        let mut cursor = reply.doc("cursor");
        for name in ["id", "ns", "firstBatch"] {
            cursor.put(name, opened.get(name));
        }
        cursor.end();
    }
    outcome
}

struct ListedDocuments {
    documents: VecDeque<DocBuf>,
    bytes: usize,
}

/// Returns the memory that a listed document takes, in bytes.
fn weight(document: &DocBuf) -> usize {
    size_of::<DocBuf>() + document.bytes().len()
}

/// Returns what a cursor remembers of the command that opens it.
pub(in crate::command) fn info(call: &mut Call<'_>, namespace: &str) -> CursorInfo {
    let body = call.request.body.clone();
    let mut info = CursorInfo::new(namespace, call.session(), body, call.read_point());
    info.owner = call.owner();
    if let Some(transaction) = &mut call.transaction {
        transaction.note_cursor();
        info.transaction = Some(transaction.number());
    }
    info.snapshot = call.snapshot.clone();
    info
}

/// Replies with the first batch of `source`, and keeps the source for getMore if rows are left.
pub fn open(
    call: &mut Call<'_>,
    reply: &mut DocBuilder<'_>,
    source: Box<dyn Source>,
    opening: CursorOptions,
) -> Result<Outcome> {
    let at = call.read_point();
    let mut info = info(call, &opening.namespace);
    info.no_timeout = opening.no_timeout;
    info.awaits = opening.awaits;
    info.is_slow = opening.is_slow;
    info.writes = opening.writes;
    let limit = opening.batch_size.unwrap_or(FIRST_BATCH);
    let what = BatchCursor::First {
        source,
        info,
        single_batch: opening.single_batch,
    };
    let terms = BatchLimits {
        limit,
        until: None,
        deadline: call.deadline,
    };
    answer(call, at, terms, what, reply)
}

/// Replies with the next batch of a cursor that is checked out. The batch is empty only after the full waiting time.
pub(in crate::command) fn resume(
    call: &mut Call<'_>,
    reply: &mut DocBuilder<'_>,
    cursor: OpenCursor,
    limit: u32,
    until: Option<Instant>,
) -> Result<Outcome> {
    let at = cursor.info.at.moved_to(call.now);
    let what = BatchCursor::Next {
        cursor,
        exhaust: call.request.exhaust_allowed,
    };
    let terms = BatchLimits {
        limit,
        until,
        deadline: call.deadline,
    };
    answer(call, at, terms, what, reply)
}

fn answer(
    call: &mut Call<'_>,
    at: ReadPoint,
    terms: BatchLimits,
    mut what: BatchCursor,
    reply: &mut DocBuilder<'_>,
) -> Result<Outcome> {
    let context = call.context;
    let mut cursor = reply.doc("cursor");
    let (mut gathered, mut rows) = (None, 0);
    let fill = cursor.array_with(what.field(), |out| {
        let start = out.len();
        let mut batch = ReplyBatch::new(out, terms.limit);
        // An operation that may take long is on the list of operations before it begins.
        let fill = match what.info().is_slow || what.info().writes {
            true => Ok(Fill::Pause),
            false => what.fill(at, &mut batch, &mut call.effort),
        };
        rows = batch.rows();
        let waits = rows == 0 && terms.until.is_some() && matches!(fill, Ok(Fill::Waiting));
        if waits || matches!(fill, Ok(Fill::Pause)) {
            gathered = Some((rows, out.get(start..).unwrap_or_default().to_vec()));
        }
        fill
    });
    match fill {
        Err(error) => {
            what.abandon(context);
            Err(error)
        }
        Ok(fill) => match gathered {
            None => {
                let returned = (rows, at.now());
                let streams = what.close(context, terms, fill, returned, &mut cursor)?;
                cursor.end();
                Ok(if streams {
                    Outcome::Stream
                } else {
                    Outcome::Reply
                })
            }
            Some((rows, bytes)) => Ok(Outcome::Work(Box::new(BatchTask {
                context: Arc::clone(context),
                at,
                rows,
                terms,
                bytes,
                effort: call.effort,
                is_announced: false,
                thread: PermitSlot::default(),
                what: Some(what),
            }))),
        },
    }
}

/// Adds the context that mongod adds to an error caused by documents: the command that opened the cursor, or getMore.
fn failed(error: Error, opened: Option<&CursorInfo>) -> Error {
    if error.is_interruption() {
        return error;
    }
    let Some(info) = opened else {
        return error.caused("Executor error during getMore");
    };
    let (name, on) = match Doc::new(&info.command).first() {
        Some(elem) if elem.name() == "find" => ("find", ""),
        Some(elem) if elem.name() == "aggregate" => ("aggregate", " on namespace"),
        _ => return error,
    };
    let namespace = &info.namespace;
    error.caused(&format!(
        "Executor error during {name} command{on}: {namespace}"
    ))
}

/// Returns a logical time as clients see it.
pub(in crate::command) fn timestamp(time: ClusterTime) -> Value {
    let (seconds, increment) = time.parts();
    Value::timestamp(seconds, increment)
}

// === impl CursorOptions ===

impl CursorOptions {
    /// Returns the options of an ordinary cursor.
    pub fn plain(namespace: String, batch_size: Option<u32>) -> Self {
        Self {
            namespace,
            batch_size,
            single_batch: false,
            no_timeout: false,
            awaits: false,
            is_slow: false,
            writes: false,
        }
    }
}

// === impl BatchLimits ===

impl BatchLimits {
    /// Returns the rest of the command's time, which is left for the getMore commands of its cursor.
    fn time_left(&self) -> Option<Duration> {
        self.deadline
            .map(|deadline| deadline.saturating_duration_since(monotonic()))
    }
}

// === impl ListedDocuments ===

impl Source for ListedDocuments {
    fn plan_summary(&self) -> Option<PlanSummary> {
        Some(PlanSummary::list())
    }

    fn fill(&mut self, _: ReadPoint, batch: &mut ReplyBatch<'_>, _: &mut Effort) -> Result<Fill> {
        while let Some(next) = self.documents.front() {
            if !batch.push(next.as_doc()) {
                return Ok(Fill::Full);
            }
            self.bytes -= weight(next);
            self.documents.pop_front();
        }
        Ok(Fill::End)
    }

    fn suspend(&mut self) -> usize {
        self.bytes
    }
}

// === impl BatchCursor ===

impl BatchCursor {
    fn field(&self) -> &'static str {
        match self {
            Self::First { .. } => "firstBatch",
            Self::Next { .. } => "nextBatch",
        }
    }

    fn info(&self) -> &CursorInfo {
        match self {
            Self::First { info, .. } => info,
            Self::Next { cursor, .. } => &cursor.info,
        }
    }

    /// Returns a wait that is over when new rows may have arrived since this call, or when the cursor was killed.
    fn arrival(&self) -> Option<Wait> {
        match self {
            Self::First { .. } => None,
            Self::Next { cursor, .. } => cursor.arrival(),
        }
    }

    fn fill(
        &mut self,
        at: ReadPoint,
        batch: &mut ReplyBatch<'_>,
        effort: &mut Effort,
    ) -> Result<Fill> {
        match self {
            // A client asks for a first batch of no rows to get a cursor without waiting for its first row.
            Self::First {
                single_batch: false,
                ..
            } if batch.is_full() => Ok(Fill::Full),
            Self::First { source, info, .. } => source
                .fill(at, batch, effort)
                .map_err(|error| failed(error, Some(info))),
            Self::Next { cursor, .. } if cursor.is_killed() => {
                Err(Error::new(Code::CursorKilled, "cursor was killed"))
            }
            Self::Next { cursor, .. } => cursor
                .source
                .fill(at, batch, effort)
                .map_err(|error| failed(error, None)),
        }
    }

    /// Writes where a change stream can be continued after this batch.
    fn put_resume_token(&self, fill: Fill, cursor: &mut DocBuilder<'_>) {
        let source = match self {
            Self::First { source, .. } => source,
            Self::Next { cursor, .. } => &cursor.source,
        };
        let Some(token) = source.resume_token() else {
            return;
        };
        cursor.put_doc("postBatchResumeToken", token.as_doc());
        // A change stream ends only when what it follows is gone.
        if fill == Fill::End {
            cursor.put_bool("invalidated", true);
        }
    }

    /// Writes `id` and `ns` after the batch, and keeps or removes the cursor. Returns whether the next batch follows
    /// without a request. `returned` is the number of rows in the batch, and when its command began.
    fn close(
        self,
        context: &Context,
        terms: BatchLimits,
        fill: Fill,
        returned: (u32, Millis),
        cursor: &mut DocBuilder<'_>,
    ) -> Result<bool> {
        self.put_resume_token(fill, cursor);
        let snapshot = match &self {
            Self::First { info, .. } => info.snapshot.as_ref(),
            Self::Next { cursor, .. } => cursor.info.snapshot.as_ref(),
        };
        let time = snapshot.map(|snapshot| timestamp(snapshot.time()));
        let (id, namespace, exhaust): (CursorId, Arc<str>, bool) = match self {
            Self::First {
                source,
                info,
                single_batch,
            } => {
                let namespace = Arc::clone(&info.namespace);
                let over = fill == Fill::End || single_batch;
                info.set_time_left(terms.time_left());
                let id = if over {
                    0
                } else {
                    info.note_batch(returned.0, returned.1);
                    context.cursors.keep(source, info)?
                };
                // The client always requests the first batch and the second one.
                (id, namespace, false)
            }
            Self::Next {
                cursor: open,
                exhaust,
            } => {
                let namespace = Arc::clone(&open.info.namespace);
                if fill == Fill::End {
                    context.cursors.finish(open.id);
                    (0, namespace, false)
                } else {
                    let id = open.id;
                    open.info.set_time_left(terms.time_left());
                    open.info.note_batch(returned.0, returned.1);
                    context.cursors.put_back(open)?;
                    (id, namespace, exhaust)
                }
            }
        };
        cursor.put_i64("id", id).put_str("ns", &namespace);
        if let Some(time) = time {
            cursor.put("atClusterTime", time.as_ref());
        }
        Ok(exhaust)
    }

    /// Removes the cursor after an error, because its position is then unknown.
    fn abandon(self, context: &Context) {
        if let Self::Next { cursor, .. } = self {
            context.cursors.finish(cursor.id);
        }
    }
}

// === impl BatchTask ===

impl Task for BatchTask {
    fn step(&mut self, reply: &mut DocBuilder<'_>) -> Result<Step> {
        let Some(what) = &mut self.what else {
            return Ok(Step::Done);
        };
        // A row that is written waits here for a transaction. The workers of the runtime cannot, and do not notice meanwhile that
        // the client leaves.
        if what.info().writes && !self.is_announced {
            if !self.thread.is_filled()
                && let Some(wait) = self.context.writing_threads.fill(&self.thread)
            {
                return Ok(Step::Wait(wait));
            }
            self.is_announced = true;
            return Ok(Step::Blocking);
        }
        self.is_announced = false;
        // Given back at the end of this step.
        let _thread = self.thread.take();
        let mut arrival = None;
        if let Some(until) = self.terms.until {
            // A command that has waited sees the documents that are there when it wakes.
            self.at = self.at.moved_to(self.context.clock.now());
            // The wait begins before the collection is read, so it notices rows that arrive during the read. After the full
            // waiting time the command reads once more.
            if monotonic() < until {
                arrival = what.arrival().map(|wait| wait.no_later_than(until));
            }
        }
        let mut batch = ReplyBatch::resume(&mut self.bytes, 0, self.rows, self.terms.limit);
        let fill = what.fill(self.at, &mut batch, &mut self.effort);
        self.rows = batch.rows();
        match fill {
            Ok(Fill::Pause) => Ok(Step::More),
            Ok(Fill::Waiting)
                if self.rows == 0
                    && let Some(arrival) = arrival =>
            {
                Ok(Step::Wait(arrival))
            }
            Ok(fill) => {
                let Some(what) = self.what.take() else {
                    return Ok(Step::Done);
                };
                let mut cursor = reply.doc("cursor");
                cursor.array_with(what.field(), |out| out.extend_from_slice(&self.bytes));
                let returned = (self.rows, self.at.now());
                let streams = what.close(&self.context, self.terms, fill, returned, &mut cursor)?;
                cursor.end();
                Ok(if streams { Step::Stream } else { Step::Done })
            }
            Err(error) => {
                if let Some(what) = self.what.take() {
                    what.abandon(&self.context);
                }
                Err(error)
            }
        }
    }

    fn effort(&self) -> Effort {
        self.effort
    }
}

/// A command that is abandoned in the middle of a batch leaves no cursor behind, because no client could use it.
impl Drop for BatchTask {
    fn drop(&mut self) {
        if let Some(what) = self.what.take() {
            what.abandon(&self.context);
        }
    }
}
