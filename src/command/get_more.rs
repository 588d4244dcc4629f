//! `getMore`: the next batch of an open cursor.

use std::time::Duration;

use super::args::required;
use super::{Access, Call, Command, Counted, Counters, Flags, Needs, Outcome, cursor};
use crate::aside::{Limit, expired};
use crate::auth::{Action, Target};
use crate::clock::monotonic;
use crate::engine::ddl::check_collection;
use crate::error::{Code, Error, Result};
use crate::session::CursorInfo;
use crate::value::DocBuilder;

pub(super) const COMMAND: Command = Command::ready(
    "getMore",
    Access::Read,
    "Returns the next batch of a cursor.",
    run,
)
.with(
    Flags::STABLE
        .and(Flags::SECONDARY)
        .and(Flags::SNAPSHOT)
        .and(Flags::UNCOUNTED),
)
.needs(Needs::Asked(may));

/// How long a getMore of an awaitData cursor waits, unless told otherwise.
const AWAIT_MILLIS: u64 = 1_000;

/// To read the collection, if it is one: what a command lists was allowed to be listed.
fn may(call: &Call<'_>) -> Result<bool> {
    let name = call.arg("collection").and_then(|arg| arg.value().as_str());
    Ok(match name {
        Some(name) if !name.starts_with("$cmd.") => {
            call.may(Target::Collection(call.database(), name), Action::Find)
        }
        _ => call.user().is_some(),
    })
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let shard = Counters::shard(call.client.id);
    call.context.counters.add(shard, Counted::GetMore, 1);
    let mut id = None;
    let mut collection = None;
    let mut batch_size = None;
    for arg in call.args() {
        match arg.name() {
            "getMore" => id = arg.i64()?,
            "collection" => collection = arg.str()?,
            "batchSize" => batch_size = arg.batch_size()?,
            "term" => {
                arg.i64()?;
            }
            "lastKnownCommittedOpTime" => {
                arg.doc()?;
            }
            "includeQueryStatsMetrics" => {
                arg.bool()?;
            }
            _ => return Err(arg.unknown()),
        }
    }
    let id = required(id, "getMore", "getMore")?;
    let collection = required(collection, "getMore", "collection")?;
    check_collection(call.database(), collection)?;
    let open = call.context.cursors.check_out(id)?;
    if let Err(refusal) = check(call, collection, id, &open.info) {
        call.context.cursors.put_back(open)?;
        return Err(refusal);
    }
    let mut until = None;
    if open.info.awaits {
        // Here the time limit says how long to wait for rows, and running into it is no error.
        let millis = match call.has_max_time() {
            true => call.max_time_millis(),
            false => AWAIT_MILLIS,
        };
        call.deadline = None;
        until = (millis > 0).then(|| monotonic() + Duration::from_millis(millis));
    } else if let Some(left) = open.info.time_left() {
        // The time limit of the opening command covers its getMores, too.
        if left.is_zero() {
            call.context.cursors.finish(id);
            return Err(expired());
        }
        call.deadline = Some(monotonic() + left);
    }
    // Zero is no limit here, as in MongoDB; only a first batch can be empty.
    let limit = batch_size.filter(|&size| size > 0).unwrap_or(u32::MAX);
    // Neither need be the limit that the command brought along.
    let time = Limit {
        deadline: call.deadline,
        killed: None,
    };
    time.watch(|| cursor::resume(call, reply, open, limit, until))
}

fn check(call: &Call<'_>, collection: &str, id: i64, info: &CursorInfo) -> Result<()> {
    if !call.owns(info.owner) {
        return Err(Error::new(
            Code::Unauthorized,
            format!("cursor id {id} was not created by the authenticated user"),
        ));
    }
    let namespace = call.namespace(collection);
    if *info.namespace != *namespace {
        return Err(Error::new(
            Code::Unauthorized,
            format!(
                "Requested getMore on namespace '{namespace}', but cursor belongs to a different namespace {}",
                info.namespace
            ),
        ));
    }
    match (&info.session, call.session()) {
        (Some(owner), None) => {
            return Err(Error::location(
                50736,
                format!(
                    "Cannot run getMore on cursor {id}, which was created in session {owner}, without an lsid"
                ),
            ));
        }
        (None, Some(session)) => {
            return Err(Error::location(
                50737,
                format!(
                    "Cannot run getMore on cursor {id}, which was not created in a session, in session {session}"
                ),
            ));
        }
        (Some(owner), Some(session)) if *owner != session => {
            return Err(Error::location(
                50738,
                format!(
                    "Cannot run getMore on cursor {id}, which was created in session {owner}, in session {session}"
                ),
            ));
        }
        _ => {}
    }
    if call.has_max_time() && !info.awaits {
        return Err(Error::bad_value(
            "cannot set maxTimeMS on getMore command for a non-awaitData cursor",
        ));
    }
    Ok(())
}
