//! `delete`: removes documents.

use super::args::{self, fields};
use super::write::{self, Numbers, Options, Running, Selecting, Statements, Tally};
use super::{Access, Call, Command, Counted, Counters, Documents, Flags, Outcome};
use crate::engine::choose::Hint;
use crate::engine::write::Deleting;
use crate::error::{Error, Result};
use crate::query::stage::Slice;
use crate::session;
use crate::value::{Doc, DocBuf, DocBuilder, Millis};

pub(super) const COMMAND: Command = Command::ready(
    "delete",
    Access::Write,
    "Removes documents from a collection.",
    run,
)
.with(
    Flags::RETRYABLE
        .and(Flags::WRITE_CONCERN)
        .and(Flags::STABLE)
        .and(Flags::UNCOUNTED),
);

const LIST: &str = "deletes";
const OWN: Names = Names {
    path: "delete.deletes",
    kind: "",
    filter: "q",
    limit: "limit",
};

/// How a bulkWrite names the parts of a delete.
pub(super) const BULK: Names = Names {
    path: "BulkWriteDeleteOp",
    kind: "delete",
    filter: "filter",
    limit: "",
};

/// The names of the parts, and of what says what the statement is.
pub(super) struct Names {
    pub path: &'static str,
    kind: &'static str,
    filter: &'static str,
    /// Empty where a flag `multi` stands for it.
    limit: &'static str,
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let collection = call.collection()?;
    let mut options = Options::read(call, LIST, &[])?;
    let documents = call.documents(LIST)?;
    let count = write::check_statements(call, LIST, documents)?;
    for value in documents.iter() {
        Statement::read(value.as_doc().unwrap_or(Doc::EMPTY))?;
    }
    let deletes = Deletes {
        ordered: options.ordered,
        numbers: options.numbers(count)?,
        let_vars: options
            .let_vars
            .map(|doc| DocBuf::from_bytes(doc.bytes().to_vec())),
        offset: 0,
        next: 0,
        current: None,
        tally: Tally::default(),
    };
    call.context.counters.add(
        Counters::shard(call.client.id),
        Counted::Delete,
        count as u64,
    );
    write::run(call, collection, deletes, reply)
}

/// The statement of a delete that has just one: what explain explains.
pub(super) fn only(call: &Call<'_>) -> Result<Deleting> {
    let options = Options::read(call, LIST, &[])?;
    let doc = write::only_statement(call, LIST)?;
    Statement::read(doc)?.parse(options.let_vars, call.now)
}

/// `{q, limit, hint, collation}`
pub(super) struct Statement<'a> {
    filter: Doc<'a>,
    pub multi: bool,
    hint: Option<Hint>,
}

struct Deletes {
    ordered: bool,
    numbers: Numbers,
    let_vars: Option<DocBuf>,
    /// Where the next statement stands, and which it is.
    offset: usize,
    next: usize,
    current: Option<Deleting>,
    tally: Tally,
}

// === impl Statement ===

impl<'a> Statement<'a> {
    fn read(doc: Doc<'a>) -> Result<Self> {
        Self::read_as(doc, &OWN)
    }

    pub fn read_as(doc: Doc<'a>, names: &Names) -> Result<Self> {
        let (mut filter, mut limit, mut hint) = (None, None, None);
        let mut multi = false;
        let by_limit = !names.limit.is_empty();
        for arg in fields(names.path, doc) {
            match arg.name() {
                name if name == names.kind => {}
                name if name == names.filter => filter = arg.doc()?,
                name if name == names.limit => limit = Some(arg),
                "multi" if !by_limit => multi = arg.strict_bool()?.unwrap_or(false),
                "hint" => hint = write::hint(&arg)?,
                "collation" => write::collation(&arg)?,
                "sampleId" => return Err(Error::not_implemented("delete.deletes.sampleId")),
                _ => return Err(arg.unknown()),
            }
        }
        let filter = args::required(filter, names.path, names.filter)?;
        if by_limit {
            let limit = args::required(limit, names.path, names.limit)?;
            multi = match args::to_f64(limit.value()) {
                Some(0.0) => true,
                Some(1.0) => false,
                _ => {
                    return Err(Error::failed_to_parse(format!(
                        "The limit field in delete objects must be 0 or 1. Got {}",
                        limit.value()
                    )));
                }
            };
        }
        Ok(Self {
            filter,
            multi,
            hint,
        })
    }

    pub fn parse(self, let_vars: Option<Doc<'_>>, now: Millis) -> Result<Deleting> {
        let selecting = Selecting {
            filter: self.filter,
            sort: None,
            hint: self.hint,
            let_vars,
            multi: self.multi,
        };
        Ok(Deleting::new(selecting.parse(now)?.0))
    }
}

// === impl Deletes ===

impl Statements for Deletes {
    fn step(&mut self, run: &mut Running<'_>, slice: &dyn Slice) -> Result<bool> {
        let documents = Documents::of(run.request, LIST);
        loop {
            let index = self.next;
            let number = self.numbers.of(index);
            if self.current.is_none() {
                let Some(value) = documents.take_next(&mut self.offset) else {
                    return Ok(true);
                };
                if let Some(session::Outcome::Deleted { n }) =
                    run.retry.as_ref().and_then(|r| r.outcome(number))
                {
                    self.tally.n += n;
                    self.tally.retried.push(number);
                    self.next += 1;
                    continue;
                }
                match self.begin(value.as_doc().unwrap_or(Doc::EMPTY), run) {
                    Ok(deleting) => self.current = Some(deleting),
                    Err(error) => {
                        self.next += 1;
                        if !self.tally.fail(index, error, self.ordered) {
                            return Ok(true);
                        }
                        continue;
                    }
                }
            }
            let Some(deleting) = &mut self.current else {
                continue;
            };
            let done = deleting.step(&run.place, slice);
            match done {
                Ok(false) => return Ok(false),
                Ok(true) => {
                    let n = deleting.deleted;
                    self.tally.n += n;
                    if let Some(retry) = run.retry {
                        retry.record(number, session::Outcome::Deleted { n });
                    }
                }
                Err(error) => {
                    // What was removed before it failed stays removed, and counts.
                    self.tally.n += deleting.deleted;
                    if !self.tally.fail(index, error, self.ordered) {
                        return Ok(true);
                    }
                }
            }
            self.current = None;
            self.next += 1;
            if slice.is_over() {
                return Ok(false);
            }
        }
    }

    fn reply(&mut self, reply: &mut DocBuilder<'_>) {
        self.tally.put_n(reply);
        self.tally.put_errors(reply);
    }
}

impl Deletes {
    fn begin(&self, doc: Doc<'_>, run: &Running<'_>) -> Result<Deleting> {
        let let_vars = self.let_vars.as_ref().map(DocBuf::as_doc);
        Statement::read(doc)?.parse(let_vars, run.place.now)
    }
}
