//! `update`: filters get the predicate, changes get the stamp.
//!
//! An upsert's filter may have no `$expr`. So what has ended among the documents that it matches is deleted first, and the
//! upsert goes without predicate.

use bytes::Bytes;

use crate::error::Result;
use crate::upstream::{Ask, CollectionRules};
use crate::value::{Doc, DocBuf, ValueRef, is_true};
use crate::wire::Request;

use super::batch::{Batch, StatementBytes};
use super::change::{OwnTtlCheck, names_ts, stamped};
use super::fields::{doc_or_empty, statements, with_replaced};
use super::filter::prepared;
use super::guess::{self, FirstTry, Guessed};
use super::naming::{Parts, check_hidden};
use super::run::{RuledCollection, Stop};
use super::takeover::{Ended, in_transaction, started};
use super::{EndedPredicate, Moment, WriteStamp, hint};

/// What is deleted before an update.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DeletedFirst {
    /// The statements that are upserts.
    pub upserts: Vec<usize>,
    /// A statement that changes many documents cannot be sent again after a duplicate key: some are changed already. So no
    /// ended document may be in its way.
    pub everything: bool,
}

pub async fn run<A: Ask>(
    ask: &mut A,
    request: &Request,
    target: &RuledCollection<'_>,
    moment: Moment,
) -> Result<Bytes, Stop> {
    let updates = statements(request, "updates")?;
    let lets = request.body().get("let").as_doc();
    let guessed = |update: Doc<'_>, first: FirstTry<'_>| {
        let narrow = |filter: Doc<'_>| first.narrow(filter);
        rewrite(update, lets, target.rules, (narrow, first.check()), moment)
    };
    let guess = guess::send(ask, request, ("updates", &updates), target, moment, guessed);
    let guess = match guess.await? {
        Guessed::Reply(reply) => return Ok(reply),
        missed => missed,
    };
    let predicate = EndedPredicate::new(target.rules, moment.now);
    let takeover = target.takeover(request, moment);
    let mut sent = StatementBytes::default();
    let mut before = DeletedFirst::default();
    for (at, update) in updates.iter().enumerate() {
        let narrow = |filter: Doc<'_>| predicate.alive(filter);
        let narrow = (narrow, OwnTtlCheck::None);
        match rewrite(*update, lets, target.rules, narrow, moment) {
            Ok(changed) => sent.push(changed.as_doc()),
            Err(error) => {
                sent.refuse(error);
                continue;
            }
        }
        if is_true(update.get("upsert")) {
            before.upserts.push(at);
        }
        before.everything |= target.has_unique_keys && is_true(update.get("multi"));
    }
    let transaction = in_transaction(request.body()) && !predicate.is_none();
    before.everything |= target.has_unique_keys && transaction;
    let mut fields = Vec::new();
    if before.everything {
        Box::pin(takeover.ahead().drain(ask)).await?;
        fields = started(request.body());
    } else if !before.upserts.is_empty() && !predicate.is_none() {
        let upserts = before.upserts.iter().filter_map(|at| updates.get(*at));
        let ended = upserts.map(|update| Ended {
            filter: doc_or_empty(*update, "q"),
            collation: update.get("collation"),
        });
        Box::pin(takeover.ahead().delete(ask, ended)).await?;
        fields = started(request.body());
    }
    let batch = Batch {
        request,
        name: "updates",
        statements: sent,
        fields,
        takeover,
        begun: match &guess {
            Guessed::Begun(reply) => Some(reply.clone()),
            _ => None,
        },
    };
    let reply = batch.send(ask).await?;
    Ok(guess.then(reply, target.rules))
}

/// Returns one statement as it is sent. `narrow` lets its filter match only documents that have not ended.
pub fn rewrite(
    update: Doc<'_>,
    lets: Option<Doc<'_>>,
    rules: &CollectionRules,
    (narrow, check): (impl Fn(Doc<'_>) -> DocBuf, OwnTtlCheck),
    moment: Moment,
) -> Result<DocBuf> {
    if rules.stamped {
        check_hidden(update, &[])?;
    }
    let filter = doc_or_empty(update, "q");
    let change = update.get("u");
    let shows_ts = moment.expose_ts
        || names_ts(change)
        || Parts {
            filter: Some(filter),
            sort: update.get("sort").as_doc(),
            lets,
            ..Parts::default()
        }
        .name_ts();
    let prepared = prepared(filter, rules, shows_ts)?;
    let filter = prepared.as_ref().map_or(filter, DocBuf::as_doc);
    let filter = match is_true(update.get("upsert")) {
        true => DocBuf::from(filter),
        false => narrow(filter),
    };
    let change = stamped(change, WriteStamp::new(rules, moment.now), check)?;
    Ok(with_replaced(
        update,
        &[
            ("q", ValueRef::document(filter.as_doc())),
            ("u", change.as_ref()),
            hint::sent(update, rules),
        ],
    ))
}
