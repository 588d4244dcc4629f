//! Cursors after their first batch: `getMore` and `killCursors`.

use std::sync::Arc;

use bytes::Bytes;

use crate::interrupt::run_over;
use crate::upstream::{Ask, CollectionRules, Lost};
use crate::value::{Doc, DocBuf};
use crate::wire::Request;

use super::cursors::{CursorRule, CursorRules};
use super::rows::{RowRule, Window};
use super::run::{Stop, is_ok};
use super::{Moment, Rulebook, aggregate, find, pipeline};

/// Continues a cursor. Its rows are looked at once more, at the moment of this command.
pub async fn run<A: Ask, B: Rulebook>(
    ask: &mut A,
    mut request: Request,
    book: &B,
    moment: Moment,
    cursors: &CursorRules,
) -> Result<Bytes, Stop> {
    let id = request.body().get("getMore").as_i64().unwrap_or_default();
    let database = super::namespaces::database(&request).to_owned();
    let collection = request.body().get("collection").as_str();
    let collection = collection.unwrap_or_default();
    let mut rule = match cursors.get(id) {
        Some(rule) => rule,
        None if book.rules(&database, collection).is_none() => {
            return Ok(ask.ask(request).await?);
        }
        None => Box::pin(unknown(ask, id, moment)).await?,
    };
    rule.follow(&database, collection, book);
    request.exhaust_allowed = false;
    let reply = ask.ask(request).await?;
    if !is_ok(Doc::new(&reply)) {
        // A getMore that ran out of time can be repeated, if the cursor still exists.
        let code = Doc::new(&reply).get("code").as_i32();
        if code == Some(CURSOR_NOT_FOUND) {
            cursors.remove(id);
        }
        return Ok(reply);
    }
    let shown = finish(ask, reply, rule, &database, moment, cursors).await?;
    if cursor_id(Doc::new(&shown)) == 0 {
        cursors.remove(id);
    }
    Ok(shown)
}

const CURSOR_NOT_FOUND: i32 = 43;

/// Returns the rule of a cursor that is older than the rules, or that another Sundown has opened. The cluster knows the command
/// that opened it.
async fn unknown<A: Ask>(ask: &mut A, id: i64, moment: Moment) -> Result<CursorRule, Lost> {
    let reply = ask.ask(opened_by(id)).await?;
    let rows = Doc::new(&reply).get("cursor").as_doc();
    let rows = rows.and_then(|cursor| cursor.get("firstBatch").as_array());
    let row = rows.and_then(|rows| rows.first()?.value.as_doc());
    let command = row.and_then(|row| row.get("command").as_doc());
    let stages = command.and_then(|command| command.get("pipeline").as_array());
    // If the cluster does not tell the command, nothing is known of the rows but that the hidden fields are none of the
    // client's.
    let (whole, names_ts) = match (command, stages) {
        (Some(command), Some(stages)) => (pipeline::is_whole(stages), aggregate::names_ts(command)),
        (Some(command), None) if command.has("find") => {
            (find::is_whole(command), find::names_ts(command))
        }
        _ => (false, false),
    };
    Ok(CursorRule {
        rows: RowRule {
            whole,
            shows_ts: moment.expose_ts || names_ts,
            ..RowRule::default()
        },
        window: Window::default(),
        rules: Arc::new(CollectionRules::NONE),
        used: moment.now,
    })
}

/// Returns the command that asks for the command by which a cursor was opened. Users need no right to see their own cursors.
fn opened_by(id: i64) -> Request {
    let body = DocBuf::build(|out| {
        out.put_i32("aggregate", 1);
        let mut stages = out.array("pipeline");
        let mut stage = stages.doc();
        let mut source = stage.doc("$currentOp");
        source.put_bool("idleCursors", true);
        // Of a router: its own cursors, and not those of the shards.
        source.put_bool("localOps", true);
        source.end();
        stage.end();
        let mut stage = stages.doc();
        stage.doc("$match").put_i64("cursor.cursorId", id);
        stage.end();
        let mut stage = stages.doc();
        stage
            .doc("$project")
            .put_str("command", "$cursor.originatingCommand");
        stage.end();
        stages.end();
        out.doc("cursor").end();
        out.put_str("$db", "admin");
    });
    Request::new(body.into_bytes())
}

/// Rewrites a cursor reply and remembers the rule if the cursor stays open.
pub async fn finish<A: Ask>(
    ask: &mut A,
    reply: Bytes,
    mut rule: CursorRule,
    database: &str,
    moment: Moment,
    cursors: &CursorRules,
) -> Result<Bytes, Stop> {
    let before = cursor_id(Doc::new(&reply));
    let rewrite = || rule.rows.apply(Doc::new(&reply), moment, &mut rule.window);
    let Some(shown) = run_over(reply.len(), rewrite) else {
        return Ok(reply);
    };
    if before != 0 && shown.cursor_id == 0 {
        // The limit is reached: the cluster does not know it.
        let collection = collection_of(Doc::new(&reply));
        Box::pin(kill(ask, database, collection, before)).await?;
        cursors.remove(before);
    } else if before != 0 {
        rule.used = moment.now;
        cursors.put(before, rule);
    }
    Ok(shown.bytes)
}

/// Returns the id of the open cursor in a reply, or 0.
pub fn cursor_id(reply: Doc<'_>) -> i64 {
    let cursor = reply.get("cursor").as_doc();
    let id = cursor.and_then(|cursor| cursor.get("id").as_i64());
    id.unwrap_or_default()
}

/// Returns the collection of the cursor in a reply.
fn collection_of(reply: Doc<'_>) -> &str {
    let cursor = reply.get("cursor").as_doc();
    let namespace = cursor.and_then(|cursor| cursor.get("ns").as_str());
    let parts = namespace.and_then(|namespace| namespace.split_once('.'));
    parts.map_or("", |(_, collection)| collection)
}

/// Closes a cursor of the cluster.
pub async fn kill<A: Ask>(
    ask: &mut A,
    database: &str,
    collection: &str,
    id: i64,
) -> Result<(), Lost> {
    let body = DocBuf::build(|out| {
        out.put_str("killCursors", collection);
        let mut ids = out.array("cursors");
        ids.push(crate::value::Value::int64(id).as_ref());
        ids.end();
        out.put_str("$db", database);
    });
    ask.ask(Request::new(body.into_bytes())).await.map(|_| ())
}

/// Forgets the cursors that a client closes.
pub fn killed(request: &Request, cursors: &CursorRules) {
    let ids = request.body().get("cursors").as_array();
    for id in ids.into_iter().flatten() {
        if let Some(id) = id.value.as_i64() {
            cursors.remove(id);
        }
    }
}
