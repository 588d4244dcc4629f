//! The entry: one command from a client, its rules and its moment become one reply.

use std::sync::Arc;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::upstream::{Ask, CollectionRules, Lost};
use crate::value::Doc;
use crate::wire::Request;

use super::carry::hidden;
use super::cursors::{CursorRule, CursorRules};
use super::cut::RowCut;
use super::fields::with_body;
use super::find::{self, FindRewrite};
use super::get_more::{self, finish};
use super::namespaces::{NamespacePair, database, namespaces};
use super::naming::check_hidden;
use super::rulebook::NO_RULES;
use super::takeover::Takeover;
use super::unfiltered::remember_row;
use super::{
    Moment, Rulebook, Visibility, aggregate, bulk_write, delete, error_text, explain,
    find_and_modify, insert, reads, update,
};

/// Why a command has no reply of its own.
#[derive(Debug)]
pub enum Stop {
    Lost(Lost),
    /// Sundown refuses the command.
    Refused(Error),
    /// The cluster has answered something else on the way, mostly an error.
    Reply(Bytes),
}

/// The collection that a command is about.
#[derive(Clone, Copy)]
pub struct RuledCollection<'a> {
    pub database: &'a str,
    pub collection: &'a str,
    pub rules: &'a CollectionRules,
    pub has_unique_keys: bool,
}

/// Fields whose documents are checked one by one, so that each can be refused alone.
const STATEMENTS: &[&str] = &["documents", "updates", "deletes", "ops"];

/// Runs one command. If no collection that it touches has rules, the request passes as it is.
pub async fn run<A: Ask, B: Rulebook>(
    ask: &mut A,
    request: Request,
    book: &B,
    moment: Moment,
    cursors: &CursorRules,
) -> Result<Bytes, Lost> {
    replied(answer(ask, request, book, moment, cursors).await)
}

/// Runs one command that touches a single collection, whose rules are known.
pub async fn run_on_one<A: Ask>(
    ask: &mut A,
    request: Request,
    rules: &Arc<CollectionRules>,
    moment: Moment,
    cursors: &CursorRules,
) -> Result<Bytes, Lost> {
    if !moment.expose_ts && find::is_plain_by_id(request.body(), rules) {
        return replied(find_by_id(ask, request, rules, moment, cursors).await);
    }
    let has_unique_keys = rules.unique_keys;
    replied(on_one(ask, request, (rules, has_unique_keys), moment, cursors).await)
}

fn replied(outcome: Result<Bytes, Stop>) -> Result<Bytes, Lost> {
    match outcome {
        Ok(reply) | Err(Stop::Reply(reply)) => Ok(error_text::shown(reply)),
        Err(Stop::Lost(lost)) => Err(lost),
        Err(Stop::Refused(error)) => {
            let mut reply = Vec::new();
            error.write_reply(&mut reply);
            Ok(reply.into())
        }
    }
}

async fn answer<A: Ask, B: Rulebook>(
    ask: &mut A,
    request: Request,
    book: &B,
    moment: Moment,
    cursors: &CursorRules,
) -> Result<Bytes, Stop> {
    let name = request.body().first().map_or("", |first| first.name());
    match name {
        "getMore" => return get_more::run(ask, request, book, moment, cursors).await,
        "killCursors" => {
            get_more::killed(&request, cursors);
            return Ok(ask.ask(request).await?);
        }
        _ => {}
    }
    let touched = namespaces(&request)?;
    let rules: Vec<Arc<CollectionRules>> = touched
        .iter()
        .map(|(db, coll)| book.rules(db, coll))
        .collect();
    if rules.iter().all(|rules| rules.is_none()) {
        return Ok(ask.ask(request).await?);
    }
    rewritten(ask, request, (&touched, &rules), book, moment, cursors).await
}

async fn rewritten<A: Ask, B: Rulebook>(
    ask: &mut A,
    mut request: Request,
    (touched, rules): (&[NamespacePair], &[Arc<CollectionRules>]),
    book: &B,
    moment: Moment,
    cursors: &CursorRules,
) -> Result<Bytes, Stop> {
    request.exhaust_allowed = false;
    let command = request.body();
    let db = database(&request);
    let first = command.first();
    let collection = first.and_then(|first| first.value.as_str());
    let name = first.map_or("", |first| first.name());
    if !matches!(name, "aggregate" | "bulkWrite" | "explain") {
        let rules = book.rules(db, collection.unwrap_or_default());
        let has_unique_keys = collection.is_none_or(|c| book.has_unique_keys(db, c));
        return on_one(ask, request, (&rules, has_unique_keys), moment, cursors).await;
    }
    if rules.iter().any(|rules| rules.stamped) {
        check_hidden(command, STATEMENTS)?;
    }
    match name {
        "bulkWrite" => Box::pin(bulk_write::run(ask, &request, book, moment, cursors)).await,
        "explain" => {
            let body = explain::rewrite(&request, book, moment)?;
            Ok(ask.ask(with_body(&request, body)).await?)
        }
        _ => {
            let own = touched.iter().zip(rules);
            let mut own = own.filter(|((d, c), _)| &**d == db && Some(&**c) == collection);
            let target = RuledCollection {
                database: db,
                collection: collection.unwrap_or_default(),
                rules: own.next().map_or(&NO_RULES, |(_, rules)| rules),
                has_unique_keys: collection.is_none_or(|c| book.has_unique_keys(db, c)),
            };
            Box::pin(aggregate::run(
                ask, &request, &target, book, moment, cursors,
            ))
            .await
        }
    }
}

/// Runs a command that touches no other collection than the one it names.
async fn on_one<A: Ask>(
    ask: &mut A,
    mut request: Request,
    (rules, has_unique_keys): (&Arc<CollectionRules>, bool),
    moment: Moment,
    cursors: &CursorRules,
) -> Result<Bytes, Stop> {
    request.exhaust_allowed = false;
    let command = request.body();
    let db = database(&request);
    if rules.stamped {
        check_hidden(command, STATEMENTS)?;
    }
    let first = command.first();
    let target = RuledCollection {
        database: db,
        collection: first
            .and_then(|first| first.value.as_str())
            .unwrap_or_default(),
        rules,
        has_unique_keys,
    };
    // Boxed, so that the future of a command is as large as it needs to be itself.
    match first.map_or("", |first| first.name()) {
        "find" => Box::pin(run_find(ask, &request, &target, rules, moment, cursors)).await,
        "count" | "distinct" => {
            let body = reads::rewrite(command, target.rules, moment)?;
            Ok(ask.ask(with_body(&request, body)).await?)
        }
        "insert" => Box::pin(insert::run(ask, &request, &target, moment)).await,
        "update" => Box::pin(update::run(ask, &request, &target, moment)).await,
        "delete" => Box::pin(delete::run(ask, &request, &target, moment)).await,
        "findAndModify" | "findandmodify" => {
            Box::pin(find_and_modify::run(ask, &request, &target, moment)).await
        }
        other => Err(Error::not_implemented(format_args!(
            "{other} on a collection with a TTL, in front of a cluster,"
        ))
        .into()),
    }
}

async fn run_find<A: Ask>(
    ask: &mut A,
    request: &Request,
    target: &RuledCollection<'_>,
    rules: &Arc<CollectionRules>,
    moment: Moment,
    cursors: &CursorRules,
) -> Result<Bytes, Stop> {
    let find = FindRewrite::rewrite(request.body(), rules, moment)?;
    let reply = ask.ask(with_body(request, find.body)).await?;
    let rule = CursorRule {
        rows: find.rows,
        window: find.window,
        rules: Arc::clone(rules),
        used: moment.now,
    };
    match find.gathers {
        true => Box::pin(gather(ask, reply, rule, target, moment)).await,
        false => finish(ask, reply, rule, target.database, moment, cursors).await,
    }
}

/// Runs a find by `_id` that passes as it is. Only its row is looked at.
async fn find_by_id<A: Ask>(
    ask: &mut A,
    request: Request,
    rules: &Arc<CollectionRules>,
    moment: Moment,
    cursors: &CursorRules,
) -> Result<Bytes, Stop> {
    let body = request.body.clone();
    let term = ask.term();
    let reply = ask.ask(request).await?;
    let seen = (moment.now, term);
    remember_row(Doc::new(&body), Doc::new(&reply), rules, seen);
    let test = Visibility::new(rules)?;
    let hidden = hidden(rules, false);
    let cut = RowCut {
        test: Some(&test),
        is_cut: |name: &[u8]| hidden.iter().any(|hidden| hidden.as_bytes() == name),
        now: moment.now,
    };
    match cut.apply(Doc::new(&reply)) {
        None => Ok(reply),
        Some(shown) if shown.cursor_id == 0 => Ok(shown.bytes),
        // The cursor stays open, as one with a single row hardly ever does.
        Some(_) => {
            let find = FindRewrite::rewrite(Doc::new(&body), rules, moment)?;
            let rule = CursorRule {
                rows: find.rows,
                window: find.window,
                rules: Arc::clone(rules),
                used: moment.now,
            };
            let database = Doc::new(&body).get("$db").as_str().unwrap_or_default();
            Box::pin(finish(ask, reply, rule, database, moment, cursors)).await
        }
    }
}

/// Fills the only batch of a find whose rows are counted here.
async fn gather<A: Ask>(
    ask: &mut A,
    mut reply: Bytes,
    mut rule: CursorRule,
    target: &RuledCollection<'_>,
    moment: Moment,
) -> Result<Bytes, Stop> {
    let mut shown: Vec<Bytes> = Vec::new();
    loop {
        if !is_ok(Doc::new(&reply)) {
            return Ok(reply);
        }
        let id = get_more::cursor_id(Doc::new(&reply));
        let Some(part) = rule.rows.apply(Doc::new(&reply), moment, &mut rule.window) else {
            return Ok(reply);
        };
        shown.push(part.bytes);
        let full = rule.window.limit.is_none_or(|left| left == 0) && rule.window.skip == 0;
        if id == 0 {
            break;
        }
        if full {
            get_more::kill(ask, target.database, target.collection, id).await?;
            break;
        }
        let more = crate::value::DocBuf::build(|out| {
            out.put_i64("getMore", id);
            out.put_str("collection", target.collection);
            out.put_str("$db", target.database);
        });
        reply = ask.ask(Request::new(more.into_bytes())).await?;
    }
    Ok(super::rows::joined(&shown))
}

/// Returns whether a reply is a success.
pub fn is_ok(reply: Doc<'_>) -> bool {
    crate::value::is_true(reply.get("ok"))
}

// === impl Stop ===

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<Lost> for Stop {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

// === impl RuledCollection ===

impl<'t> RuledCollection<'t> {
    /// Returns the way to delete what has ended, for a client's command.
    pub fn takeover<'a>(&self, request: &'a Request, moment: Moment) -> Takeover<'a>
    where
        't: 'a,
    {
        Takeover {
            database: self.database,
            collection: self.collection,
            rules: self.rules,
            now: moment.now,
            command: request.body(),
            untried: false,
        }
    }
}
