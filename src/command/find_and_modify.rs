//! `findAndModify`: changes or removes one document and returns it, as it was before or as it is afterwards.

use std::sync::Arc;

use super::collation;
use super::write::{self, RunningAction, Selecting, StatementRun, Statements, Writing};
use super::{Access, Call, Command, Counters, DocumentList, Flags, Needs, Outcome, UpdateForms};
use crate::auth::{self, AuthTarget};
use crate::engine::write::{Deleting, Shows, Updating, Version, with_ts};
use crate::error::{Error, Result};
use crate::names::check_written;
use crate::query::projection::Projection;
use crate::query::sort::Sort;
use crate::query::stage::StepBudget;
use crate::query::update::Update;
use crate::query::{Scope, Survey, Vars};
use crate::session;
use crate::ttl::TS_FIELD;
use crate::value::{Doc, DocBuf, DocBuilder, ValueRef, check_size, is_true};

pub(super) const COMMAND: Command = Command::ready(
    "findAndModify",
    Access::Write,
    "Updates or deletes one document and returns it.",
    run,
)
.alias(&["findandmodify"])
.with(
    Flags::RETRYABLE
        .and(Flags::TRANSACTION)
        .and(Flags::WRITE_CONCERN)
        .and(Flags::STABLE),
)
.needs(Needs::Asked(may));

/// Checks the rights: the command reads, and removes or changes a document. An upsert may also insert one.
fn may(call: &Call<'_>) -> Result<bool> {
    let Some(name) = call.target().as_str() else {
        return Ok(true);
    };
    let place = AuthTarget::Collection(call.database(), name);
    let said = |name| call.arg(name).is_some_and(|arg| is_true(arg.value()));
    let changes = if said("remove") {
        auth::Action::Remove
    } else {
        auth::Action::Update
    };
    Ok(call.may(place, auth::Action::Find)
        && call.may(place, changes)
        && (!said("upsert") || call.may(place, auth::Action::Insert)))
}

#[derive(Default)]
struct Args<'a> {
    filter: Option<Doc<'a>>,
    sort: Option<Doc<'a>>,
    fields: Option<Doc<'a>>,
    update: Option<ValueRef<'a>>,
    array_filters: Option<Doc<'a>>,
    hint: Option<crate::engine::plan::Hint>,
    let_vars: Option<Doc<'a>>,
    remove: bool,
    new: bool,
    upsert: bool,
    keeps_empty_timestamps: bool,
    stmt_id: i32,
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let args = Args::read(call)?;
    let collection = call.collection()?;
    if let Some(session::StatementOutcome::Reply(stored)) = call
        .retry
        .as_ref()
        .and_then(|retry| retry.outcome(args.stmt_id))
    {
        reply
            .put_body(stored.as_doc().body())
            .put_i32("retriedStmtId", args.stmt_id);
        return Ok(Outcome::Reply);
    }
    check_written(call.database(), collection)?;
    let statement = args.parse(call)?;
    if call.retry.is_some() && call.context.fail_points.is_on() {
        call.context.fail_points.strike_write(call.client.id)?;
    }
    let is_slow = statement.is_slow;
    write::run(
        call,
        collection,
        DocumentList::NONE,
        statement,
        is_slow,
        reply,
    )
}

/// Parses the command and returns its action, for explain.
pub(super) fn explained(call: &Call<'_>) -> Result<RunningAction> {
    Ok(Args::read(call)?.parse(call)?.action)
}

/// The single statement of the command.
struct FindAndModify {
    action: RunningAction,
    projection: Option<Projection>,
    vars: Vars,
    stmt_id: i32,
    /// Whether the projection names `_ts` or the server always shows it.
    show_ts: bool,
    is_slow: bool,
    /// Set once the statement has run.
    reply: Option<Arc<DocBuf>>,
}

// === impl Args ===

impl<'a> Args<'a> {
    fn read(call: &Call<'a>) -> Result<Self> {
        let mut read = Self::default();
        for arg in call.args().skip(1) {
            match arg.name_bytes() {
                b"query" => read.filter = arg.doc()?,
                b"sort" => read.sort = arg.doc()?,
                b"fields" => read.fields = arg.doc()?,
                b"remove" => read.remove = arg.bool()?.unwrap_or(false),
                b"new" => read.new = arg.bool()?.unwrap_or(false),
                b"upsert" => read.upsert = arg.bool()?.unwrap_or(false),
                b"update" => {
                    Update::check_form(arg.value())?;
                    read.update = Some(arg.value());
                }
                b"arrayFilters" => {
                    arg.docs()?;
                    read.array_filters = arg.array()?;
                }
                b"hint" => read.hint = write::hint(&arg)?,
                b"let" => read.let_vars = arg.doc()?,
                b"collation" => collation::read(&arg)?,
                b"stmtId" => read.stmt_id = arg.i32()?.unwrap_or(0),
                // Accepted without effect, as in mongod.
                b"batchSize" => drop(arg.i32()?),
                b"singleBatch" => drop(arg.strict_bool()?),
                b"bypassDocumentValidation" => drop(arg.bool()?),
                b"bypassEmptyTsReplacement" => {
                    read.keeps_empty_timestamps = arg.bool()?.unwrap_or(false);
                }
                _ => return Err(arg.unknown()),
            }
        }
        let refuse = |text: &str| Err(Error::failed_to_parse(text));
        match (read.remove, read.update.is_some()) {
            (true, true) => return refuse("Cannot specify both an update and remove=true"),
            (false, false) => return refuse("Either an update or remove=true must be specified"),
            _ => {}
        }
        if read.remove && read.upsert {
            return refuse("Cannot specify both upsert=true and remove=true ");
        }
        if read.remove && read.new {
            return refuse(
                "Cannot specify both new=true and remove=true; 'remove' always returns the deleted document",
            );
        }
        if read.remove && read.array_filters.is_some() {
            return refuse("Cannot specify arrayFilters and remove=true");
        }
        Ok(read)
    }

    fn parse(self, call: &Call<'_>) -> Result<FindAndModify> {
        let filter = self.filter.unwrap_or(Doc::EMPTY);
        let has_hint = self.hint.is_some();
        let selecting = Selecting {
            filter,
            sort: self.sort,
            hint: self.hint,
            let_vars: self.let_vars,
            constants: true,
            multi: false,
            upsert: self.upsert,
        };
        let (selection, (update, scope)) = selecting.parse(&call.vars(), |scope| {
            let update = self
                .update
                .map(|update| parse_update(update, self.array_filters, scope));
            Ok((update.transpose()?, scope.clone()))
        })?;
        // Without a collection and without an upsert there is nothing to show, and MongoDB does not look at the projection.
        let shows = self.upsert || exists(call)?;
        let fields = self.fields.filter(|fields| shows && !fields.is_empty());
        // Who selects by `_id` needs no sort, and it is parsed only together with other parts of a query.
        let needs_query = update.as_ref().is_some_and(Update::needs_position)
            || (shows && (has_hint || fields.is_some()));
        let sort = self.sort.filter(|sort| !sort.has("$natural"));
        if let (Some(sort), true) = (sort, needs_query) {
            Sort::parse(sort)?;
        }
        let projection = fields
            .map(|fields| Projection::parse_found(fields, filter, &scope))
            .transpose()?;
        if self.new && projection.as_ref().is_some_and(Projection::is_positional) {
            return Err(Error::bad_value(
                "cannot use a positional projection and return the new document",
            ));
        }
        let vars = selection.vars.clone();
        let surveyed = Survey::of(TS_FIELD, |survey| {
            if let Some(projection) = &projection {
                projection.survey(survey);
            }
        });
        let show_ts = call.context.config.expose_ts || selection.names_ts || surveyed.names_field;
        let action = match update {
            None => RunningAction::Remove(Box::new(Deleting::new(selection).showing())),
            Some(mut update) => {
                if self.keeps_empty_timestamps {
                    update.keep_empty_timestamps();
                }
                let shows = if self.new {
                    Shows::After
                } else {
                    Shows::Before
                };
                let updating = Updating::new(selection, update, self.upsert).showing(shows);
                RunningAction::Update(Box::new(updating))
            }
        };
        let is_slow = action.is_slow() || surveyed.is_slow;
        Ok(FindAndModify {
            action,
            projection,
            vars,
            stmt_id: self.stmt_id,
            show_ts,
            is_slow,
            reply: None,
        })
    }
}

fn exists(call: &Call<'_>) -> Result<bool> {
    let catalog = &call.context.catalog;
    let found = catalog.get_at(call.database(), call.collection()?, call.read_point())?;
    Ok(found.is_some())
}

fn parse_update(update: ValueRef<'_>, filters: Option<Doc<'_>>, scope: &Scope) -> Result<Update> {
    if update.as_array().is_some() && filters.is_some() {
        return Err(Error::failed_to_parse(
            "Cannot specify arrayFilters and a pipeline update",
        ));
    }
    Update::parse(update, filters, scope)
}

// === impl FindAndModify ===

impl Statements for FindAndModify {
    const LIST: Option<&'static str> = None;

    fn step(&mut self, run: &mut StatementRun<'_>, slice: &dyn StepBudget) -> Result<bool> {
        if !self.action.step(&run.place, slice, &mut run.effort)? {
            return Ok(false);
        }
        let (reply, n) = self.answer()?;
        let reply = Arc::new(reply);
        // What found nothing is not remembered: a retry looks again, as in MongoDB.
        if let Some(retry) = run.retry.as_mut().filter(|_| n > 0) {
            let stored = session::StatementOutcome::Reply(Arc::clone(&reply));
            retry.record(self.stmt_id, stored);
        }
        self.reply = Some(reply);
        Ok(true)
    }

    fn reply(&mut self, reply: &mut DocBuilder<'_>) {
        if let Some(own) = &self.reply {
            reply.put_body(own.as_doc().body());
        }
    }

    fn count(&self, counters: &Counters, _shard: usize) {
        let mut forms = UpdateForms::default();
        self.action.note_form(&mut forms);
        counters.updated("findAndModify", forms);
    }
}

impl FindAndModify {
    /// Returns the reply, and how many documents the command has reached.
    fn answer(&mut self) -> Result<(DocBuf, u64)> {
        let (shown, n) = match &mut self.action {
            RunningAction::Remove(deleting) => (deleting.before.take(), deleting.deleted),
            RunningAction::Update(updating) => {
                let done = &mut updating.done;
                (done.shown.take(), done.reached())
            }
        };
        let value = shown.map(|version| self.show(version)).transpose()?;
        let size = value.as_ref().map_or(0, Vec::len);
        let reply = DocBuf::build_sized(size + 96, |d| {
            let mut last = d.doc("lastErrorObject");
            last.put_i32("n", n as i32);
            if let RunningAction::Update(updating) = &self.action {
                last.put_bool("updatedExisting", updating.done.matched > 0);
                if let Some(id) = &updating.done.upserted {
                    last.put("upserted", id.as_ref());
                }
            }
            last.end();
            match &value {
                Some(bytes) => d.put_doc("value", Doc::new(bytes)),
                None => d.put_null("value"),
            };
        });
        Ok((reply, n))
    }

    fn show(&self, Version { mut bytes, ts }: Version) -> Result<Vec<u8>> {
        if self.show_ts {
            bytes = with_ts(Doc::new(&bytes), ts);
        }
        let Some(projection) = &self.projection else {
            return Ok(bytes);
        };
        let doc = Doc::new(&bytes);
        let filter = self.action.selection().wanted.filter();
        let position = filter.position(doc, &self.vars)?;
        let mut out = Vec::with_capacity(bytes.len());
        projection.apply(doc, &self.vars, position, &mut out)?;
        check_size(out.len())?;
        Ok(out)
    }
}
