//! What a fail point does, and to which commands.

use std::time::Duration;

use super::labels;
use crate::args::{Arg, fields};
use crate::command::{Client, Command, Flags, find};
use crate::cosmos::{TOO_MANY_REQUESTS, too_many_requests};
use crate::error::{Code, Error, Result};
use crate::value::{Doc, DocBuf, DocBuilder};
use crate::wire::Request;

/// The `data` of a `failCommand`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fault {
    /// The commands that it strikes, or all commands.
    commands: Vec<&'static str>,
    all: bool,
    app_name: Option<String>,
    namespace: Option<String>,
    /// The name of the connection, as currentOp shows it.
    thread_name: Option<String>,
    /// What it does. It first waits, and then closes the connection or refuses the command. Or it lets the command run and
    /// adds an error to the reply.
    pub block: Option<Duration>,
    pub close: bool,
    code: Option<Code>,
    extra: Option<DocBuf>,
    labels: Option<Vec<String>>,
    pub write_concern_error: Option<DocBuf>,
}

/// Errors which say that the member is not the primary, or no longer.
const NOT_PRIMARY: &[i32] = &[189, 10107, 11602, 13435, 13436];

/// The waiting time in a refusal with [`TOO_MANY_REQUESTS`].
const RETRY_AFTER_MILLIS: i64 = 10;

// === impl Fault ===

impl Fault {
    pub fn parse(data: Doc<'_>) -> Result<Self> {
        let mut fault = Self::default();
        let mut block_millis = None;
        let mut blocks = false;
        for arg in fields("failCommand", data) {
            match arg.name() {
                "failCommands" => {
                    // A name that is not a command strikes nothing.
                    for elem in arg.array()?.unwrap_or(Doc::EMPTY) {
                        let found = find(elem.value.as_str().unwrap_or_default().as_bytes());
                        fault.commands.extend(found.map(|command| command.name));
                    }
                }
                "failAllCommands" => fault.all = arg.bool()?.unwrap_or(false),
                "appName" => fault.app_name = arg.str()?.map(ToOwned::to_owned),
                "namespace" => fault.namespace = arg.str()?.map(ToOwned::to_owned),
                "threadName" => fault.thread_name = arg.str()?.map(ToOwned::to_owned),
                "errorCode" => fault.code = code(&arg)?,
                "errorExtraInfo" => fault.extra = arg.doc()?.map(DocBuf::from),
                "errorLabels" => fault.labels = read_labels(&arg)?,
                "closeConnection" => fault.close = arg.bool()?.unwrap_or(false),
                "blockConnection" => blocks = arg.bool()?.unwrap_or(false),
                "blockTimeMS" => block_millis = arg.int()?,
                "writeConcernError" => {
                    fault.write_concern_error = arg.doc()?.map(DocBuf::from);
                }
                // Options for servers that are clients of each other.
                "failInternalCommands" | "failLocalClients" => drop(arg.bool()?),
                _ => return Err(arg.unknown()),
            }
        }
        if blocks {
            fault.block = Some(Duration::from_millis(block_time(block_millis)?));
        }
        Ok(fault)
    }

    /// Whether it applies to this command from this client. It never applies to `configureFailPoint`, because then nothing
    /// could turn it off.
    fn concerns(&self, client: &Client, command: &Command) -> bool {
        let is_thread = |wanted: &str| {
            let number = wanted.strip_prefix("conn");
            number.and_then(|number| number.parse().ok()) == Some(client.id)
        };
        command.name != super::COMMAND.name
            && (self.all || self.commands.contains(&command.name))
            && self.thread_name.as_deref().is_none_or(is_thread)
    }

    /// Whether it strikes this request.
    pub fn strikes(&self, client: &Client, command: &Command, request: &Request) -> bool {
        let body = request.body();
        let app_name = || client.app_name().or_else(|| application_name(body));
        self.concerns(client, command)
            && (self.app_name.as_deref()).is_none_or(|wanted| app_name() == Some(wanted))
            && (self.namespace.as_deref()).is_none_or(|wanted| names(body, wanted))
            && self.does_anything_to(command)
    }

    /// Whether it strikes a statement on `(database, collection)`. The command has many statements.
    pub fn strikes_statement(
        &self,
        client: &Client,
        command: &Command,
        (database, collection): (&str, &str),
    ) -> bool {
        let is_namespace = |wanted: &str| wanted.split_once('.') == Some((database, collection));
        self.is_rate_limit()
            && self.concerns(client, command)
            && (self.app_name.as_deref()).is_none_or(|wanted| client.app_name() == Some(wanted))
            && self.namespace.as_deref().is_none_or(is_namespace)
    }

    fn does_anything_to(&self, command: &Command) -> bool {
        if self.is_rate_limit() && command.facts.flags.has(Flags::STATEMENTS) {
            return false;
        }
        self.block.is_some()
            || self.close
            || self.code.is_some()
            || self.write_concern_error.is_some() && command.facts.flags.has(Flags::WRITE_CONCERN)
    }

    /// Whether it refuses as a spent budget does. Then a command with statements is not refused as a whole, but statement by
    /// statement.
    fn is_rate_limit(&self) -> bool {
        let code = self.code.map(Code::number);
        code == Some(TOO_MANY_REQUESTS) && !self.close && self.block.is_none()
    }

    /// Returns the error that replaces a statement's result.
    pub fn refusal(&self) -> Option<Error> {
        self.code.map(|code| match code.number() {
            // The client reads the waiting time from the message.
            TOO_MANY_REQUESTS => too_many_requests(RETRY_AFTER_MILLIS),
            _ => Error::new(code, "Failing command via 'failCommand' failpoint"),
        })
    }

    /// Returns the error that replaces the command's reply.
    pub fn error(&self, request: &Request) -> Option<Error> {
        let mut error = self.refusal()?;
        let code = error.code().number();
        let details = DocBuf::build(|details| {
            if let Some(extra) = &self.extra {
                details.put_body(extra.as_doc().body());
            }
            if let Some(labels) = &self.labels {
                put_labels(labels.iter().map(String::as_str), details);
            }
        });
        if self.labels.is_none()
            && let Some(label) = labels::of_error(code, request.body(), None)
        {
            error = error.with_label(label);
        }
        Some(match details.as_doc().is_empty() {
            true => error,
            false => error.with_details(details.into_bytes()),
        })
    }

    /// Writes the `errorLabels` of an error of the write concern: the labels in the data, even if that list is empty, else
    /// those that mongod gives such an error.
    pub fn put_labels(&self, request: &Request, reply: &mut DocBuilder<'_>) {
        match &self.labels {
            Some(labels) => put_labels(labels.iter().map(String::as_str), reply),
            None => {
                let code = self.code_of_concern();
                let label = code.and_then(|code| labels::of_write(code, request.body()));
                put_labels(label.into_iter(), reply);
            }
        }
    }

    /// Whether the error says that the member is not the primary. A member of a replica set then adds its `topologyVersion`.
    /// A driver that already knows this version keeps trusting the member, instead of waiting for its next heartbeat.
    pub fn denies_primary(&self) -> bool {
        self.has_code_in(NOT_PRIMARY)
    }

    fn has_code_in(&self, codes: &[i32]) -> bool {
        let code = self.code.map(Code::number);
        let code = code.or_else(|| self.code_of_concern());
        code.is_some_and(|code| codes.contains(&code))
    }

    fn code_of_concern(&self) -> Option<i32> {
        let error = self.write_concern_error.as_ref()?.as_doc();
        error.get("code").as_num()?.to_i64_exact()?.try_into().ok()
    }
}

/// Writes `errorLabels`, unless there are none.
fn put_labels<'l>(labels: impl Iterator<Item = &'l str>, reply: &mut DocBuilder<'_>) {
    let mut labels = labels.peekable();
    if labels.peek().is_none() {
        return;
    }
    let mut array = reply.array("errorLabels");
    for label in labels {
        array.push_str(label);
    }
    array.end();
}

/// Reads the code of an error.
pub fn code(arg: &Arg<'_>) -> Result<Option<Code>> {
    let code = arg.int()?.and_then(|code| i32::try_from(code).ok());
    Ok(code.map(Code::numbered))
}

/// Checks the blocking time. mongod checks it when the fail point strikes; here an invalid time cannot be set.
fn block_time(millis: Option<i64>) -> Result<u64> {
    let millis = millis.ok_or("must specify 'blockTimeMS' when 'blockConnection' is true");
    let millis = millis
        .and_then(|millis| u64::try_from(millis).map_err(|_| "'blockTimeMS' must be non-negative"));
    millis.map_err(|words| Error::new(Code::InvalidOptions, words))
}

fn read_labels(arg: &Arg<'_>) -> Result<Option<Vec<String>>> {
    let labels = arg.array()?.map(|labels| {
        labels
            .iter()
            .filter_map(|elem| elem.value.as_str().map(ToOwned::to_owned))
            .collect()
    });
    Ok(labels)
}

/// Returns the name that an application gives itself in its first hello.
fn application_name(body: Doc<'_>) -> Option<&str> {
    let client = body.get("client").as_doc()?;
    client.get("application").as_doc()?.get("name").as_str()
}

/// Whether the command is about this collection.
fn names(body: Doc<'_>, namespace: &str) -> bool {
    let Some((db, collection)) = namespace.split_once('.') else {
        return false;
    };
    let target = body.first().and_then(|elem| elem.value.as_str());
    let target = target.or_else(|| body.get("collection").as_str());
    body.get("$db").as_str() == Some(db) && target == Some(collection)
}
