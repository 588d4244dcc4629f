//! From a request to its command, and from what comes of it to a reply.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::LazyLock;
use std::time::Duration;

use smallvec::SmallVec;

use super::call::Call;
use super::client::{Client, Connection};
use super::counters::{Counted, Counters};
use super::generic::Generic;
use super::task::Running;
use super::{COMMANDS, Command, Context, Flags, Outcome, Status, reply};
use crate::clock::monotonic;
use crate::error::{Code, Error, Hangup, Result};
use crate::handler::{self, Handler, Peer, Progress, Work};
use crate::session::Session;
use crate::value::{DocBuf, DocBuilder};
use crate::wire::Request;

/// Answers requests by running commands.
#[derive(Clone)]
pub struct Commands(Arc<Context>);

/// What became of one attempt to run a request.
enum Attempt {
    Replied,
    Work(Box<dyn Work>),
    /// Its session is in use by an earlier attempt: nothing has happened yet.
    Busy,
}

/// A retryable write that waits for an earlier attempt of itself.
struct Waiting {
    context: Arc<Context>,
    client: Arc<Client>,
    request: Request,
    /// What it became when its turn came.
    running: Option<Box<dyn Work>>,
}

/// How soon a waiting write looks again. Earlier attempts are nearly always over by then.
const WAIT: Duration = Duration::from_millis(1);

/// Every name and alias. Built once.
static BY_NAME: LazyLock<HashMap<&'static [u8], &'static Command, ahash::RandomState>> =
    LazyLock::new(|| {
        COMMANDS
            .iter()
            .flat_map(|command| command.names().map(move |name| (name.as_bytes(), command)))
            .collect()
    });

/// The command of that name.
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
}

impl Handler for Commands {
    type Connection = Connection;

    fn open(&self, peer: Peer) -> Connection {
        Connection::new(&self.0, peer)
    }

    fn call(
        &self,
        connection: &mut Connection,
        request: Request,
        out: &mut Vec<u8>,
    ) -> Result<handler::Outcome, Hangup> {
        let Connection {
            client, session, ..
        } = connection;
        Ok(match attempt(&self.0, client, session, &request, out) {
            Attempt::Replied => handler::Outcome::Replied,
            Attempt::Work(work) => handler::Outcome::Work(work),
            Attempt::Busy => handler::Outcome::Work(Box::new(Waiting {
                context: Arc::clone(&self.0),
                client: Arc::clone(client),
                request,
                running: None,
            })),
        })
    }
}

fn attempt(
    context: &Arc<Context>,
    client: &Arc<Client>,
    session: &mut Option<Arc<Session>>,
    request: &Request,
    out: &mut Vec<u8>,
) -> Attempt {
    let start = out.len();
    let shard = Counters::shard(client.id);
    let command = match look_up(request) {
        Ok(command) => command,
        Err(error) => {
            context.counters.add(shard, Counted::Command, 1);
            reply::fail(out, start, &error);
            return Attempt::Replied;
        }
    };
    context.counters.ran(shard, command);
    context.reaper.note_request();
    if !command.flags.has(Flags::UNCOUNTED) {
        context.counters.add(shard, Counted::Command, 1);
    }
    match run(context, client, session, request, command, out) {
        Ok(Attempt::Replied) => Attempt::Replied,
        Ok(other) => {
            out.truncate(start);
            other
        }
        Err(error) => {
            context.counters.failed(shard, command);
            reply::fail(out, start, &error);
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
    if request.query_database.is_some() && !command.flags.has(Flags::LEGACY) {
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
    out: &mut Vec<u8>,
) -> Result<Attempt> {
    let mut own = SmallVec::new();
    let generic = Generic::parse(command, &context.config.topology, request, &mut own)?;
    let Status::Ready(run) = command.status else {
        return Err(Error::not_implemented(format_args!(
            "command {}",
            command.name
        )));
    };
    let mut retry = None;
    if let (Some(number), Some(id)) = (generic.number, &generic.session)
        && command.flags.has(Flags::RETRYABLE)
    {
        match context.sessions.get(id, session)?.check_out(number)? {
            Ok(checked_out) => retry = Some(checked_out),
            Err(_busy) => return Ok(Attempt::Busy),
        }
    }
    let deadline = (generic.max_time_millis > 0)
        .then(|| monotonic() + Duration::from_millis(generic.max_time_millis));
    let mut call = Call {
        context,
        client,
        command,
        request,
        now: context.clock.now(),
        deadline,
        retry,
        generic,
        own,
    };
    let mut builder = DocBuilder::begin(out);
    match run(&mut call, &mut builder)? {
        Outcome::Reply => {
            builder.put_f64("ok", 1.0);
            builder.end();
            Ok(Attempt::Replied)
        }
        Outcome::Work(task) => {
            builder.end();
            let operation = context.operations.begin(
                command.name,
                call.database(),
                DocBuf::from_bytes(request.body.to_vec()),
                client,
                call.session(),
            );
            Ok(Attempt::Work(Box::new(Running {
                task,
                command,
                context: Arc::clone(context),
                operation,
                deadline,
                shard: Counters::shard(client.id),
            })))
        }
    }
}

// === impl Waiting ===

impl Work for Waiting {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<Progress, Hangup> {
        if let Some(running) = &mut self.running {
            return running.step(out);
        }
        match attempt(&self.context, &self.client, &mut None, &self.request, out) {
            Attempt::Replied => Ok(Progress::Done),
            Attempt::Busy => Ok(Progress::Sleep(WAIT)),
            Attempt::Work(work) => {
                self.running = Some(work);
                Ok(Progress::More)
            }
        }
    }
}
