//! `getMore`: returns the next batch of an open cursor.

use std::time::Duration;

use super::{Access, Call, Command, Counter, Counters, Flags, Needs, Outcome, cursor, stable_api};
use crate::args::required;
use crate::auth::{Action, AuthTarget};
use crate::clock::monotonic;
use crate::error::{Code, Error, Result};
use crate::interrupt::{Limit, expired};
use crate::names::check_collection;
use crate::session::{CursorInfo, InTransaction};
use crate::value::{Doc, DocBuilder};

pub(super) const COMMAND: Command = Command::ready(
    "getMore",
    Access::Read,
    "Returns the next batch of a cursor.",
    run,
)
.with(
    Flags::STABLE
        .and(Flags::SECONDARY)
        .and(Flags::TRANSACTION)
        .and(Flags::SNAPSHOT)
        .and(Flags::UNCOUNTED),
)
.needs(Needs::Asked(may));

/// How long a getMore on an awaitData cursor waits if it sets no `maxTimeMS`.
const AWAIT_MILLIS: u64 = 1_000;

/// Checks the right to read the collection. The result of a command such as listCollections belongs to no collection, and
/// that command has already checked the rights.
fn may(call: &Call<'_>) -> Result<bool> {
    let name = call.arg("collection").and_then(|arg| arg.value().as_str());
    Ok(match name {
        Some(name) if !name.starts_with("$cmd.") => {
            call.may(AuthTarget::Collection(call.database(), name), Action::Find)
        }
        _ => call.user().is_some(),
    })
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let shard = Counters::shard(call.client.id);
    call.context.counters.add(shard, Counter::GetMore, 1);
    let mut id = None;
    let mut collection = None;
    let mut batch_size = None;
    for arg in call.args() {
        match arg.name() {
            // The value of the command's own field is read behind the others.
            "getMore" => id = Some(arg),
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
    let collection = required(collection, "getMore", "collection")?;
    let id = id.map(|arg| arg.i64()).transpose()?.flatten();
    let id = required(id, "getMore", "getMore")?;
    if collection.is_empty() {
        return Err(Error::new(
            Code::InvalidNamespace,
            "Collection names cannot be empty",
        ));
    }
    check_collection(call.database(), collection)?;
    let open = call.context.cursors.check_out(id)?;
    if let Err(refusal) = check(call, collection, id, &open.info) {
        call.context.cursors.put_back(open)?;
        return Err(refusal);
    }
    let points = &call.context.fail_points;
    if let Err(refusal) = points.refuse_more(call.body(), Doc::new(&open.info.command)) {
        call.context.cursors.finish(id);
        return Err(refusal);
    }
    let mut until = None;
    if open.info.awaits {
        // Here `maxTimeMS` is the time to wait for rows. Reaching it is no error.
        let millis = match call.has_max_time() {
            true => call.max_time_millis(),
            false => AWAIT_MILLIS,
        };
        call.deadline = None;
        until = (millis > 0).then(|| monotonic() + Duration::from_millis(millis));
    } else if let Some(left) = open.info.time_left()
        && let Some(left) = points.time_left(left)
    {
        // The time limit of the command that opened the cursor also covers its getMores.
        if left.is_zero() {
            call.context.cursors.finish(id);
            return Err(expired());
        }
        call.deadline = Some(monotonic() + left);
    }
    // Zero means no limit here, as in MongoDB. Only a first batch can be empty on request.
    let limit = batch_size.filter(|&size| size > 0).unwrap_or(u32::MAX);
    // The deadline set above may differ from the one that the command started with.
    let time = Limit {
        deadline: call.deadline,
        ..Limit::default()
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
    stable_api::check_same(call.body(), Doc::new(&info.command))?;
    match (&info.session, call.session()) {
        (Some(owner), None) => {
            return Err(Error::location(
                50737,
                format!(
                    "Cannot run getMore on cursor {id}, which was created in session {owner}, without an lsid"
                ),
            ));
        }
        (None, Some(session)) => {
            return Err(Error::location(
                50736,
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
    let number = call.transaction.as_ref().map(InTransaction::number);
    match (info.transaction, number) {
        (Some(owner), None) => {
            return Err(Error::location(
                50740,
                format!(
                    "Cannot run getMore on cursor {id}, which was created in transaction {owner}, without a txnNumber"
                ),
            ));
        }
        (None, Some(number)) => {
            return Err(Error::location(
                50739,
                format!(
                    "Cannot run getMore on cursor {id}, which was not created in a transaction, in transaction {number}"
                ),
            ));
        }
        (Some(owner), Some(number)) if owner != number => {
            return Err(Error::location(
                50741,
                format!(
                    "Cannot run getMore on cursor {id}, which was created in transaction {owner}, in transaction {number}"
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

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake, Waker};

    use bson::{Bson, Document, doc};

    use super::super::{Commands, Connection};
    use crate::command::tests::server::{ask, await_reply, begin, server};
    use crate::config::Config;
    use crate::handler::{Progress, Work};
    use crate::wait::Wait;

    type Server = (Commands, Connection);
    /// A command that ends a cursor.
    type End<'a> = &'a dyn Fn(&mut Server, i64) -> Document;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Opens a cursor and reads to the end of a capped collection, with or without a projection.
    fn opened(projection: Document) -> (Server, i64) {
        let mut server = server(Config::default());
        for command in [
            doc! {"create": "c", "capped": true, "size": 100_000, "$db": "d"},
            doc! {"insert": "c", "documents": [{"_id": 1}], "$db": "d"},
        ] {
            ask(&mut server, command);
        }
        let find = doc! {"find": "c", "tailable": true, "awaitData": true, "projection": projection, "$db": "d"};
        let opened = ask(&mut server, find);
        let cursor = opened.get_document("cursor").unwrap();
        (server, cursor.get_i64("id").unwrap())
    }

    fn more(id: i64, millis: i32) -> Document {
        doc! {"getMore": id, "collection": "c", "maxTimeMS": millis, "$db": "d"}
    }

    /// Opens such a cursor and starts a getMore that waits for up to an hour.
    fn waiting(projection: Document) -> (Server, Box<dyn Work>, i64) {
        let (mut server, id) = opened(projection);
        let work = begin(&mut server, more(id, 3_600_000));
        (server, work, id)
    }

    /// Runs one step and returns what the getMore waits for.
    fn step(work: &mut dyn Work) -> Wait {
        match work.step(&mut Vec::new()) {
            Ok(Progress::Wait(wait)) => wait,
            other => panic!("{other:?}"),
        }
    }

    fn is_over(wait: &mut Wait, woken: &Arc<Woken>) -> bool {
        let waker = Waker::from(Arc::clone(woken));
        Pin::new(wait)
            .poll(&mut Context::from_waker(&waker))
            .is_ready()
    }

    fn reply(work: &mut dyn Work) -> Document {
        let mut out = Vec::new();
        assert!(work.step(&mut out).unwrap().is_done());
        Document::from_reader(&out[..]).unwrap()
    }

    /// Nothing but the insert can wake the cursor.
    #[tokio::test]
    async fn a_waiting_cursor_is_woken_by_the_next_document() {
        for projection in [doc! {}, doc! {"_id": 1}] {
            let (mut server, mut work, id) = waiting(projection.clone());
            let woken = Arc::new(Woken::default());
            let mut wait = step(&mut *work);
            assert!(!is_over(&mut wait, &woken));
            // Writes to other collections and changes of existing documents do not wake it.
            for command in [
                doc! {"insert": "other", "documents": [{"_id": 1}], "$db": "d"},
                doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}], "$db": "d"},
            ] {
                ask(&mut server, command);
            }
            assert!(!is_over(&mut wait, &woken));
            assert_eq!(woken.0.load(Ordering::SeqCst), 0);
            ask(
                &mut server,
                doc! {"insert": "c", "documents": [{"_id": 2}], "$db": "d"},
            );
            assert_eq!(woken.0.load(Ordering::SeqCst), 1, "{projection}");
            assert!(is_over(&mut wait, &woken));
            let reply = reply(&mut *work);
            let cursor = reply.get_document("cursor").unwrap();
            assert_eq!(cursor.get_i64("id").ok(), Some(id), "{reply}");
            let found = cursor.get_array("nextBatch").unwrap();
            assert_eq!(*found, [Bson::from(doc! {"_id": 2})]);
        }
    }

    #[tokio::test]
    async fn a_document_inserted_just_before_the_wait_is_not_missed() {
        let (mut server, mut work, _) = waiting(doc! {});
        let mut wait = step(&mut *work);
        ask(
            &mut server,
            doc! {"insert": "c", "documents": [{"_id": 2}], "$db": "d"},
        );
        assert!(is_over(&mut wait, &Arc::default()));
    }

    #[tokio::test]
    async fn everything_that_ends_a_waiting_cursor_wakes_it() {
        let operation = |server: &mut Server| {
            let running = ask(server, doc! {"currentOp": 1, "$db": "admin"});
            let all = running.get_array("inprog").unwrap();
            let ops = all.iter().filter_map(Bson::as_document);
            let mut ours = ops.filter(|op| op.get_str("op").is_ok_and(|op| op == "getmore"));
            ours.next().unwrap().get_i64("opid").unwrap()
        };
        let rows: [(&str, i32, End<'_>); 4] = [
            ("killOp", 11601, &|server, _| {
                doc! {"killOp": 1, "op": operation(server), "$db": "admin"}
            }),
            ("killCursors", 237, &|_, id| {
                doc! {"killCursors": "c", "cursors": [id], "$db": "d"}
            }),
            ("drop", 175, &|_, _| doc! {"drop": "c", "$db": "d"}),
            (
                "dropDatabase",
                175,
                &|_, _| doc! {"dropDatabase": 1, "$db": "d"},
            ),
        ];
        for (name, code, end) in rows {
            let (mut server, mut work, id) = waiting(doc! {});
            let woken = Arc::new(Woken::default());
            let mut wait = step(&mut *work);
            assert!(!is_over(&mut wait, &woken), "{name}");
            let end = end(&mut server, id);
            let told = ask(&mut server, end);
            assert_eq!(told.get_f64("ok").ok(), Some(1.0), "{told}");
            assert!(is_over(&mut wait, &woken), "{name}");
            let reply = reply(&mut *work);
            assert_eq!(reply.get_i32("code").ok(), Some(code), "{name}: {reply}");
        }
    }

    /// When its time is over, a getMore looks for rows once more and returns an empty batch.
    #[tokio::test]
    async fn a_wait_that_times_out_returns_an_empty_batch() {
        let (mut server, id) = opened(doc! {});
        let reply = await_reply(&mut server, more(id, 1)).await;
        let cursor = reply.get_document("cursor").unwrap();
        assert!(cursor.get_array("nextBatch").unwrap().is_empty());
        assert_eq!(cursor.get_i64("id").ok(), Some(id));
    }
}
