//! What insert, update, delete and findAndModify share: their options, the tally of their statements, running in steps.

use std::sync::Arc;

use super::args::{self, Arg};
use super::{Call, Context, Documents, Outcome, Step, Task, reply};
use crate::engine::TimeSlice;
use crate::engine::choose::Hint;
use crate::engine::write::{Place, Selection};
use crate::error::{Code, Error, Result, WriteError};
use crate::query::filter::Filter;
use crate::query::sort::Sort;
use crate::query::stage::{Slice, names_root};
use crate::query::{Scope, Vars};
use crate::session::Retry;
use crate::storage::index::TS_FIELD;
use crate::value::{Doc, DocBuf, DocBuilder, Millis, Type, ValueRef};
use crate::wire::Request;

/// The most statements that one command may bring.
const MAX_STATEMENTS: usize = 100_000;

/// Options that stand beside the statements.
pub(super) struct Options<'a> {
    pub ordered: bool,
    pub let_vars: Option<Doc<'a>>,
    stmt_id: Option<i32>,
    stmt_ids: Option<Vec<i32>>,
}

/// What all statements so far have done.
#[derive(Default)]
pub(super) struct Tally {
    pub n: u64,
    pub errors: Vec<WriteError>,
    /// Statements that had run before, by their numbers.
    pub retried: Vec<i32>,
}

/// The numbers under which a session remembers the statements.
pub(super) enum Numbers {
    From(i32),
    Each(Vec<i32>),
}

/// The statements of a command, run one after the other.
pub(super) trait Statements: Send + 'static {
    /// Goes on until all are done (`true`) or the time slice is over.
    fn step(&mut self, run: &mut Running<'_>, slice: &dyn Slice) -> Result<bool>;
    /// Writes what came of them.
    fn reply(&mut self, reply: &mut DocBuilder<'_>);
}

/// What statements run with.
pub(super) struct Running<'r> {
    pub request: &'r Request,
    pub place: Place<'r>,
    pub retry: &'r mut Option<Retry>,
}

/// Statements that did not get done at once.
struct Longer<S> {
    statements: S,
    context: Arc<Context>,
    request: Request,
    database: String,
    collection: String,
    now: Millis,
    retry: Option<Retry>,
}

/// Runs the statements: at once if that is quickly done, else in steps.
pub(super) fn run<S: Statements>(
    call: &mut Call<'_>,
    collection: &str,
    mut statements: S,
    reply: &mut DocBuilder<'_>,
) -> Result<Outcome> {
    let mut retry = call.retry.take();
    let mut running = Running {
        request: call.request,
        place: Place {
            catalog: &call.context.catalog,
            ids: &call.context.ids,
            database: call.database(),
            collection,
            now: call.now,
        },
        retry: &mut retry,
    };
    if statements.step(&mut running, &TimeSlice::begin())? {
        statements.reply(reply);
        return Ok(Outcome::Reply);
    }
    Ok(Outcome::Work(Box::new(Longer {
        statements,
        context: Arc::clone(call.context),
        request: call.request.clone(),
        database: call.database().to_owned(),
        collection: collection.to_owned(),
        now: call.now,
        retry,
    })))
}

// === impl Longer ===

impl<S: Statements> Task for Longer<S> {
    fn step(&mut self, reply: &mut DocBuilder<'_>) -> Result<Step> {
        let mut running = Running {
            request: &self.request,
            place: Place {
                catalog: &self.context.catalog,
                ids: &self.context.ids,
                database: &self.database,
                collection: &self.collection,
                now: self.now,
            },
            retry: &mut self.retry,
        };
        if !self.statements.step(&mut running, &TimeSlice::begin())? {
            return Ok(Step::More);
        }
        self.statements.reply(reply);
        Ok(Step::Done)
    }
}

// === impl Options ===

impl<'a> Options<'a> {
    /// Reads the options; `list` is the field that holds the statements, `others` are read by the command itself.
    pub fn read(call: &Call<'a>, list: &str, others: &[&str]) -> Result<Self> {
        let mut options = Self {
            ordered: true,
            let_vars: None,
            stmt_id: None,
            stmt_ids: None,
        };
        for arg in call.args().skip(1) {
            match arg.name() {
                "ordered" => options.ordered = arg.strict_bool()?.unwrap_or(true),
                "bypassDocumentValidation" | "bypassEmptyTsReplacement" => drop(arg.bool()?),
                "let" => options.let_vars = arg.doc()?,
                "stmtId" => options.stmt_id = arg.int()?.map(clamp),
                "stmtIds" => {
                    let ids = arg
                        .array()?
                        .into_iter()
                        .flatten()
                        .map(|elem| Arg::new(list, elem).int());
                    options.stmt_ids = Some(
                        ids.map(|id| id.map(|id| clamp(id.unwrap_or_default())))
                            .collect::<Result<_>>()?,
                    );
                }
                "isTimeseriesNamespace"
                | "collectionUUID"
                | "encryptionInformation"
                | "runtimeConstants" => {
                    return Err(Error::not_implemented(format_args!(
                        "{}.{}",
                        call.command.name,
                        arg.name()
                    )));
                }
                name if name == list || others.contains(&name) => {}
                _ => return Err(arg.unknown()),
            }
        }
        Ok(options)
    }

    pub fn numbers(&mut self, count: usize) -> Result<Numbers> {
        match self.stmt_ids.take() {
            Some(ids) if ids.len() == count => Ok(Numbers::Each(ids)),
            Some(ids) => Err(Error::new(
                Code::InvalidLength,
                format!(
                    "Number of statement ids must match the number of batch entries. Got {} statement ids but {count} operations.",
                    ids.len()
                ),
            )),
            None => Ok(Numbers::From(self.stmt_id.unwrap_or(0))),
        }
    }
}

fn clamp(n: i64) -> i32 {
    n.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}

// === impl Numbers ===

impl Numbers {
    pub fn of(&self, index: usize) -> i32 {
        match self {
            Self::From(first) => first.saturating_add(i32::try_from(index).unwrap_or(i32::MAX)),
            Self::Each(all) => all.get(index).copied().unwrap_or(i32::MAX),
        }
    }
}

// === impl Tally ===

impl Tally {
    /// Notes a failed statement. Says whether the others still run.
    pub fn fail(&mut self, index: usize, error: Error, ordered: bool) -> bool {
        self.errors.push(WriteError { index, error });
        !ordered
    }

    pub fn put_n(&self, reply: &mut DocBuilder<'_>) {
        reply::put_count(reply, "n", self.n);
    }

    pub fn put_errors(&mut self, reply: &mut DocBuilder<'_>) {
        self.errors.sort_by_key(|error| error.index);
        reply::put_write_errors(reply, &self.errors);
        reply::put_retried(reply, &self.retried);
    }
}

/// Checks how many statements there are, and that each is a document.
pub(super) fn check_statements(
    call: &Call<'_>,
    list: &str,
    documents: Documents<'_>,
) -> Result<usize> {
    let mut count = 0;
    for value in documents.iter() {
        if value.as_doc().is_none() {
            let path = format!("{}.{list}", call.command.name);
            return Err(args::wrong_type(
                &path,
                &count.to_string(),
                value.ty(),
                &[Type::Document],
            ));
        }
        count += 1;
    }
    if count == 0 || count > MAX_STATEMENTS {
        return Err(Error::new(
            Code::InvalidLength,
            format!(
                "Write batch sizes must be between 1 and {MAX_STATEMENTS}. Got {count} operations."
            ),
        ));
    }
    Ok(count)
}

/// The one statement of a command that is explained.
pub(super) fn only_statement<'a>(call: &Call<'a>, list: &'static str) -> Result<Doc<'a>> {
    let documents = call.documents(list)?;
    match check_statements(call, list, documents)? {
        1 => Ok(documents
            .iter()
            .next()
            .and_then(ValueRef::as_doc)
            .unwrap_or(Doc::EMPTY)),
        _ => Err(Error::new(
            Code::InvalidLength,
            "explained write batches must be of size 1",
        )),
    }
}

/// `hint`: a name or a key pattern.
pub(super) fn hint(arg: &Arg<'_>) -> Result<Option<Hint>> {
    match arg.value().ty() {
        Type::String => Ok(arg.str()?.map(|name| Hint::Name(name.to_owned()))),
        Type::Document => {
            let key = arg.doc()?.filter(|key| !key.is_empty());
            if let Some(key) = key {
                check_natural(key)?;
            }
            Ok(key.map(|key| Hint::Key(DocBuf::from_bytes(key.bytes().to_vec()))))
        }
        _ => Err(Error::failed_to_parse("Hint must be a string or an object")),
    }
}

/// `{$natural: 1}` stands alone, and has two directions.
fn check_natural(key: Doc<'_>) -> Result<()> {
    let way = key.get("$natural");
    if way.is_missing() {
        return Ok(());
    }
    if key.count() > 1 {
        return Err(Error::bad_value(format!(
            "$natural hint cannot be combined with other fields: {}",
            ValueRef::document(key)
        )));
    }
    match way.as_num().and_then(|way| way.to_i64_exact()) {
        Some(1 | -1) => Ok(()),
        _ => Err(Error::bad_value(
            "$natural hint may only accept 1 or -1, not the given value",
        )),
    }
}

/// `collation`: the simple one is what there is.
pub(super) fn collation(arg: &Arg<'_>) -> Result<()> {
    match arg.doc()? {
        None => Ok(()),
        Some(spec) if spec.is_empty() || spec.get("locale").as_str() == Some("simple") => Ok(()),
        Some(spec) if spec.get("locale").as_str().is_none() => {
            Err(args::missing("collation", "locale"))
        }
        Some(_) => Err(Error::not_implemented("collation")),
    }
}

/// Which documents a statement is about, from its parts.
pub(super) struct Selecting<'a> {
    pub filter: Doc<'a>,
    pub sort: Option<Doc<'a>>,
    pub hint: Option<Hint>,
    pub let_vars: Option<Doc<'a>>,
    pub multi: bool,
}

// === impl Selecting ===

impl Selecting<'_> {
    /// Parses them. The scope is what an update is parsed in, too.
    pub fn parse(self, now: Millis) -> Result<(Selection, Scope)> {
        let (scope, vars) = match self.let_vars {
            None => (Scope::new(), Vars::at(now)),
            Some(spec) => crate::query::bind_let(&Vars::at(now), &Scope::new(), spec)?,
        };
        let filter = Filter::parse(self.filter, &scope)?;
        let sort = self
            .sort
            .map(Sort::parse)
            .transpose()?
            .filter(|sort| !sort.is_empty());
        let names_ts = names_ts(self.filter) || self.sort.is_some_and(names_ts);
        let selection = Selection {
            filter: Arc::new(filter),
            vars,
            sort,
            hint: self.hint,
            names_ts,
            multi: self.multi,
        };
        Ok((selection, scope))
    }
}

/// Whether a filter, sort or projection names the root field `_ts`, and so gets to see it.
pub(super) fn names_ts(doc: Doc<'_>) -> bool {
    names_root(ValueRef::document(doc), TS_FIELD)
}
