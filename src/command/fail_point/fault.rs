//! What a fail point does, and to whom.

use std::time::Duration;

use crate::command::args::{Arg, fields};
use crate::command::{Client, find};
use crate::cosmos::{TOO_MANY_REQUESTS, too_many_requests};
use crate::error::{Code, Error, Result};
use crate::value::{Doc, DocBuf};
use crate::wire::Request;

/// The `data` of a `failCommand`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fault {
    /// Whom it strikes: these commands, or all.
    commands: Vec<&'static str>,
    all: bool,
    app_name: Option<String>,
    namespace: Option<String>,
    /// What it does: waits first, then loses the connection or refuses the command; or lets it run and finds fault with it.
    pub block: Option<Duration>,
    pub close: bool,
    code: Option<Code>,
    extra: Option<DocBuf>,
    labels: Option<Vec<String>>,
    pub write_concern_error: Option<DocBuf>,
}

/// Errors after which a driver tries a retryable write once more.
const RETRYABLE: &[i32] = &[
    6, 7, 89, 91, 134, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436,
];

// === impl Fault ===

impl Fault {
    pub fn parse(data: Doc<'_>) -> Result<Self> {
        let mut fault = Self::default();
        let mut block_millis = None;
        let mut blocks = false;
        for arg in fields("failCommand", data) {
            match arg.name() {
                "failCommands" => {
                    // A name that is no command strikes nobody.
                    for elem in arg.array()?.unwrap_or(Doc::EMPTY) {
                        let found = find(elem.value.as_str().unwrap_or_default().as_bytes());
                        fault.commands.extend(found.map(|command| command.name));
                    }
                }
                "failAllCommands" => fault.all = arg.bool()?.unwrap_or(false),
                "appName" => fault.app_name = arg.str()?.map(ToOwned::to_owned),
                "namespace" => fault.namespace = arg.str()?.map(ToOwned::to_owned),
                "errorCode" => {
                    let code = arg.int()?.and_then(|code| i32::try_from(code).ok());
                    fault.code = code.map(Code::numbered);
                }
                "errorExtraInfo" => fault.extra = arg.doc()?.map(DocBuf::from),
                "errorLabels" => fault.labels = labels(&arg)?,
                "closeConnection" => fault.close = arg.bool()?.unwrap_or(false),
                "blockConnection" => blocks = arg.bool()?.unwrap_or(false),
                "blockTimeMS" => block_millis = arg.int_at_least(0)?,
                "writeConcernError" => {
                    fault.write_concern_error = arg.doc()?.map(DocBuf::from);
                }
                // Of servers that have more than one kind of client and thread.
                "failInternalCommands" | "failLocalClients" => drop(arg.bool()?),
                "threadName" => drop(arg.str()?),
                _ => return Err(arg.unknown()),
            }
        }
        if blocks {
            let millis =
                block_millis.ok_or_else(|| Error::missing_field("failCommand", "blockTimeMS"))?;
            fault.block = Some(Duration::from_millis(millis.unsigned_abs()));
        }
        Ok(fault)
    }

    /// Whether it is about that request. `configureFailPoint` is spared, or nothing would ever end it.
    pub fn concerns(&self, client: &Client, request: &Request) -> bool {
        let body = request.body();
        let Some(command) = body.first().and_then(|elem| find(elem.name_bytes())) else {
            return false;
        };
        command.name != super::COMMAND.name
            && (self.all || self.commands.contains(&command.name))
            && self
                .app_name
                .as_deref()
                .is_none_or(|wanted| client.app_name().or_else(|| introduced(body)) == Some(wanted))
            && self
                .namespace
                .as_deref()
                .is_none_or(|wanted| names(body, wanted))
            && self.does_anything()
    }

    fn does_anything(&self) -> bool {
        self.block.is_some()
            || self.close
            || self.code.is_some()
            || self.write_concern_error.is_some()
    }

    /// The error that takes the command's place.
    pub fn error(&self, request: &Request) -> Option<Error> {
        let code = self.code?;
        let body = request.body();
        let retryable =
            body.has("txnNumber") && !body.has("autocommit") && RETRYABLE.contains(&code.number());
        let error = match code.number() {
            // A client that is to wait finds out how long from the words.
            TOO_MANY_REQUESTS => too_many_requests(10),
            _ => Error::new(code, "Failing command via 'failCommand' failpoint"),
        };
        Some(match &self.labels {
            // What is asked for is what is given, also if that is nothing.
            None if self.extra.is_none() && retryable => error.with_label("RetryableWriteError"),
            None if self.extra.is_none() => error,
            _ => error.with_details(
                DocBuf::build(|details| {
                    if let Some(extra) = &self.extra {
                        details.put_body(extra.as_doc().body());
                    }
                    self.put_labels(details);
                })
                .into_bytes(),
            ),
        })
    }

    pub fn put_labels(&self, reply: &mut crate::value::DocBuilder<'_>) {
        let Some(labels) = self.labels.as_ref().filter(|labels| !labels.is_empty()) else {
            return;
        };
        let mut array = reply.array("errorLabels");
        for label in labels {
            array.push_str(label);
        }
        array.end();
    }
}

fn labels(arg: &Arg<'_>) -> Result<Option<Vec<String>>> {
    let labels = arg.array()?.map(|labels| {
        labels
            .iter()
            .filter_map(|elem| elem.value.as_str().map(ToOwned::to_owned))
            .collect()
    });
    Ok(labels)
}

/// The name that an application gives itself in its first hello.
fn introduced(body: Doc<'_>) -> Option<&str> {
    let client = body.get("client").as_doc()?;
    client.get("application").as_doc()?.get("name").as_str()
}

/// Whether the command is about that collection.
fn names(body: Doc<'_>, namespace: &str) -> bool {
    let Some((db, collection)) = namespace.split_once('.') else {
        return false;
    };
    let target = body.first().and_then(|elem| elem.value.as_str());
    let target = target.or_else(|| body.get("collection").as_str());
    body.get("$db").as_str() == Some(db) && target == Some(collection)
}
