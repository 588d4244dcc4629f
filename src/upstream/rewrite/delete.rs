//! `delete`: filters get the predicate.

use bytes::Bytes;

use crate::error::Result;
use crate::upstream::{Ask, CollectionRules};
use crate::value::{Doc, DocBuf, ValueRef};
use crate::wire::Request;

use super::batch::{Batch, StatementBytes};
use super::fields::{doc_or_empty, statements, with_replaced};
use super::filter::prepared;
use super::guess::{self, FirstTry, Guessed};
use super::naming::{Parts, check_hidden};
use super::run::{RuledCollection, Stop};
use super::{EndedPredicate, Moment, hint};

pub async fn run<A: Ask>(
    ask: &mut A,
    request: &Request,
    target: &RuledCollection<'_>,
    moment: Moment,
) -> Result<Bytes, Stop> {
    let deletes = statements(request, "deletes")?;
    let guessed = |delete: Doc<'_>, first: FirstTry<'_>| {
        let narrow = |filter: Doc<'_>| first.narrow(filter);
        rewrite(delete, "q", target.rules, narrow, moment)
    };
    let guess = guess::send(ask, request, ("deletes", &deletes), target, moment, guessed);
    let guess = match guess.await? {
        Guessed::Reply(reply) => return Ok(reply),
        missed => missed,
    };
    let predicate = EndedPredicate::new(target.rules, moment.now);
    let mut sent = StatementBytes::default();
    for delete in deletes {
        let narrow = |filter: Doc<'_>| predicate.alive(filter);
        match rewrite(delete, "q", target.rules, narrow, moment) {
            Ok(changed) => sent.push(changed.as_doc()),
            Err(error) => sent.refuse(error),
        }
    }
    let batch = Batch {
        request,
        name: "deletes",
        statements: sent,
        fields: Vec::new(),
        takeover: target.takeover(request, moment),
        begun: None,
    };
    let reply = batch.send(ask).await?;
    Ok(guess.then(reply, target.rules))
}

/// Returns one statement as it is sent. `narrow` lets its filter match only documents that have not ended.
pub fn rewrite(
    delete: Doc<'_>,
    name: &str,
    rules: &CollectionRules,
    narrow: impl Fn(Doc<'_>) -> DocBuf,
    moment: Moment,
) -> Result<DocBuf> {
    if rules.stamped {
        check_hidden(delete, &[])?;
    }
    let filter = doc_or_empty(delete, name);
    let parts = Parts {
        filter: Some(filter),
        ..Parts::default()
    };
    let shows_ts = moment.expose_ts || parts.name_ts();
    let prepared = prepared(filter, rules, shows_ts)?;
    let filter = prepared.as_ref().map_or(filter, DocBuf::as_doc);
    let sent = narrow(filter);
    let filter = (name, ValueRef::document(sent.as_doc()));
    Ok(with_replaced(delete, &[filter, hint::sent(delete, rules)]))
}
