//! `findAndModify`.
//!
//! With a positional projection the filter may have no `$expr`. Then a find looks for the document that the client means,
//! and the client's command is sent for that document, as long as nobody has written to it.

use bytes::Bytes;

use crate::error::{Code, Error, Result};
use crate::upstream::{Ask, HIDDEN_FIELD};
use crate::value::{Doc, DocBuf, Millis, ValueRef, is_true};
use crate::wire::Request;

use super::batch::is_duplicate;
use super::carry::{computed, hidden, is_positional};
use super::change::{OwnTtlCheck, names_ts, stamped};
use super::fields::{doc_or_empty, with_body, with_fields};
use super::filter::prepared;
use super::guess::{self, FirstTry, Guessed};
use super::naming::Parts;
use super::rows::RowRule;
use super::run::{RuledCollection, Stop, is_ok};
use super::takeover::{Ended, in_transaction, started};
use super::whole::WithoutHidden;
use super::{EndedPredicate, Moment, Visibility, WriteStamp, hint};

/// The command as it is sent, and what becomes of the document in its reply.
pub struct FindAndModify {
    /// The client's filter without the predicate.
    pub filter: DocBuf,
    pub body: DocBuf,
    pub rows: RowRule,
    /// The filter may have no `$expr`, so the predicate is missing.
    pub by_candidate: bool,
}

/// How often a document is looked for if others write to it at the same time.
const CANDIDATES: usize = 20;

pub async fn run<A: Ask>(
    ask: &mut A,
    request: &Request,
    target: &RuledCollection<'_>,
    moment: Moment,
) -> Result<Bytes, Stop> {
    let command = request.body();
    let upsert = is_true(command.get("upsert"));
    let filter = doc_or_empty(command, "query");
    let mut sent = None;
    let first = |first: FirstTry<'_>| {
        let narrow = |filter: Doc<'_>| first.narrow(filter);
        let tried = FindAndModify::rewrite(command, target, (narrow, first.check()), moment)?;
        let tried = sent.insert(tried);
        Ok((!tried.by_candidate).then(|| tried.body.clone()))
    };
    let guessed = guess::send_one(ask, request, target, moment, first).await?;
    let guessed = match (guessed, &sent) {
        (Guessed::Reply(reply), Some(sent)) => return Ok(sent.shown(reply, moment.now)),
        (guessed, _) => guessed,
    };
    let predicate = EndedPredicate::new(target.rules, moment.now);
    let takeover = target.takeover(request, moment);
    let narrow = |filter: Doc<'_>| predicate.alive(filter);
    let sent = FindAndModify::rewrite(command, target, (narrow, OwnTtlCheck::None), moment)?;
    let mut body = sent.body.clone();
    if !predicate.is_none() {
        let transaction = in_transaction(command) && target.has_unique_keys;
        if transaction && !is_true(command.get("remove")) {
            takeover.ahead().drain(ask).await?;
        } else if upsert {
            let ended = Ended {
                filter,
                collation: command.get("collation"),
            };
            takeover.ahead().delete(ask, [ended]).await?;
        }
        if transaction || upsert {
            body = with_fields(body.as_doc(), &started(command));
        }
    }
    let mut reply;
    let mut freed_last = true;
    let mut candidates = 0;
    loop {
        let mut guarded = None;
        if sent.by_candidate {
            guarded = candidate(ask, request, &sent, target, moment).await?;
        }
        let body = guarded.as_ref().unwrap_or(&body);
        reply = ask.ask(with_body(request, body.clone())).await?;
        let answer = Doc::new(&reply);
        let duplicate = !is_ok(answer) && is_duplicate(answer) && !in_transaction(command);
        if duplicate && freed_last && !predicate.is_none() {
            // The holder may just have been deleted by someone else, so the command is sent again in any case.
            freed_last = takeover.free_keys(ask, [answer]).await? > 0;
            continue;
        }
        candidates += 1;
        if guarded.is_some() && answer.get("value").is_nullish() && is_ok(answer) {
            if candidates < CANDIDATES {
                continue;
            }
            return Err(Error::new(Code::WriteConflict, "others write to the document").into());
        }
        let reply = guessed.then(reply, target.rules);
        return Ok(sent.shown(reply, moment.now));
    }
}

// === impl FindAndModify ===

impl FindAndModify {
    /// Rewrites the command. `narrow` lets its filter match only documents that have not ended.
    pub fn rewrite(
        command: Doc<'_>,
        target: &RuledCollection<'_>,
        (narrow, check): (impl Fn(Doc<'_>) -> DocBuf, OwnTtlCheck),
        moment: Moment,
    ) -> Result<Self> {
        let rules = target.rules;
        let filter = doc_or_empty(command, "query");
        let projection = command.get("fields").as_doc();
        let change = command.get("update");
        let parts = Parts {
            filter: Some(filter),
            sort: command.get("sort").as_doc(),
            projection,
            lets: command.get("let").as_doc(),
            ..Parts::default()
        };
        let shows_ts = moment.expose_ts || parts.name_ts() || names_ts(change);
        let hidden = hidden(rules, shows_ts);
        let prepared = prepared(filter, rules, shows_ts)?;
        let filter = prepared.as_ref().map_or(filter, DocBuf::as_doc);
        let upsert = is_true(command.get("upsert"));
        let positional = projection.is_some_and(is_positional) && EndedPredicate::needs_expr(rules);
        let sent = match upsert || positional {
            true => DocBuf::from(filter),
            false => narrow(filter),
        };
        let without = WithoutHidden {
            variables: &["$$ROOT", "$$CURRENT"],
            hidden,
        };
        let projected = projection.map(|p| without.apply(p)).transpose()?.flatten();
        let change = stamped(change, WriteStamp::new(rules, moment.now), check)?;
        let query = ("query", ValueRef::document(sent.as_doc()));
        let mut fields = vec![query, hint::sent(command, rules)];
        if !change.is_missing() {
            fields.push(("update", change.as_ref()));
        }
        if let Some(projected) = &projected {
            fields.push(("fields", ValueRef::document(projected.as_doc())));
        }
        Ok(Self {
            filter: DocBuf::from(filter),
            body: with_fields(command, &fields),
            rows: RowRule {
                test: None,
                whole: false,
                rides: false,
                joined: Vec::new(),
                added: computed(doc_or_empty(command, "fields")).collect(),
                cut: hidden.iter().map(|&name| name.into()).collect(),
                shows_ts,
                ts_last: rules.stamped && rules.stores_ts && shows_ts,
                ts_since: None,
            },
            by_candidate: positional && !upsert,
        })
    }

    /// Returns the reply without the hidden fields.
    pub fn shown(&self, reply: Bytes, now: Millis) -> Bytes {
        let answer = Doc::new(&reply);
        let Some(value) = answer.get("value").as_doc() else {
            return reply;
        };
        let shown = DocBuf::build_sized(reply.len(), |out| {
            for elem in answer {
                if elem.name() == "value" {
                    let mut shown = out.doc("value");
                    self.rows.put(value, now, &mut shown);
                    shown.end();
                } else {
                    out.put(elem.name(), elem.value);
                }
            }
        });
        shown.into_bytes().into()
    }
}

/// Finds the document that the client means, and returns the command for it alone. If there is none, the command as it is
/// would find none either, except for ended ones: it gets a filter that matches nothing.
async fn candidate<A: Ask>(
    ask: &mut A,
    request: &Request,
    sent: &FindAndModify,
    target: &RuledCollection<'_>,
    moment: Moment,
) -> Result<Option<DocBuf>, Stop> {
    let command = request.body();
    let visibility = Visibility::new(target.rules)?;
    let find = DocBuf::build(|out| {
        out.put_str("find", target.collection);
        out.put_doc("filter", sent.filter.as_doc());
        for name in ["sort", "collation", "let", "maxTimeMS"] {
            out.put(name, command.get(name));
        }
        let (name, hint) = hint::sent(command, target.rules);
        out.put(name, hint);
        if in_transaction(command) {
            for name in ["lsid", "txnNumber", "autocommit"] {
                out.put(name, command.get(name));
            }
        }
        out.put_str("$db", target.database);
    });
    let mut reply = ask.ask(Request::new(find.into_bytes())).await?;
    loop {
        let answer = Doc::new(&reply);
        let Some(cursor) = answer.get("cursor").as_doc().filter(|_| is_ok(answer)) else {
            return Err(Stop::Reply(reply));
        };
        let first = cursor.get("firstBatch").as_array();
        let batch = first.or(cursor.get("nextBatch").as_array());
        let id = cursor.get("id").as_i64().unwrap_or_default();
        let rows = batch.into_iter().flatten();
        let mut rows = rows.filter_map(|elem| elem.value.as_doc());
        let found = rows.find(|row| !visibility.has_ended(*row, moment.now));
        if let Some(row) = found {
            let guarded = guard(sent, row);
            if id != 0 {
                super::get_more::kill(ask, target.database, target.collection, id).await?;
            }
            return Ok(Some(guarded));
        }
        if id == 0 {
            let nothing = EndedPredicate::none().ended(Doc::EMPTY);
            let query = ValueRef::document(nothing.as_doc());
            let body = with_fields(sent.body.as_doc(), &[("query", query)]);
            // Nothing to wait for: the reply is that nothing was found.
            return Err(match ask.ask(with_body(request, body)).await {
                Ok(reply) => Stop::Reply(reply),
                Err(lost) => Stop::Lost(lost),
            });
        }
        let more = DocBuf::build(|out| {
            out.put_i64("getMore", id)
                .put_str("collection", target.collection);
            out.put_str("$db", target.database);
        });
        reply = ask.ask(Request::new(more.into_bytes())).await?;
    }
}

/// Returns the command for one document in the state in which it was found.
fn guard(sent: &FindAndModify, row: Doc<'_>) -> DocBuf {
    let query = DocBuf::build(|out| {
        let mut both = out.array("$and");
        both.push_doc(sent.filter.as_doc());
        let mut this = both.doc();
        this.doc("_id").put("$eq", row.get("_id").or_null());
        this.doc(HIDDEN_FIELD)
            .put("$eq", row.get(HIDDEN_FIELD).or_null());
        this.end();
        both.end();
    });
    let query = ValueRef::document(query.as_doc());
    with_fields(sent.body.as_doc(), &[("query", query)])
}
