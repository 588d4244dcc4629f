//! What a request costs: measured where somebody wants to know, and taken from the budget where there is one.

use std::sync::Arc;
use std::time::Instant;

use crate::clock::monotonic;
use crate::command::{
    Access, Call, Client, Command, Commands, Connection, Context, Flags, Needs, Outcome, find,
    reply,
};
use crate::cosmos::{LastRequest, Usage};
use crate::engine::take_examined;
use crate::error::{Hangup, Result};
use crate::handler::{self, Progress, Work};
use crate::value::{Doc, DocBuilder, ValueRef};
use crate::wire::Request;

pub const LAST_REQUEST: Command = Command::ready(
    "getLastRequestStatistics",
    Access::None,
    "Shows what the last request on this connection cost in request units (Cosmos DB).",
    last_request,
)
.with(Flags::SECONDARY)
.needs(Needs::Nothing);

/// A request that is measured.
struct Meter {
    context: Arc<Context>,
    client: Arc<Client>,
    command: &'static Command,
    request: Request,
    begun: Instant,
    examined: u64,
}

/// One that takes longer.
struct Metered {
    work: Box<dyn Work>,
    meter: Meter,
}

fn last_request(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    call.only(&[])?;
    // Without --cosmos nobody has measured yet: from now on it is done.
    call.context.cosmos.start_metering();
    let last = call.client.last_request().unwrap_or(LastRequest {
        command: "",
        charge: 0.0,
        millis: 0.0,
    });
    reply
        .put_str("_t", "GetRequestStatisticsResponse")
        .put_str("CommandName", last.command)
        .put_f64("RequestCharge", last.charge)
        .put_f64("RequestDurationInMilliSeconds", last.millis);
    Ok(Outcome::Reply)
}

/// Runs a request and measures it. What touches no data is not counted as one.
#[cold]
pub fn metered(
    commands: &Commands,
    connection: &mut Connection,
    request: Request,
    out: &mut Vec<u8>,
) -> Result<handler::Outcome, Hangup> {
    let command = request.body().first();
    let command = command.and_then(|elem| find(elem.name_bytes()));
    let Some(command) = command.filter(|command| command.access != Access::None) else {
        return commands.answer(connection, request, out);
    };
    let mut meter = Meter {
        context: Arc::clone(commands.context()),
        client: Arc::clone(&connection.client),
        command,
        request: request.clone(),
        begun: monotonic(),
        examined: 0,
    };
    let start = out.len();
    if let Err(error) = meter.admit() {
        reply::fail(out, start, &error);
        meter.note(0.0);
        return Ok(handler::Outcome::Replied);
    }
    take_examined();
    let outcome = commands.answer(connection, request, out)?;
    meter.examined = take_examined();
    Ok(match outcome {
        handler::Outcome::Work(work) => handler::Outcome::Work(Box::new(Metered { work, meter })),
        done => {
            meter.finish(Doc::new(out.get(start..).unwrap_or_default()));
            done
        }
    })
}

// === impl Meter ===

impl Meter {
    /// Statements of a write are let in one by one, everything else as a whole.
    fn admit(&self) -> Result<()> {
        let cosmos = &self.context.cosmos;
        match self.place() {
            Some((database, collection)) if !self.has_statements() => {
                cosmos.admit(database, collection, self.context.clock.now())
            }
            _ => Ok(()),
        }
    }

    fn has_statements(&self) -> bool {
        matches!(
            self.command.name,
            "insert" | "update" | "delete" | "bulkWrite"
        )
    }

    /// The collection that the request is about.
    fn place(&self) -> Option<(&str, &str)> {
        let body = self.request.body();
        let name = match self.command.name {
            "customAction" => return None,
            "getMore" => body.get("collection").as_str()?,
            _ => body.first()?.value.as_str()?,
        };
        Some((body.get("$db").as_str()?, name))
    }

    fn finish(&self, reply: Doc<'_>) {
        let charge = self.usage(reply).charge();
        if !self.has_statements()
            && let Some((database, collection)) = self.place()
        {
            let now = self.context.clock.now();
            self.context
                .cosmos
                .charge(database, collection, now, charge);
        }
        self.note(charge);
    }

    fn note(&self, charge: f64) {
        let took = monotonic().saturating_duration_since(self.begun);
        self.client.set_last_request(LastRequest {
            command: self.command.name,
            charge,
            millis: took.as_secs_f64() * 1000.0,
        });
    }

    /// What was done, as far as request and reply show it.
    fn usage(&self, reply: Doc<'_>) -> Usage {
        let count = |name: &str| number(reply.get(name));
        let cursor = reply.get("cursor").as_doc().unwrap_or(Doc::EMPTY);
        let batch = ["firstBatch", "nextBatch"]
            .iter()
            .find_map(|name| cursor.get(name).as_array());
        let sequences = self
            .request
            .sequences
            .iter()
            .map(|list| list.documents.len());
        let usage = Usage {
            examined: self.examined,
            returned: batch.map_or(0, |batch| batch.bytes().len()),
            sent: self.request.body.len() + sequences.sum::<usize>(),
            ..Usage::default()
        };
        match self.command.name {
            "insert" => Usage {
                inserted: count("n"),
                ..usage
            },
            "update" => Usage {
                updated: count("n"),
                ..usage
            },
            "delete" => Usage {
                deleted: count("n"),
                ..usage
            },
            "bulkWrite" => Usage {
                inserted: count("nInserted") + count("nUpserted"),
                updated: count("nMatched"),
                deleted: count("nDeleted"),
                ..usage
            },
            "findAndModify" => {
                let last = reply.get("lastErrorObject").as_doc().unwrap_or(Doc::EMPTY);
                Usage {
                    updated: number(last.get("n")),
                    ..usage
                }
            }
            _ => usage,
        }
    }
}

fn number(value: ValueRef<'_>) -> u64 {
    let number = value.as_num().and_then(|n| n.to_i64_exact());
    number.and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
}

// === impl Metered ===

impl Work for Metered {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<Progress, Hangup> {
        let start = out.len();
        take_examined();
        let progress = self.work.step(out)?;
        self.meter.examined += take_examined();
        if matches!(progress, Progress::Done | Progress::Streaming) {
            self.meter
                .finish(Doc::new(out.get(start..).unwrap_or_default()));
        }
        Ok(progress)
    }
}
