//! Finds the command of a request, runs it, and turns its outcome into a reply.
//!
//! [`Commands`] implements the handler that `server` calls. It finds the row of the command, has the generic arguments read
//! and the rights checked, and runs the command. A quick command writes its reply at once. A long one is wrapped into work
//! that the connection runs step by step. This room knows no socket, and only a few commands by name.

mod deferred;
mod faulted;
mod locked;

pub(in crate::command) use locked::LockWait;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::call::Call;
use super::client::{Client, Connection};
use super::counters::{Counter, Counters};
use super::generic::Generic;
use super::guard::{self, Rights};
use super::operations::Operation;
use super::task::RunningCommand;
use super::usage::Used;
use super::write_concern::UnmetConcern;
use super::{
    Access, Command, Context, Flags, Outcome, Task, cluster_time, collection_uuid, oplog, reply,
    stable_api, transaction,
};
use crate::clock::monotonic;
use crate::command::{COMMANDS, cosmos};
use crate::effort::Effort;
use crate::engine::OPLOG;
use crate::error::{Code, Error, Hangup, Result};
use crate::handler::{self, Handler, Peer, Traffic, Work};
use crate::interrupt::{Limit, expired};
use crate::latency::Stopwatch;
use crate::session::{Busy, Session};
use crate::value::{Doc, DocBuilder, Type};
use crate::vocabulary::Status;
use crate::wire::{CompressedMessage, Request};
use deferred::DeferredRequest;
use locked::LockedStatement;

/// Answers requests by running commands.
#[derive(Clone)]
pub struct Commands(Arc<Context>);

/// The outcome of one attempt to run a request.
enum Attempt {
    Replied,
    Streaming,
    Work(Box<dyn Work>),
    /// An earlier attempt still uses the session. Nothing has been done yet.
    Busy(Busy, Option<Instant>),
    /// A schema change needs a collection that the statement of a transaction uses. Nothing has been done yet.
    Locked(Box<LockedStatement>),
}

/// A request of this many bytes may take long to read.
const LARGE: usize = 64 << 10;
/// A request of this many bytes may hold so many conditions that parsing and planning take tens of milliseconds. It must not
/// block a worker of the runtime that long, and it must not continue after its client has left.
const VERY_LARGE: usize = 256 << 10;

/// All commands by name and alias. Built once.
static BY_NAME: LazyLock<HashMap<&'static [u8], &'static Command, ahash::RandomState>> =
    LazyLock::new(|| {
        COMMANDS
            .entries()
            .iter()
            .flat_map(|command| command.names().map(move |name| (name.as_bytes(), command)))
            .collect()
    });

/// Returns the command with this name or alias.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    BY_NAME.get(name).copied()
}

// === impl Commands ===

impl Commands {
    pub fn new(context: Arc<Context>) -> Self {
        Self(context)
    }

    pub fn context(&self) -> &Arc<Context> {
        &self.0
    }

    /// Checks that the client may run a request that is answered elsewhere.
    #[inline]
    pub fn admit(&self, connection: &Connection, request: &Request) -> Result<()> {
        match self.0.users.is_on() {
            true => guard::admit(&self.0, &connection.client, request),
            false => Ok(()),
        }
    }
}

impl Handler for Commands {
    type Connection = Connection;

    fn open(&self, peer: Peer) -> Connection {
        Connection::new(&self.0, peer)
    }

    fn rejected(&self) {
        let counter = &self.0.connections.rejected;
        counter.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    fn moved(&self, connection: &Connection, traffic: Traffic) {
        let shard = Counters::shard(connection.client.id);
        self.0.counters.moved(shard, traffic);
    }

    fn message_compressed(&self, message: CompressedMessage, came: bool) {
        self.0.counters.message_compressed(message, came);
    }

    fn may_answer_at_length(&self, request: &Request) -> bool {
        let name = request.body().first();
        name.and_then(|name| find(name.name_bytes()))
            .is_some_and(Command::shows_documents)
    }

    /// Runs a request, at once or as work.
    #[inline]
    fn call(
        &self,
        connection: &mut Connection,
        request: Request,
        out: &mut Vec<u8>,
    ) -> Result<handler::CallOutcome, Hangup> {
        let Connection {
            client, session, ..
        } = connection;
        if self.0.fail_points.is_on() {
            let asked = DeferredRequest::new(&self.0, client, request);
            return Ok(handler::CallOutcome::Work(faulted::struck(asked)));
        }
        if may_plan_long(&request) {
            let mut waiting = DeferredRequest::new(&self.0, client, request);
            waiting.announces = true;
            return Ok(handler::CallOutcome::Work(Box::new(waiting)));
        }
        Ok(
            match attempt(&self.0, client, session, &request, None, out) {
                Attempt::Replied => handler::CallOutcome::Replied,
                Attempt::Streaming => handler::CallOutcome::Streaming,
                Attempt::Work(work) => handler::CallOutcome::Work(work),
                // The deferred request tries once more before it waits.
                Attempt::Busy(..) => handler::CallOutcome::Work(Box::new(DeferredRequest::new(
                    &self.0, client, request,
                ))),
                Attempt::Locked(locked) => {
                    let mut waiting = DeferredRequest::new(&self.0, client, request);
                    waiting.locked = Some(locked);
                    handler::CallOutcome::Work(Box::new(waiting))
                }
            },
        )
    }
}

/// Returns a request as work, for commands that run other commands.
pub(in crate::command) fn later(
    context: &Arc<Context>,
    client: &Arc<Client>,
    request: Request,
) -> Box<dyn Work> {
    Box::new(DeferredRequest::new(context, client, request))
}

/// Runs a request. `resumed` is its transaction, if it has waited for a schema change.
fn attempt(
    context: &Arc<Context>,
    client: &Arc<Client>,
    session: &mut Option<Arc<Session>>,
    request: &Request,
    resumed: Option<Box<LockedStatement>>,
    out: &mut Vec<u8>,
) -> Attempt {
    let start = out.len();
    let shard = Counters::shard(client.id);
    let command = match look_up(request) {
        Ok(command) => command,
        Err(error) => {
            context.counters.unknown(shard);
            reply::fail(out, start, &error);
            context.put_time(out, start);
            return Attempt::Replied;
        }
    };
    if resumed.is_none() {
        context.counters.ran(shard, command);
        if !command.facts.flags.has(Flags::UNCOUNTED) {
            context.counters.add(shard, Counter::Command, 1);
        }
    }
    let ran = run(context, client, session, request, command, resumed, out);
    context.reaper.note_request();
    match ran {
        Ok(done @ (Attempt::Replied | Attempt::Streaming)) => {
            context.put_time(out, start);
            done
        }
        Ok(other) => {
            out.truncate(start);
            other
        }
        Err(error) => {
            context.counters.failed(shard, command, &error);
            let error = match request.body().has("autocommit") {
                true => transaction::labelled(error),
                false => error,
            };
            reply::fail(out, start, &error);
            context.put_time(out, start);
            Attempt::Replied
        }
    }
}

fn look_up(request: &Request) -> Result<&'static Command> {
    let name = request
        .body()
        .first()
        .ok_or_else(|| Error::new(Code::CommandNotFound, "no such command: ''"))?;
    let command = find(name.name_bytes()).ok_or_else(|| {
        Error::new(
            Code::CommandNotFound,
            format!("no such command: '{}'", name.name()),
        )
    })?;
    if request.query_database.is_some() && !command.facts.flags.has(Flags::LEGACY) {
        return Err(Error::new(
            Code::UnsupportedOpQueryCommand,
            format!(
                "Unsupported OP_QUERY command: {}. The client driver may require an upgrade. For more details see \
                 https://dochub.mongodb.org/core/legacy-opcode-removal",
                name.name()
            ),
        ));
    }
    Ok(command)
}

#[inline]
fn run(
    context: &Arc<Context>,
    client: &Arc<Client>,
    session: &mut Option<Arc<Session>>,
    request: &Request,
    command: &'static Command,
    resumed: Option<Box<LockedStatement>>,
    out: &mut Vec<u8>,
) -> Result<Attempt> {
    let Status::Ready(run) = command.status else {
        return Err(planned(context, client, command));
    };
    let stopwatch = client.repeats.start(command);
    let named;
    let mut own = SmallVec::new();
    let generic = Generic::parse(command, &context.config.topology, request, &mut own)?;
    if let Some(target) = own.first_mut()
        && target.value.ty() == Type::Binary
        && command.facts.flags.has(Flags::BY_UUID)
    {
        named = collection_uuid::resolve(context, generic.database, target.value)?;
        *target = target.with_value(named.as_ref());
    }
    if generic.help {
        put_help(command, out);
        return Ok(Attempt::Replied);
    }
    let now = context.clock.now();
    if let Some(time) = generic.cluster_time {
        cluster_time::advance(&context.catalog, time, now)?;
    }
    let mut deadline = match generic.max_time_millis {
        0 => None,
        millis => deadline(context, command, millis)?,
    };
    let mut call = Call {
        context,
        client,
        command,
        request,
        now,
        deadline,
        retry: None,
        transaction: None,
        snapshot: None,
        effort: Effort::default(),
        has_begun_to_write: Cell::new(false),
        lock_wait: None,
        rights: Rights::All,
        generic,
        own: &own,
    };
    if context.users.is_on() {
        guard::enter(&mut call)?;
    }
    // An explained command is not refused.
    if let Some(unmet) = &call.generic.write_concern.unmet {
        unmet.check_standalone()?;
    }
    if context.cosmos.strict {
        cosmos::check_strict(&call)?;
    }
    if context.is_attentive {
        attend(&call)?;
    }
    if let Some(concern) = &call.generic.read_concern {
        concern.check_times(context.catalog.time().latest())?;
    }
    if let Some(starts) = call.generic.transaction {
        match resumed {
            Some(locked) => {
                locked.resume(&mut call);
                deadline = call.deadline;
            }
            None => match join(&mut call, session, starts) {
                Ok(None) => {}
                Ok(Some(busy)) => return Ok(Attempt::Busy(busy, deadline)),
                Err(error) if transaction::is_uncertain(&call, &error) => {
                    tell_uncertain(&call, &error, out);
                    return Ok(Attempt::Replied);
                }
                Err(error) => return Err(error),
            },
        }
    } else if let (Some(number), Some(id)) = (call.generic.number, &call.generic.session)
        && command.facts.flags.has(Flags::RETRYABLE)
    {
        match context.sessions.get(id, session)?.check_out(number)? {
            Ok(checked_out) => call.retry = Some(checked_out),
            Err(busy) => return Ok(Attempt::Busy(busy, deadline)),
        }
    }
    if let Some(concern) = &call.generic.read_concern
        && call.transaction.is_none()
    {
        call.snapshot = concern.open_snapshot(&context.catalog)?;
    }
    // A client may ask for an unacknowledged write and still get a reply. That reply counts nothing.
    let terse = call.generic.write_concern.unacknowledged
        && command.facts.access == Access::Write
        && command.name != "findAndModify";
    let meter = cosmos::Meter::begin(&call)?;
    let start = out.len();
    let mut builder = DocBuilder::begin(out);
    let operation = may_read_long(&call).then(|| list(&call));
    let killed = operation.as_ref().map(Operation::killed);
    let outcome = match deadline.is_some() || killed.is_some() {
        false => begin(&mut call, run, &mut builder),
        true => Limit {
            deadline,
            killed,
            ..Limit::default()
        }
        .watch(|| begin(&mut call, run, &mut builder)),
    };
    if let Some(locked) = LockedStatement::of(&mut call) {
        builder.end();
        return Ok(Attempt::Locked(locked));
    }
    let outcome = match outcome {
        Ok(Outcome::Work(task)) => {
            builder.end();
            let operation = operation.unwrap_or_else(|| list(&call));
            let work = go_on(&mut call, task, operation, meter, terse, stopwatch);
            return Ok(Attempt::Work(work));
        }
        outcome => outcome,
    };
    let unmet = match call.generic.write_concern.unmet.as_deref() {
        None => None,
        Some(unmet) => is_unmet(&call, unmet, outcome.is_ok()).then_some(unmet),
    };
    if outcome.is_ok() {
        if let Some(unmet) = unmet {
            unmet.put(command, &mut builder);
        }
        builder.put_f64("ok", 1.0);
    }
    builder.end();
    if !matches!(outcome, Ok(Outcome::Stream)) {
        note_usage(&call, stopwatch.as_ref());
    }
    if let Some(meter) = meter {
        let said = match outcome {
            Ok(_) => reply::behind(out, start),
            Err(_) => Doc::EMPTY,
        };
        meter.end(context, client, call.effort, said);
    }
    if let Some(joined) = call.transaction.take() {
        let reply = outcome.as_ref().map(|_| reply::behind(out, start));
        transaction::finish(context, joined, reply);
    }
    if let (Err(error), Some(unmet)) = (&outcome, unmet) {
        let shard = Counters::shard(client.id);
        context.counters.failed(shard, command, error);
        reply::fail_and_tell(out, start, error, |reply| unmet.put(command, reply));
        return Ok(Attempt::Replied);
    }
    match outcome? {
        Outcome::Stream => Ok(Attempt::Streaming),
        _ => {
            if terse {
                reply::shorten(out, start);
            }
            Ok(Attempt::Replied)
        }
    }
}

/// Counts a command that was answered at once.
#[inline]
fn note_usage(call: &Call<'_>, stopwatch: Option<&Stopwatch>) {
    call.context.note_usage(call.client, &used(call), stopwatch);
}

fn used<'a>(call: &Call<'a>) -> Used<'a> {
    let (database, first) = (call.generic.database, call.target());
    Used::new(
        call.command,
        database,
        first,
        call.body(),
        Some(call.request),
    )
}

/// Runs a command. A statement of a transaction uses its collection from now on.
#[inline]
fn begin(call: &mut Call<'_>, run: super::Run, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    if call.transaction.is_some() {
        transaction::check_target(call)?;
        locked::use_target(call)?;
    }
    run(call, reply)
}

/// Makes the call part of its transaction, unless another command of the session still runs. The hot path stays small without
/// it.
#[cold]
#[inline(never)]
fn join(
    call: &mut Call<'_>,
    cached: &mut Option<Arc<Session>>,
    starts: bool,
) -> Result<Option<Busy>> {
    transaction::check(call, starts)?;
    let (Some(number), Some(id)) = (call.generic.number, &call.generic.session) else {
        return Ok(None);
    };
    let session = call.context.sessions.get(id, cached)?;
    let joining = transaction::joining(call, starts);
    match session.join(number, joining, call.now, call.client.id)? {
        Ok(joined) => {
            let same = joined.api().map_or(Ok(()), |api| {
                stable_api::check_transaction(call.command.name, call.body(), api)
            });
            if let Err(error) = same {
                joined.keep();
                return Err(error);
            }
            call.transaction = Some(joined);
        }
        Err(busy) => return Ok(Some(busy)),
    }
    Ok(None)
}

/// Writes the reply to a commit or an abort that finds no transaction, and whose write concern cannot be met either.
#[cold]
fn tell_uncertain(call: &Call<'_>, error: &Error, out: &mut Vec<u8>) {
    let shard = Counters::shard(call.client.id);
    call.context.counters.failed(shard, call.command, error);
    let (start, unmet) = (out.len(), call.generic.write_concern.unmet.as_deref());
    reply::fail_and_tell(out, start, error, |reply| {
        if let Some(unmet) = unmet {
            unmet.put(call.command, reply);
        }
    });
}

/// Returns whether the reply must tell that the write concern is not satisfied.
#[cold]
fn is_unmet(call: &Call<'_>, unmet: &UnmetConcern, succeeded: bool) -> bool {
    unmet.concerns(call.command, call.body(), call.effort)
        && (succeeded || call.has_begun_to_write.get())
}

/// Returns when the time of a command is over. What `maxTimeMS` means to a getMore depends on its cursor.
#[cold]
fn deadline(context: &Context, command: &Command, millis: u64) -> Result<Option<Instant>> {
    let left = context.fail_points.time_left(Duration::from_millis(millis));
    if left.is_some_and(|left| left.is_zero()) && command.name != "getMore" {
        return Err(expired());
    }
    Ok(left.map(|left| monotonic() + left))
}

/// Prepares what changes would otherwise meet unprepared: ends that must be told before them, and the oplog for its readers.
#[cold]
#[inline(never)]
fn attend(call: &Call<'_>) -> Result<()> {
    let context = call.context;
    context.catalog.tell_ended(call.now);
    match &context.oplog {
        Some(log) if call.database() == OPLOG.0 => oplog::enter(call, log),
        _ => Ok(()),
    }
}

/// Refuses a command that is known but not built. A client that must log in and has not done so does not learn even that.
#[cold]
fn planned(context: &Context, client: &Client, command: &Command) -> Error {
    if context.users.is_on() && client.login.user(&context.users).is_none() {
        return guard::requires_login(command);
    }
    COMMANDS.refuse(command)
}

/// Writes the reply to a command with `help: true`.
#[cold]
fn put_help(command: &Command, out: &mut Vec<u8>) {
    let mut reply = DocBuilder::begin(out);
    let text = format!("help for: {} {}", command.name, command.facts.help);
    reply.put_str("help", &text).put_f64("ok", 1.0);
    reply.end();
}

/// Whether a command may take long before it becomes work: it parses a large request, or it evaluates the variables of
/// `let`.
#[inline]
fn may_read_long(call: &Call<'_>) -> bool {
    size(call.request) >= LARGE || call.arg("let").is_some()
}

/// Whether the request may hold very many conditions. Inserted documents hold none.
#[inline]
fn may_plan_long(request: &Request) -> bool {
    let first = || request.body().first();
    size(request) >= VERY_LARGE && first().is_some_and(|name| name.name_bytes() != b"insert")
}

/// Returns the bytes of the command and of the documents that came with it.
#[inline]
fn size(request: &Request) -> usize {
    let outside = request.sequences.iter().map(|part| part.documents.len());
    request.body.len() + outside.sum::<usize>()
}

/// Adds a command to the list that currentOp shows and killOp uses.
#[cold]
fn list(call: &Call<'_>) -> Operation {
    call.context.operations.begin(call)
}

/// Turns a command that takes longer into work.
fn go_on(
    call: &mut Call<'_>,
    task: Box<dyn Task>,
    operation: Operation,
    meter: Option<cosmos::Meter>,
    terse: bool,
    stopwatch: Option<Stopwatch>,
) -> Box<dyn Work> {
    let unmet = call.generic.write_concern.unmet.take();
    Box::new(RunningCommand {
        stopwatch: stopwatch.unwrap_or_else(|| Stopwatch::since(operation.info.started)),
        statements: used(call).statements,
        task,
        command: call.command,
        context: Arc::clone(call.context),
        limit: Limit {
            deadline: call.deadline,
            killed: Some(operation.killed()),
            ..Limit::default()
        },
        operation,
        meter,
        shard: Counters::shard(call.client.id),
        terse,
        unmet: unmet.map(|unmet| (unmet, call.request.clone())),
        transaction: call.transaction.take(),
        _snapshot: call.snapshot.take(),
    })
}

#[cfg(test)]
mod tests;
