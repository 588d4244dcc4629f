//! `bulkWrite`: inserts, updates and deletes on several collections in one command, with a result for each.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::args::{self, Arg, fields};
use super::write::{self, Numbers, Options, Running, Statements};
use super::{
    Access, Call, Command, Context, Counted, Counters, Documents, Flags, Outcome, cursor, delete,
    reply, update,
};
use super::{check_collection, check_database};
use crate::engine::write::{BATCH, Deleting, Intake, Place, Updating, insert_batch};
use crate::error::{Code, Error, Result};
use crate::query::stage::Slice;
use crate::session::{self, Batch, CursorInfo, Fill, SessionId};
use crate::value::{Doc, DocBuf, DocBuilder, Millis, Type, Value};

pub(super) const COMMAND: Command = Command::ready(
    "bulkWrite",
    Access::Write,
    "Runs inserts, updates and deletes on several collections.",
    run,
)
.with(
    Flags::ADMIN_ONLY
        .and(Flags::RETRYABLE)
        .and(Flags::WRITE_CONCERN)
        .and(Flags::STABLE)
        .and(Flags::UNCOUNTED),
);

const LIST: &str = "ops";
const NAMESPACES: &str = "nsInfo";
const CURSOR: &str = "$cmd.bulkWrite";

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut options = Options::read(call, LIST, &[NAMESPACES, "errorsOnly", "cursor"])?;
    let (mut errors_only, mut batch_size) = (false, None);
    for arg in call.args().skip(1) {
        match arg.name() {
            "errorsOnly" => errors_only = arg.strict_bool()?.unwrap_or(false),
            "cursor" => {
                for option in fields("bulkWrite.cursor", arg.doc()?.unwrap_or(Doc::EMPTY)) {
                    match option.name() {
                        "batchSize" => batch_size = option.int_at_least(0)?,
                        _ => return Err(option.unknown()),
                    }
                }
            }
            _ => {}
        }
    }
    let documents = call.documents(LIST)?;
    let namespaces = namespaces(call)?;
    let count = write::check_statements(call, LIST, documents)?;
    let mut kinds = [0; 3];
    for (index, value) in documents.iter().enumerate() {
        let op = Op::read(value.as_doc().unwrap_or(Doc::EMPTY))?;
        if op.namespace() >= namespaces.len() {
            return Err(Error::bad_value(format!(
                "BulkWrite ops entry {index} has an invalid nsInfo index."
            )));
        }
        if op.is_multi() && call.transaction_number().is_some() {
            return Err(Error::new(
                Code::InvalidOptions,
                "Cannot use retryable writes with multi=true",
            ));
        }
        kinds[op.kind()] += 1;
    }
    let shard = Counters::shard(call.client.id);
    for (counted, n) in [Counted::Insert, Counted::Update, Counted::Delete]
        .into_iter()
        .zip(kinds)
    {
        call.context.counters.add(shard, counted, n);
    }
    let bulk = Bulk {
        namespaces,
        ordered: options.ordered,
        errors_only,
        numbers: options.numbers(count)?,
        let_vars: options
            .let_vars
            .map(|doc| DocBuf::from_bytes(doc.bytes().to_vec())),
        offset: 0,
        next: 0,
        current: None,
        sums: Sums::default(),
        rows: Vec::new(),
        retried: Vec::new(),
        answer: Answer {
            context: Arc::clone(call.context),
            now: call.now,
            batch_size: batch_size.map(|size| u32::try_from(size).unwrap_or(u32::MAX)),
            namespace: call.namespace(CURSOR),
            session: call.session(),
            command: call.request.body.clone(),
        },
    };
    write::run(call, CURSOR, bulk, reply)
}

/// The collections that the operations name by number.
fn namespaces(call: &Call<'_>) -> Result<Vec<(String, String)>> {
    let documents = call.documents(NAMESPACES)?;
    let mut namespaces = Vec::new();
    for value in documents.iter() {
        let Some(doc) = value.as_doc() else {
            return Err(args::wrong_type(
                "bulkWrite.nsInfo",
                &namespaces.len().to_string(),
                value.ty(),
                &[Type::Document],
            ));
        };
        let mut name = None;
        for arg in fields("bulkWrite.nsInfo", doc) {
            match arg.name() {
                "ns" => name = arg.str()?,
                "collectionUUID" | "encryptionInformation" | "isTimeseriesNamespace" => {
                    return Err(Error::not_implemented(format_args!(
                        "bulkWrite.nsInfo.{}",
                        arg.name()
                    )));
                }
                _ => return Err(arg.unknown()),
            }
        }
        let name = args::required(name, "bulkWrite.nsInfo", "ns")?;
        let (database, collection) = name.split_once('.').ok_or_else(|| {
            Error::new(
                Code::InvalidNamespace,
                format!("Invalid namespace specified for bulkWrite: '{name}'"),
            )
        })?;
        check_database(database)?;
        check_collection(database, collection)?;
        namespaces.push((database.to_owned(), collection.to_owned()));
    }
    Ok(namespaces)
}

/// One operation, read but not yet parsed.
enum Op<'a> {
    Insert(usize, Doc<'a>),
    Update(usize, update::Statement<'a>),
    Delete(usize, delete::Statement<'a>),
}

struct Bulk {
    namespaces: Vec<(String, String)>,
    ordered: bool,
    errors_only: bool,
    numbers: Numbers,
    let_vars: Option<DocBuf>,
    /// Where the next operation stands, and which it is.
    offset: usize,
    next: usize,
    current: Option<(usize, Current)>,
    sums: Sums,
    rows: Vec<DocBuf>,
    retried: Vec<i32>,
    answer: Answer,
}

/// An operation on its way.
enum Current {
    Update(Box<Updating>),
    Delete(Box<Deleting>),
}

#[derive(Default)]
struct Sums {
    errors: u64,
    inserted: u64,
    matched: u64,
    modified: u64,
    upserted: u64,
    deleted: u64,
}

/// What the reply needs to know.
struct Answer {
    context: Arc<Context>,
    now: Millis,
    batch_size: Option<u32>,
    namespace: String,
    session: Option<SessionId>,
    command: Bytes,
}

// === impl Op ===

impl<'a> Op<'a> {
    fn read(doc: Doc<'a>) -> Result<Self> {
        let Some(first) = doc.first() else {
            return Err(Error::bad_value(
                "BulkWriteOperations must have at least one field",
            ));
        };
        let index = |path| {
            let namespace = Arg::new(path, first).int_at_least(0)?;
            args::required(namespace, path, first.name()).map(|n| n as usize)
        };
        match first.name() {
            "insert" => {
                let path = "BulkWriteInsertOp";
                let namespace = index(path)?;
                let mut document = None;
                for arg in fields(path, doc).skip(1) {
                    match arg.name() {
                        "document" => document = arg.doc()?,
                        _ => return Err(arg.unknown()),
                    }
                }
                Ok(Self::Insert(
                    namespace,
                    args::required(document, path, "document")?,
                ))
            }
            "update" => {
                let namespace = index(update::BULK.path)?;
                let statement = update::Statement::read_as(doc, &update::BULK)?;
                Ok(Self::Update(namespace, statement))
            }
            "delete" => {
                let namespace = index(delete::BULK.path)?;
                let statement = delete::Statement::read_as(doc, &delete::BULK)?;
                Ok(Self::Delete(namespace, statement))
            }
            other => Err(Error::new(
                Code::IDLUnknownField,
                format!("BSON field 'bulkWrite.ops.{other}' is an unknown field."),
            )),
        }
    }

    fn namespace(&self) -> usize {
        match self {
            Self::Insert(at, _) | Self::Update(at, _) | Self::Delete(at, _) => *at,
        }
    }

    fn is_multi(&self) -> bool {
        match self {
            Self::Insert(..) => false,
            Self::Update(_, statement) => statement.multi,
            Self::Delete(_, statement) => statement.multi,
        }
    }

    fn kind(&self) -> usize {
        match self {
            Self::Insert(..) => 0,
            Self::Update(..) => 1,
            Self::Delete(..) => 2,
        }
    }
}

// === impl Bulk ===

impl Statements for Bulk {
    fn step(&mut self, run: &mut Running<'_>, slice: &dyn Slice) -> Result<bool> {
        let documents = Documents::of(run.request, LIST);
        loop {
            let going_on = match self.current.take() {
                Some((namespace, current)) => match self.go_on(namespace, current, run, slice) {
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
            if slice.is_over() {
                return Ok(false);
            }
        }
    }

    fn reply(&mut self, reply: &mut DocBuilder<'_>) {
        let rows = std::mem::take(&mut self.rows);
        self.answer.put_cursor(rows, reply);
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
        reply::put_retried(reply, &self.retried);
    }
}

impl Bulk {
    /// Begins with the next operation; inserts that stand together are done at once. `None` if there are no more, else whether
    /// to go on.
    fn begin(&mut self, documents: Documents<'_>, run: &mut Running<'_>) -> Result<Option<bool>> {
        let Some(value) = documents.take_next(&mut self.offset) else {
            return Ok(None);
        };
        let index = self.next;
        self.next += 1;
        let op = Op::read(value.as_doc().unwrap_or(Doc::EMPTY))?;
        let number = self.numbers.of(index);
        if let Some(outcome) = run.retry.as_ref().and_then(|retry| retry.outcome(number)) {
            let outcome = outcome.clone();
            self.retried.push(number);
            self.repeat(index, outcome);
            return Ok(Some(true));
        }
        let let_vars = self.let_vars.as_ref().map(DocBuf::as_doc);
        let now = run.place.now;
        let begun = match op {
            Op::Insert(namespace, document) => {
                return Ok(Some(
                    self.insert(index, namespace, document, documents, run),
                ));
            }
            Op::Update(at, statement) => statement
                .parse(let_vars, now)
                .map(|updating| (at, Current::Update(Box::new(updating)))),
            Op::Delete(at, statement) => statement
                .parse(let_vars, now)
                .map(|deleting| (at, Current::Delete(Box::new(deleting)))),
        };
        match begun {
            Ok(current) => self.current = Some(current),
            Err(error) => {
                let modified = value.as_doc().is_some_and(|doc| doc.has("update"));
                return Ok(Some(self.fail(index, &error, 0, modified.then_some(0))));
            }
        }
        Ok(Some(true))
    }

    /// Goes on with an update or a delete. `None` if the time slice was over first, else whether to go on with others.
    fn go_on(
        &mut self,
        namespace: usize,
        mut current: Current,
        run: &mut Running<'_>,
        slice: &dyn Slice,
    ) -> Option<bool> {
        let stepped = {
            let place = self.place(namespace, run);
            match &mut current {
                Current::Update(updating) => updating.step(&place, slice),
                Current::Delete(deleting) => deleting.step(&place, slice),
            }
        };
        if matches!(stepped, Ok(false)) {
            self.current = Some((namespace, current));
            return None;
        }
        let index = self.next - 1;
        let outcome = match current {
            Current::Delete(deleting) => session::Outcome::Deleted {
                n: deleting.deleted,
            },
            Current::Update(updating) => session::Outcome::Updated {
                n: updating.done.matched + u64::from(updating.done.upserted.is_some()),
                modified: updating.done.modified,
                upserted: updating.done.upserted.map(Box::new),
            },
        };
        Some(match stepped {
            Ok(_) => {
                if let Some(retry) = run.retry {
                    retry.record(self.numbers.of(index), outcome.clone());
                }
                self.repeat(index, outcome);
                true
            }
            Err(error) => {
                // What was done before it failed stays done, and counts.
                let (n, modified) = self.sum(&outcome);
                self.fail(index, &error, n, modified)
            }
        })
    }

    fn place<'p>(&'p self, namespace: usize, run: &Running<'p>) -> Place<'p> {
        let (database, collection) = self
            .namespaces
            .get(namespace)
            .map_or(("", ""), |(database, collection)| (database, collection));
        Place {
            catalog: run.place.catalog,
            ids: run.place.ids,
            database,
            collection,
            now: run.place.now,
        }
    }

    /// Adds this document and the next ones that go to the same collection. Says whether to go on.
    fn insert(
        &mut self,
        first: usize,
        namespace: usize,
        document: Doc<'_>,
        documents: Documents<'_>,
        run: &mut Running<'_>,
    ) -> bool {
        let intake = Intake {
            ids: run.place.ids,
            now: run.place.now,
        };
        let mut admitted: Vec<(usize, Cow<'_, [u8]>)> = Vec::new();
        match intake.admit(document) {
            Ok(bytes) => admitted.push((first, bytes)),
            Err(error) => return self.fail(first, &error, 0, None),
        }
        while admitted.len() < BATCH {
            let mut ahead = self.offset;
            let next = documents
                .take_next(&mut ahead)
                .and_then(|value| Op::read(value.as_doc()?).ok());
            let number = self.numbers.of(self.next);
            let known = |retry: &session::Retry| retry.outcome(number).is_some();
            let Some(Op::Insert(at, document)) = next else {
                break;
            };
            if at != namespace || run.retry.as_ref().is_some_and(known) {
                break;
            }
            // One that is refused is come to again, when those in front of it are done.
            let Ok(bytes) = intake.admit(document) else {
                break;
            };
            admitted.push((self.next, bytes));
            self.offset = ahead;
            self.next += 1;
        }
        self.add(namespace, &admitted, run)
    }

    fn add(
        &mut self,
        namespace: usize,
        mut admitted: &[(usize, Cow<'_, [u8]>)],
        run: &mut Running<'_>,
    ) -> bool {
        while !admitted.is_empty() {
            let place = self.place(namespace, run);
            let (collection, _) = place
                .catalog
                .get_or_create(place.database, place.collection);
            let bytes = admitted.iter().map(|(_, bytes)| bytes.as_ref());
            // Dropped in between: it is made again.
            let Ok(inserted) = insert_batch(&collection, bytes, place.now) else {
                continue;
            };
            let (added, rest) = admitted.split_at(inserted.count);
            for (index, _) in added {
                if let Some(retry) = run.retry {
                    retry.record(self.numbers.of(*index), session::Outcome::Inserted);
                }
                self.repeat(*index, session::Outcome::Inserted);
            }
            admitted = rest;
            if let (Some(error), Some(((index, _), rest))) = (inserted.failed, rest.split_first()) {
                if !self.fail(*index, &error, 0, None) {
                    return false;
                }
                admitted = rest;
            }
        }
        true
    }

    /// Counts what an operation did, now or when it ran before: its `n`, and its `nModified` if it is an update.
    fn sum(&mut self, outcome: &session::Outcome) -> (u64, Option<u64>) {
        match outcome {
            session::Outcome::Inserted => {
                self.sums.inserted += 1;
                (1, None)
            }
            session::Outcome::Deleted { n } => {
                self.sums.deleted += n;
                (*n, None)
            }
            session::Outcome::Updated {
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
            session::Outcome::Reply(_) => (0, None),
        }
    }

    /// The result of an operation that succeeded.
    fn repeat(&mut self, index: usize, outcome: session::Outcome) {
        let (n, modified) = self.sum(&outcome);
        if self.errors_only {
            return;
        }
        let upserted: Option<Box<Value>> = match outcome {
            session::Outcome::Updated { upserted, .. } => upserted,
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

    /// The result of one that failed. Says whether the others still run.
    fn fail(&mut self, index: usize, error: &Error, n: u64, modified: Option<u64>) -> bool {
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

// === impl Answer ===

impl Answer {
    /// The first results; a cursor keeps those that find no room.
    fn put_cursor(&self, rows: Vec<DocBuf>, reply: &mut DocBuilder<'_>) {
        let mut source = cursor::listed(rows);
        let limit = self.batch_size.unwrap_or(u32::MAX);
        let mut answer = reply.doc("cursor");
        let filled = answer.array_with("firstBatch", |out| {
            source.fill(self.now, &mut Batch::new(out, limit))
        });
        let mut id = 0;
        if matches!(filled, Ok(Fill::Full)) {
            let info = CursorInfo::new(&self.namespace, self.session, self.command.clone());
            // Without a place for the cursor the client knows from the sums what it does not see here.
            id = self.context.cursors.keep(source, info).unwrap_or(0);
        }
        answer.put_i64("id", id).put_str("ns", &self.namespace);
        answer.end();
    }
}

#[cfg(test)]
mod tests;
