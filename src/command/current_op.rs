//! `currentOp` and `killOp`: list the running operations and stop one.

use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use super::operations::OperationInfo;
use super::{Access, Call, Client, Command, Context, Flags, Needs, Outcome};
use crate::auth::{Action, AuthTarget};
use crate::clock::monotonic;
use crate::engine::PlanSummary;
use crate::error::{Code, Error, Result};
use crate::query::Scope;
use crate::query::filter::Filter;
use crate::query::stage::CurrentOps;
use crate::session::{CursorId, CursorInfo, TransactionInfo};
use crate::value::{Doc, DocBuf, DocBuilder, Millis, Type, Value, ValueRef, is_true};

pub(super) const COMMAND: Command = Command::ready(
    "currentOp",
    Access::Admin,
    "Lists running commands.",
    current,
)
.with(Flags::ADMIN_ONLY.and(Flags::SECONDARY))
.needs(Needs::Asked(may_list));

pub(super) const KILL: Command =
    Command::ready("killOp", Access::Admin, "Stops a running command.", kill)
        .with(Flags::ADMIN_ONLY.and(Flags::SECONDARY))
        .needs(Needs::Asked(may_kill));

/// The length in bytes above which a command is truncated, if the client asks for truncation. The same as in mongod.
const LONG_COMMAND: usize = 1000;

/// A text that keeps only its first [`LONG_COMMAND`] bytes.
struct TruncatedText(String);

/// The fields of the command that are options and not part of its filter.
const OPTIONS: &[&str] = &["$all", "$ownOps", "$truncateOps"];

/// The client that sent the command, and the command itself, which is always in the list of running operations.
pub(super) struct CurrentOpCaller {
    context: Arc<Context>,
    client: Arc<Client>,
    /// The user of the client, if access control is on.
    owner: Option<[u8; 32]>,
    /// Whether the client may see the operations of other users.
    sees_all: bool,
    database: String,
    body: DocBuf,
    now: Millis,
}

fn may_list(call: &Call<'_>) -> Result<bool> {
    Ok(own_only(call) && call.user().is_some() || call.may(AuthTarget::Cluster, Action::Inprog))
}

fn own_only(call: &Call<'_>) -> bool {
    call.arg("$ownOps").is_some_and(|arg| is_true(arg.value()))
}

/// Returns whether the client may run `$currentOp` with these options. Every user may see their own operations.
pub(super) fn may_see(call: &Call<'_>, spec: ValueRef<'_>) -> bool {
    let all = spec
        .as_doc()
        .is_some_and(|spec| is_true(spec.get("allUsers")));
    !all && call.user().is_some() || call.may(AuthTarget::Cluster, Action::Inprog)
}

/// Returns whether the client may kill the operation. Every user may kill their own operations.
fn may_kill(call: &Call<'_>) -> Result<bool> {
    let users = &call.context.users;
    let id = call.arg("op").and_then(|arg| arg.value().as_num());
    let id = id.and_then(|id| u32::try_from(id.to_i64_exact()?).ok());
    let own = call.context.operations.all().iter().any(|running| {
        Some(running.id) == id
            && running
                .client
                .login
                .user(users)
                .is_some_and(|user| call.owns(Some(user.digest)))
    });
    Ok(own || call.may(AuthTarget::Cluster, Action::Killop))
}

fn current(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let set = |name| call.arg(name).is_some_and(|arg| is_true(arg.value()));
    let wanted = CurrentOps {
        all_users: !own_only(call),
        idle_connections: set("$all"),
        idle_cursors: false,
        idle_sessions: true,
        truncate: true,
    };
    let spec = DocBuf::build(|doc| {
        for arg in call.args().skip(1) {
            if !OPTIONS.contains(&arg.name()) {
                doc.put(arg.name(), arg.value());
            }
        }
    });
    let filter = Filter::parse(spec.as_doc(), &Scope::new())?;
    let vars = call.vars();
    let caller = CurrentOpCaller::of(call);
    let mut list = reply.array("inprog");
    for doc in caller.list(&wanted) {
        let doc = doc.as_doc();
        if filter.matches(doc, &vars)? {
            list.push_doc(doc);
        }
    }
    list.end();
    Ok(Outcome::Reply)
}

// === impl CurrentOpCaller ===

impl CurrentOpCaller {
    pub(super) fn of(call: &Call<'_>) -> Self {
        Self {
            context: Arc::clone(call.context),
            client: Arc::clone(call.client),
            owner: call.owner(),
            sees_all: call.may(AuthTarget::Cluster, Action::Inprog),
            database: call.database().to_owned(),
            body: DocBuf::from_bytes(call.body().bytes().to_vec()),
            now: call.now,
        }
    }

    pub(super) fn list(&self, wanted: &CurrentOps) -> Vec<DocBuf> {
        let all = self.sees_all && (wanted.all_users || self.owner.is_none());
        let users = &self.context.users;
        let shows = |client: &Client| {
            let user = || client.login.user(users).map(|user| user.digest);
            all || client.id == self.client.id
                || user().is_some_and(|user| Some(user) == self.owner)
        };
        let running = self.context.operations.all();
        let mut list: Vec<DocBuf> = running
            .iter()
            .filter(|operation| shows(&operation.client))
            .map(|operation| self.running(operation, wanted))
            .collect();
        // A pipeline that takes several steps is already in the list of running operations.
        let busy = |id: u64| running.iter().any(|operation| operation.client.id == id);
        if !busy(self.client.id) {
            list.push(self.itself(wanted));
        }
        if wanted.idle_connections {
            for client in &self.context.clients {
                if client.id != self.client.id && !busy(client.id) && shows(&client) {
                    list.push(self.connection(&client, false, |_| ()));
                }
            }
        }
        if wanted.idle_sessions {
            let inactive = self.context.sessions.inactive_transactions();
            let own =
                |info: &TransactionInfo| self.owner.is_some_and(|owner| info.session.is_of(&owner));
            for info in inactive.iter().filter(|info| all || own(info)) {
                list.push(self.inactive_transaction(info));
            }
        }
        if wanted.idle_cursors {
            self.context.cursors.each_idle(|id, cursor, summary| {
                if all || cursor.owner == self.owner {
                    list.push(self.idle_cursor(id, cursor, summary, wanted));
                }
            });
        }
        list
    }

    /// Builds a row about a connection, active or idle, with the fields that all such rows share.
    fn connection(
        &self,
        client: &Client,
        active: bool,
        more: impl FnOnce(&mut DocBuilder<'_>),
    ) -> DocBuf {
        DocBuf::build(|doc| {
            doc.put_str("type", "op")
                .put_str("host", &self.context.machine())
                .put_str("desc", &format!("conn{}", client.id))
                .put_i64("connectionId", client.id.cast_signed())
                .put_str("client", &client.address.to_string());
            if let Some(name) = client.app_name() {
                doc.put_str("appName", name);
            }
            if let Some(metadata) = client.metadata() {
                doc.put_doc("clientMetadata", metadata);
            }
            doc.put_bool("active", active)
                .put_str("currentOpTime", &iso_time(self.now));
            more(doc);
        })
    }

    fn running(&self, operation: &OperationInfo, wanted: &CurrentOps) -> DocBuf {
        let elapsed = monotonic().saturating_duration_since(operation.started);
        let body = operation.body();
        self.connection(&operation.client, true, |doc| {
            doc.put_i64("opid", i64::from(operation.id));
            if let Some(session) = &operation.session {
                doc.put_doc("lsid", session.to_doc().as_doc());
            }
            put_work(doc, elapsed, kind(operation.command));
            doc.put_str("ns", &namespace(&operation.database, body));
            put_command(doc, "command", body, wanted);
            if let Some(id) = body.get("getMore").as_i64()
                && let Some(info) = self.context.cursors.info(id)
            {
                let mut cursor = doc.doc("cursor");
                put_cursor(&mut cursor, id, &info, wanted);
                cursor.put_i64("operationUsingCursorId", i64::from(operation.id));
                cursor.end();
            }
            if let Some(info) = &operation.transaction {
                put_transaction(doc, info);
            }
            put_locks(doc, operation.waits_for_lock());
            if operation.killed.is_set() {
                doc.put_bool("killPending", true);
            }
        })
    }

    fn itself(&self, wanted: &CurrentOps) -> DocBuf {
        let body = self.body.as_doc();
        self.connection(&self.client, true, |doc| {
            doc.put_i64("opid", i64::from(self.context.operations.next_id()));
            put_work(doc, Duration::ZERO, "command");
            let name = body.first().filter(|elem| elem.name() == "aggregate");
            let name = name.map_or("$cmd", |_| "$cmd.aggregate");
            doc.put_str("ns", &format!("{}.{name}", self.database));
            put_command(doc, "command", body, wanted);
            put_locks(doc, false);
        })
    }

    /// Builds the row of a transaction between two commands.
    fn inactive_transaction(&self, info: &TransactionInfo) -> DocBuf {
        DocBuf::build(|doc| {
            doc.put_str("type", "idleSession")
                .put_str("host", &self.context.machine())
                .put_str("desc", "inactive transaction");
            let clients = &self.context.clients;
            if let Some(client) = clients.get(&info.connection) {
                doc.put_str("client", &client.address.to_string())
                    .put_i64("connectionId", client.id.cast_signed())
                    .put_str("appName", client.app_name().unwrap_or_default());
                if let Some(metadata) = client.metadata() {
                    doc.put_doc("clientMetadata", metadata);
                }
            }
            doc.put_doc("lsid", info.session.to_doc().as_doc());
            put_transaction(doc, info);
            doc.put_bool("waitingForLock", false)
                .put_bool("active", false)
                .put_doc("locks", Doc::EMPTY)
                .put_doc("lockStats", Doc::EMPTY);
        })
    }

    fn idle_cursor(
        &self,
        id: CursorId,
        info: &CursorInfo,
        summary: Option<PlanSummary>,
        wanted: &CurrentOps,
    ) -> DocBuf {
        DocBuf::build(|doc| {
            doc.put_str("type", "idleCursor")
                .put_str("host", &self.context.machine())
                .put_str("ns", &info.namespace);
            if let Some(session) = &info.session {
                doc.put_doc("lsid", session.to_doc().as_doc());
            }
            if let Some(summary) = summary {
                doc.put_str("planSummary", &summary.to_string());
            }
            let mut cursor = doc.doc("cursor");
            put_cursor(&mut cursor, id, info, wanted);
            cursor.end();
        })
    }
}

fn put_work(doc: &mut DocBuilder<'_>, elapsed: Duration, op: &str) {
    let micros = i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX);
    doc.put_i64("secs_running", micros / 1_000_000)
        .put_i64("microsecs_running", micros)
        .put_str("op", op);
}

/// Writes what is known of a transaction. Only one that reads a snapshot by its read concern shows the time that it reads, as in
/// mongod.
fn put_transaction(doc: &mut DocBuilder<'_>, info: &TransactionInfo) {
    let (provenance, level) = match info.level {
        Some(level) => ("clientSupplied", level),
        None => ("implicitDefault", "local"),
    };
    let read_time = match level {
        "snapshot" => info.read_time.parts(),
        _ => (0, 0),
    };
    let (open, active) = info.times();
    let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    let mut transaction = doc.doc("transaction");
    let mut parameters = transaction.doc("parameters");
    parameters
        .put_i64("txnNumber", info.number)
        .put_i32("txnRetryCounter", 0)
        .put_bool("autocommit", false);
    let mut concern = parameters.doc("readConcern");
    concern
        .put_str("level", level)
        .put_str("provenance", provenance);
    concern.end();
    parameters.end();
    let read_time = Value::timestamp(read_time.0, read_time.1);
    transaction
        .put("readTimestamp", read_time.as_ref())
        .put_str("startWallClockTime", &iso_time(info.started))
        .put_i64("timeOpenMicros", micros(open))
        .put_i64("timeActiveMicros", micros(active))
        .put_i64("timeInactiveMicros", micros(open.saturating_sub(active)))
        .put_str("expiryTime", &iso_time(info.expires));
    transaction.end();
}

/// Writes the lock fields. Only one of them has a meaning here: whether a lock is awaited that a transaction or a schema change
/// holds.
fn put_locks(doc: &mut DocBuilder<'_>, waits: bool) {
    doc.put_i32("numYields", 0)
        .put_doc("locks", Doc::EMPTY)
        .put_bool("waitingForLock", waits)
        .put_doc("lockStats", Doc::EMPTY)
        .put_bool("waitingForFlowControl", false)
        .put_doc("flowControlStats", Doc::EMPTY);
}

fn put_cursor(doc: &mut DocBuilder<'_>, id: CursorId, info: &CursorInfo, wanted: &CurrentOps) {
    let (batches, rows) = info.returned();
    // Change streams tail and await without saying so in their command.
    let tails = info.awaits || is_true(Doc::new(&info.command).get("tailable"));
    doc.put_i64("cursorId", id)
        .put_date("createdDate", info.at.now().0)
        .put_date("lastAccessDate", info.last_used().0)
        .put_i64("nDocsReturned", rows.cast_signed())
        .put_i64("nBatchesReturned", batches.cast_signed())
        .put_bool("noCursorTimeout", info.no_timeout)
        .put_bool("tailable", tails)
        .put_bool("awaitData", info.awaits);
    put_command(doc, "originatingCommand", Doc::new(&info.command), wanted);
}

fn put_command(doc: &mut DocBuilder<'_>, name: &str, command: Doc<'_>, wanted: &CurrentOps) {
    if !wanted.truncate || command.bytes().len() <= LONG_COMMAND {
        doc.put_doc(name, command);
        return;
    }
    let mut beginning = TruncatedText(String::new());
    // The write stops with an error when the text is full, so a command of megabytes is never printed completely.
    let _ = write!(beginning, "{command}");
    let mut cut = doc.doc(name);
    cut.put_str("$truncated", &beginning.0);
    let comment = command.get("comment");
    if comment.ty() != Type::Missing {
        cut.put("comment", comment);
    }
    cut.end();
}

// === impl TruncatedText ===

impl Write for TruncatedText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = LONG_COMMAND.saturating_sub(self.0.len());
        let fits = part.floor_char_boundary(room);
        self.0.push_str(&part[..fits]);
        match fits == part.len() {
            true => Ok(()),
            false => Err(fmt::Error),
        }
    }
}

/// Formats a time as a string like mongod: `2024-02-29T12:00:00.500+00:00`.
fn iso_time(now: Millis) -> String {
    let text = bson::DateTime::from_millis(now.0).try_to_rfc3339_string();
    let text = text.unwrap_or_default();
    let text = text.trim_end_matches('Z');
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    format!("{seconds}.{fraction:0<3}+00:00")
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

#[cfg(test)]
mod tests {
    use crate::command::tests::server::{ask, server};
    use crate::config::Config;
    use bson::{Bson, Document, doc};

    #[test]
    fn reports_name_the_machine_alike() {
        let mut server = server(Config::default());
        ask(
            &mut server,
            doc! {"insert": "c", "documents": [{}], "$db": "admin"},
        );
        let status = ask(&mut server, doc! {"serverStatus": 1, "$db": "admin"});
        let machine = status.get_str("host").unwrap();
        for (on, stage) in [
            (Bson::Int32(1), "$currentOp"),
            ("c".into(), "$indexStats"),
            ("c".into(), "$collStats"),
        ] {
            let stage = doc! {stage: {}};
            let command = doc! {"aggregate": on, "pipeline": [stage], "cursor": {}, "$db": "admin"};
            let reply = ask(&mut server, command);
            let rows = reply.get_document("cursor").unwrap();
            let row = rows.get_array("firstBatch").unwrap()[0].as_document();
            assert_eq!(row.unwrap().get_str("host").ok(), Some(machine), "{reply}");
        }
    }

    #[test]
    fn times_have_three_digits_of_a_second() {
        for (millis, wanted) in [
            (0, "00.000"),
            (30, "00.030"),
            (1_300, "01.300"),
            (7, "00.007"),
        ] {
            let text = super::iso_time(crate::value::Millis(millis));
            assert_eq!(text, format!("1970-01-01T00:00:{wanted}+00:00"));
        }
    }

    #[test]
    fn the_command_and_the_stage_show_the_same() {
        let mut server = server(Config::default());
        for i in 0..5 {
            ask(
                &mut server,
                doc! {"insert": "c", "documents": [{"_id": i}], "$db": "a"},
            );
        }
        ask(&mut server, doc! {"find": "c", "batchSize": 2, "$db": "a"});
        let long = "x".repeat(2000);
        let cases: &[(Document, usize)] = &[
            (doc! {"currentOp": 1}, 1),
            (doc! {"currentOp": true, "$all": true, "$ownOps": true}, 1),
            (doc! {"currentOp": 1, "op": "command", "active": true}, 1),
            (doc! {"currentOp": 1, "op": "getmore"}, 0),
            (
                doc! {"currentOp": 1, "comment": &long, "command.$truncated": {"$exists": true}},
                1,
            ),
            (stage(doc! {}, doc! {}), 1),
            (stage(doc! {"idleCursors": true}, doc! {}), 2),
            (
                stage(
                    doc! {"idleCursors": true},
                    doc! {"type": "idleCursor", "cursor.originatingCommand.find": "c"},
                ),
                1,
            ),
            (
                stage(doc! {"idleConnections": true}, doc! {"active": false}),
                0,
            ),
            (
                stage(
                    doc! {},
                    doc! {"ns": "admin.$cmd.aggregate", "command.aggregate": 1},
                ),
                1,
            ),
        ];
        for (command, wanted) in cases {
            let mut command = command.clone();
            command.insert("$db", "admin");
            let reply = ask(&mut server, command.clone());
            let rows = reply.get_array("inprog").or_else(|_| {
                let cursor = reply.get_document("cursor").expect("a cursor");
                cursor.get_array("firstBatch")
            });
            assert_eq!(
                rows.map(Vec::len).ok(),
                Some(*wanted),
                "{command} -> {reply}"
            );
        }
    }

    fn stage(options: Document, filter: Document) -> Document {
        doc! {"aggregate": 1, "pipeline": [{"$currentOp": options}, {"$match": filter}], "cursor": {}}
    }

    #[test]
    fn the_stage_refuses_what_mongod_refuses() {
        let cases: &[(Document, &str, i32)] = &[
            (doc! {"$currentOp": 1}, "admin", 14),
            (doc! {"$currentOp": {"allUsers": 1}}, "admin", 14),
            (doc! {"$currentOp": {"truncateOps": null}}, "admin", 14),
            (doc! {"$currentOp": {"comment": "x"}}, "admin", 40415),
            (doc! {"$currentOp": {"targetAllNodes": true}}, "admin", 9),
            (doc! {"$currentOp": {}}, "a", 73),
        ];
        let mut server = server(Config::default());
        for (stage, database, code) in cases {
            let reply = ask(
                &mut server,
                doc! {"aggregate": 1, "pipeline": [stage.clone()], "cursor": {}, "$db": *database},
            );
            assert_eq!(
                reply.get_i32("code").ok(),
                Some(*code),
                "{stage} -> {reply}"
            );
        }
        let majority = doc! {"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {}, "$db": "admin",
        "readConcern": {"level": "majority"}};
        assert_eq!(ask(&mut server, majority).get_i32("code").ok(), Some(72));
    }
}
