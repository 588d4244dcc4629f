//! `update`: changes documents.

use super::args::{self, Arg, fields};
use super::write::{self, Numbers, Options, Running, Selecting, Statements, Tally};
use super::{Access, Call, Command, Counted, Counters, Documents, Flags, Outcome, reply};
use crate::engine::choose::Hint;
use crate::engine::write::{Updated, Updating};
use crate::error::{Error, Result};
use crate::query::stage::Slice;
use crate::query::update::{Style, Update};
use crate::session;
use crate::value::{Doc, DocBuf, DocBuilder, Millis, Type, Value, ValueRef};

pub(super) const COMMAND: Command = Command::ready(
    "update",
    Access::Write,
    "Changes documents of a collection.",
    run,
)
.with(
    Flags::RETRYABLE
        .and(Flags::WRITE_CONCERN)
        .and(Flags::STABLE)
        .and(Flags::UNCOUNTED),
);

const LIST: &str = "updates";
const OWN: Names = Names {
    path: "update.updates",
    kind: "",
    filter: "q",
    update: "u",
    constants: "c",
    strict: false,
};

/// How a bulkWrite names the parts of an update.
pub(super) const BULK: Names = Names {
    path: "BulkWriteUpdateOp",
    kind: "update",
    filter: "filter",
    update: "updateMods",
    constants: "constants",
    strict: true,
};

/// The names of the parts, and of what says what the statement is.
pub(super) struct Names {
    pub path: &'static str,
    kind: &'static str,
    filter: &'static str,
    update: &'static str,
    constants: &'static str,
    /// Flags take no numbers.
    strict: bool,
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let collection = call.collection()?;
    let mut options = Options::read(call, LIST, &[])?;
    let documents = call.documents(LIST)?;
    let count = write::check_statements(call, LIST, documents)?;
    if count > 1 {
        // A statement that cannot be read fails the whole command before any has run.
        for value in documents.iter() {
            Statement::read(value.as_doc().unwrap_or(Doc::EMPTY))?;
        }
    }
    let updates = Updates {
        ordered: options.ordered,
        numbers: options.numbers(count)?,
        let_vars: options
            .let_vars
            .map(|doc| DocBuf::from_bytes(doc.bytes().to_vec())),
        offset: 0,
        next: 0,
        current: None,
        tally: Tally::default(),
        modified: 0,
        upserted: Vec::new(),
    };
    call.context.counters.add(
        Counters::shard(call.client.id),
        Counted::Update,
        count as u64,
    );
    write::run(call, collection, updates, reply)
}

/// The statement of an update that has just one: what explain explains.
pub(super) fn only(call: &Call<'_>) -> Result<Updating> {
    let options = Options::read(call, LIST, &[])?;
    let doc = write::only_statement(call, LIST)?;
    Statement::read(doc)?.parse(options.let_vars, call.now)
}

/// `{q, u, multi, upsert, arrayFilters, hint, sort, c, collation}`
pub(super) struct Statement<'a> {
    filter: Doc<'a>,
    update: ValueRef<'a>,
    pub multi: bool,
    upsert: bool,
    array_filters: Option<Doc<'a>>,
    hint: Option<Hint>,
    sort: Option<Doc<'a>>,
    constants: Option<Doc<'a>>,
}

struct Updates {
    ordered: bool,
    numbers: Numbers,
    let_vars: Option<DocBuf>,
    /// Where the next statement stands, and which it is.
    offset: usize,
    next: usize,
    current: Option<Updating>,
    tally: Tally,
    modified: u64,
    upserted: Vec<(usize, Value)>,
}

// === impl Names ===

impl Names {
    fn flag(&self, arg: &Arg<'_>) -> Result<bool> {
        let flag = if self.strict {
            arg.strict_bool()?
        } else {
            arg.bool()?
        };
        Ok(flag.unwrap_or(false))
    }
}

// === impl Statement ===

impl<'a> Statement<'a> {
    fn read(doc: Doc<'a>) -> Result<Self> {
        Self::read_as(doc, &OWN)
    }

    pub fn read_as(doc: Doc<'a>, names: &Names) -> Result<Self> {
        let (mut filter, mut update) = (None, None);
        let (mut multi, mut upsert) = (false, false);
        let (mut array_filters, mut hint, mut sort, mut constants) = (None, None, None, None);
        for arg in fields(names.path, doc) {
            match arg.name() {
                name if name == names.kind => {}
                name if name == names.filter => filter = arg.doc()?,
                name if name == names.update => {
                    if !matches!(arg.value().ty(), Type::Document | Type::Array) {
                        return Err(Error::failed_to_parse(
                            "Update argument must be either an object or an array",
                        ));
                    }
                    update = Some(arg.value());
                }
                "multi" => multi = names.flag(&arg)?,
                "upsert" => upsert = names.flag(&arg)?,
                "arrayFilters" => {
                    arg.docs()?;
                    array_filters = arg.array()?;
                }
                "hint" => hint = write::hint(&arg)?,
                "collation" => write::collation(&arg)?,
                "sort" => sort = arg.doc()?,
                name if name == names.constants => constants = arg.doc()?,
                "upsertSupplied"
                | "sampleId"
                | "allowShardKeyUpdatesWithoutFullShardKeyInQuery" => {
                    return Err(Error::not_implemented(format_args!(
                        "{}.{}",
                        names.path,
                        arg.name()
                    )));
                }
                _ => return Err(arg.unknown()),
            }
        }
        Ok(Self {
            filter: args::required(filter, names.path, names.filter)?,
            update: args::required(update, names.path, names.update)?,
            multi,
            upsert,
            array_filters,
            hint,
            sort,
            constants,
        })
    }

    pub fn parse(self, let_vars: Option<Doc<'_>>, now: Millis) -> Result<Updating> {
        let both;
        let let_vars = match (let_vars, self.constants) {
            (Some(outer), Some(inner)) => {
                both = DocBuf::build(|d| {
                    d.put_body(outer.body()).put_body(inner.body());
                });
                Some(both.as_doc())
            }
            (outer, inner) => outer.or(inner),
        };
        if self.multi && self.sort.is_some_and(|sort| !sort.is_empty()) {
            return Err(Error::failed_to_parse(
                "Cannot specify sort with multi=true",
            ));
        }
        let multi = self.multi;
        let (selection, scope) = Selecting {
            filter: self.filter,
            sort: self.sort,
            hint: self.hint,
            let_vars,
            multi,
        }
        .parse(now)?;
        let update = Update::parse(self.update, self.array_filters, &scope)?;
        if self.constants.is_some() && update.style() != Style::Pipeline {
            return Err(Error::location(
                51198,
                "Constant values may only be specified for pipeline updates",
            ));
        }
        if multi && update.style() == Style::Replacement {
            return Err(Error::failed_to_parse(
                "multi update is not supported for replacement-style update",
            ));
        }
        Ok(Updating::new(selection, update, self.upsert))
    }
}

// === impl Updates ===

impl Statements for Updates {
    fn step(&mut self, run: &mut Running<'_>, slice: &dyn Slice) -> Result<bool> {
        let documents = Documents::of(run.request, LIST);
        loop {
            let index = self.next;
            let number = self.numbers.of(index);
            if self.current.is_none() {
                let Some(value) = documents.take_next(&mut self.offset) else {
                    return Ok(true);
                };
                if let Some(session::Outcome::Updated {
                    n,
                    modified,
                    upserted,
                }) = run.retry.as_ref().and_then(|retry| retry.outcome(number))
                {
                    self.tally.n += n;
                    self.tally.retried.push(number);
                    self.modified += modified;
                    self.upserted
                        .extend(upserted.as_deref().map(|id| (index, id.clone())));
                    self.next += 1;
                    continue;
                }
                let statement = Statement::read(value.as_doc().unwrap_or(Doc::EMPTY))?;
                match statement.parse(self.let_vars.as_ref().map(DocBuf::as_doc), run.place.now) {
                    Ok(updating) => self.current = Some(updating),
                    Err(error) => {
                        self.next += 1;
                        if !self.tally.fail(index, error, self.ordered) {
                            return Ok(true);
                        }
                        continue;
                    }
                }
            }
            let Some(updating) = &mut self.current else {
                continue;
            };
            let stepped = updating.step(&run.place, slice);
            let failed = match stepped {
                Ok(false) => return Ok(false),
                Ok(true) => None,
                Err(error) => Some(error),
            };
            // What was changed before a statement failed stays changed, and counts.
            let done = std::mem::take(&mut updating.done);
            self.current = None;
            self.next += 1;
            self.count(index, number, done, run, failed.is_some());
            if let Some(error) = failed
                && !self.tally.fail(index, error, self.ordered)
            {
                return Ok(true);
            }
            if slice.is_over() {
                return Ok(false);
            }
        }
    }

    fn reply(&mut self, reply: &mut DocBuilder<'_>) {
        self.tally.put_n(reply);
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
        reply::put_count(reply, "nModified", self.modified);
        self.tally.put_errors(reply);
    }
}

impl Updates {
    fn count(
        &mut self,
        index: usize,
        number: i32,
        done: Updated,
        run: &mut Running<'_>,
        failed: bool,
    ) {
        let n = done.matched + u64::from(done.upserted.is_some());
        self.tally.n += n;
        self.modified += done.modified;
        if let Some(retry) = run.retry
            && !failed
        {
            let upserted = done.upserted.clone().map(Box::new);
            retry.record(
                number,
                session::Outcome::Updated {
                    n,
                    modified: done.modified,
                    upserted,
                },
            );
        }
        self.upserted.extend(done.upserted.map(|id| (index, id)));
    }
}
