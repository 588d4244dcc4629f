//! `currentOp` and `killOp`: what runs now, and stopping it.

use super::args::truthy;
use super::operations::OperationInfo;
use super::{Access, Call, Command, Context, Flags, Outcome};
use crate::clock::monotonic;
use crate::error::{Code, Error, Result};
use crate::value::{Doc, DocBuf, DocBuilder, Millis};

pub(super) const COMMAND: Command =
    Command::ready("currentOp", Access::Admin, "Shows what runs now.", current)
        .with(Flags::ADMIN_ONLY.and(Flags::SECONDARY));

pub(super) const KILL: Command =
    Command::ready("killOp", Access::Admin, "Stops a running command.", kill)
        .with(Flags::ADMIN_ONLY.and(Flags::SECONDARY));

fn current(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let own = call.arg("$ownOps").is_some_and(|arg| truthy(arg.value()));
    let mut list = reply.array("inprog");
    for doc in documents(call.context, call.now) {
        if own && doc.as_doc().get("connectionId").as_i64() != Some(call.client.id.cast_signed()) {
            continue;
        }
        list.push_doc(doc.as_doc());
    }
    list.push_doc(itself(call).as_doc());
    list.end();
    Ok(Outcome::Reply)
}

/// Everything that takes several steps and is not over, as `$currentOp` shows it.
pub fn documents(context: &Context, now: Millis) -> Vec<DocBuf> {
    context
        .operations
        .all()
        .iter()
        .map(|operation| describe(operation, now))
        .collect()
}

fn describe(operation: &OperationInfo, now: Millis) -> DocBuf {
    let running = monotonic().saturating_duration_since(operation.started);
    let body = operation.body.as_doc();
    DocBuf::build(|doc| {
        doc.put_str("type", "op")
            .put_str("client", &operation.client.address.to_string())
            .put_i64("connectionId", operation.client.id.cast_signed());
        if let Some(name) = operation.client.app_name() {
            doc.put_str("appName", name);
        }
        doc.put_bool("active", true)
            .put_date("currentOpTime", now.0)
            .put_i64("opid", i64::from(operation.id))
            .put_i64(
                "secs_running",
                i64::try_from(running.as_secs()).unwrap_or(0),
            )
            .put_i64(
                "microsecs_running",
                i64::try_from(running.as_micros()).unwrap_or(i64::MAX),
            )
            .put_str("op", kind(operation.command))
            .put_str("ns", &namespace(&operation.database, body))
            .put_doc("command", body)
            .put_bool(
                "killPending",
                operation.killed.load(std::sync::atomic::Ordering::Relaxed),
            );
        if let Some(session) = &operation.session {
            session.put(doc, "lsid");
        }
    })
}

/// The asking command itself is always among those that run.
fn itself(call: &Call<'_>) -> DocBuf {
    DocBuf::build(|doc| {
        doc.put_str("type", "op")
            .put_str("client", &call.client.address.to_string())
            .put_i64("connectionId", call.client.id.cast_signed())
            .put_bool("active", true)
            .put_date("currentOpTime", call.now.0)
            .put_i64("opid", i64::from(call.context.operations.next_id()))
            .put_i64("secs_running", 0)
            .put_i64("microsecs_running", 0)
            .put_str("op", "command")
            .put_str("ns", &format!("{}.$cmd", call.database()))
            .put_doc("command", call.body());
    })
}

fn kind(command: &str) -> &str {
    match command {
        "find" => "query",
        "getMore" => "getmore",
        "insert" | "update" => command,
        "delete" => "remove",
        _ => "command",
    }
}

fn namespace(database: &str, body: Doc<'_>) -> String {
    let target = body.first().map(|elem| elem.value);
    let collection = body.get("collection").as_str();
    match collection.or_else(|| target?.as_str()) {
        Some(name) => format!("{database}.{name}"),
        None => format!("{database}.$cmd"),
    }
}

fn kill(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let Some(arg) = call.arg("op") else {
        return Err(Error::new(Code::NoSuchKey, "Missing expected field \"op\""));
    };
    let Some(number) = arg.value().as_num() else {
        return Err(Error::type_mismatch(format!(
            "Expected field \"op\" to have numeric type, but found {}",
            arg.value().ty().alias()
        )));
    };
    let id = number.to_i64_exact().ok_or_else(|| {
        Error::bad_value(format!(
            "Expected field \"op\" to have a value exactly representable as a 64-bit integer, but found op: {}",
            arg.value()
        ))
    })?;
    let id = i32::try_from(id).map_err(|_| {
        Error::location(
            26823,
            format!("invalid op : {id}. Op ID cannot be represented with 32 bits"),
        )
    })?;
    if let Ok(id) = u32::try_from(id) {
        call.context.operations.kill(id);
    }
    reply.put_str("info", "attempting to kill op");
    Ok(Outcome::Reply)
}
