//! CursorRules after their first batch: `getMore` and `killCursors`.

use bytes::Bytes;

use crate::upstream::{Ask, Lost};
use crate::value::{Doc, DocBuf};
use crate::wire::Request;

use super::carry::hidden;
use super::cursors::{CursorRule, CursorRules};
use super::rows::{RowRule, Window};
use super::run::{Stop, is_ok};
use super::{Moment, Rulebook, rows::Reply};

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
    let rule = match cursors.get(id) {
        Some(mut rule) => {
            rule.follow(&database, collection, book);
            rule
        }
        // The cursor is older than the rules, or another Sundown has opened it. Nothing is known of its rows but that the
        // hidden fields are none of the client's.
        None => {
            let rules = book.rules(&database, collection);
            if !rules.stamped {
                return Ok(ask.ask(request).await?);
            }
            let cut = hidden(&rules, moment.expose_ts).iter();
            CursorRule {
                rows: RowRule {
                    cut: cut.map(|&name| name.into()).collect(),
                    ..RowRule::default()
                },
                window: Window::default(),
                rules,
                used: moment.now,
            }
        }
    };
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
    let Some(shown) = rule.rows.apply(Doc::new(&reply), moment, &mut rule.window) else {
        return Ok(reply);
    };
    if before != 0 && shown.cursor_id == 0 {
        // The limit is reached: the cluster does not know it.
        kill(ask, database, collection_of(&shown), before).await?;
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

fn collection_of(reply: &Reply) -> &str {
    let namespace = reply.namespace.split_once('.');
    namespace.map_or("", |(_, collection)| collection)
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
