//! The cost of a request: stored for clients that ask for it, and charged to the budget if there is one.

use std::time::Instant;

use crate::clock::monotonic;
use crate::command::{Access, Call, Client, Command, Context, Flags, Needs, Outcome};
use crate::cosmos::{LastRequest, Usage};
use crate::effort::Effort;
use crate::error::Result;
use crate::value::{Doc, DocBuilder};

pub const LAST_REQUEST: Command = Command::ready(
    "getLastRequestStatistics",
    Access::None,
    "Shows the request units that the last request on this connection cost (Cosmos DB).",
    last_request,
)
.with(Flags::SECONDARY)
.needs(Needs::Nothing);

/// A meter that charges one request for its work. Only commands that touch data count as requests.
pub struct Meter {
    command: &'static Command,
    /// Set if durations are measured.
    started_at: Option<Instant>,
    /// The database and collection whose budget pays, if budgets are on.
    collection_name: Option<(String, String)>,
}

fn last_request(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    call.only(&[])?;
    // Costs are always counted. Durations are measured from the first such question on, or from the start with --cosmos.
    call.context.cosmos.start_timing();
    let last = call.client.last_request().unwrap_or(LastRequest {
        command: "",
        usage: None,
        took: None,
    });
    reply
        .put_str("_t", "GetRequestStatisticsResponse")
        .put_str("CommandName", last.command)
        .put_f64("RequestCharge", last.charge())
        .put_f64("RequestDurationInMilliSeconds", last.millis());
    Ok(Outcome::Reply)
}

// === impl Meter ===

impl Meter {
    /// Begins to measure a request, if it counts. The request is refused if its budget is spent. A request with statements
    /// is not refused as a whole, because its statements are admitted one by one.
    #[inline]
    pub fn begin(call: &Call<'_>) -> Result<Option<Self>> {
        if call.command.facts.access == Access::None {
            return Ok(None);
        }
        let cosmos = &call.context.cosmos;
        let mut meter = Self {
            command: call.command,
            started_at: cosmos.is_timed().then(monotonic),
            collection_name: None,
        };
        if cosmos.is_limited()
            && let Some(collection) = collection_of(call)
        {
            let collection_name = (call.database(), collection);
            if !meter.has_statements()
                && let Err(refusal) = cosmos.admit(collection_name, call.context.clock.now())
            {
                meter.note(call.client, None);
                return Err(refusal);
            }
            meter.collection_name =
                Some((collection_name.0.to_owned(), collection_name.1.to_owned()));
        }
        Ok(Some(meter))
    }

    /// Ends the measurement and charges the request. A failed request pays for what it did before it failed.
    #[inline]
    pub fn end(self, context: &Context, client: &Client, effort: Effort, reply: Doc<'_>) {
        let mut usage = Usage {
            effort,
            returned: 0,
        };
        if !self.has_statements() {
            usage.returned = returned(reply);
        }
        if let Some((database, collection)) = &self.collection_name {
            let now = context.clock.now();
            let rest = match self.has_statements() {
                // Refused statements cost nothing.
                true if reply.has("writeErrors") => 0.0,
                true => (usage.charge() - usage.cost()).max(0.0),
                false => usage.charge(),
            };
            context.cosmos.charge((database, collection), now, rest);
        }
        self.note(client, Some(usage));
    }

    /// Whether the command has statements that are admitted and paid for one by one.
    fn has_statements(&self) -> bool {
        self.command.facts.flags.has(Flags::STATEMENTS)
    }

    #[inline]
    fn note(&self, client: &Client, usage: Option<Usage>) {
        client.set_last_request(LastRequest {
            command: self.command.name,
            usage,
            took: self
                .started_at
                .map(|started_at| monotonic().saturating_duration_since(started_at)),
        });
    }
}

/// Returns the collection whose documents the request uses, if it is a single one.
fn collection_of<'a>(call: &Call<'a>) -> Option<&'a str> {
    match call.command.name {
        "aggregate" | "count" | "delete" | "distinct" | "find" | "findAndModify" | "insert"
        | "update" => call.target().as_str(),
        "getMore" => call.arg("collection")?.value().as_str(),
        _ => None,
    }
}

/// Returns the bytes of the documents in a reply: a cursor's batch, the values of distinct, or the document of
/// findAndModify.
#[inline]
fn returned(reply: Doc<'_>) -> u64 {
    let found = reply.iter().find_map(|elem| match elem.name_bytes() {
        b"cursor" => elem.value.as_doc()?.iter().find_map(|part| {
            matches!(part.name_bytes(), b"firstBatch" | b"nextBatch")
                .then(|| part.value.as_array())?
        }),
        b"values" => elem.value.as_array(),
        b"value" => elem.value.as_doc(),
        _ => None,
    });
    found.map_or(0, |found| found.bytes().len() as u64)
}
