//! `insert`: every document gets the stamp.

use bytes::Bytes;

use crate::interrupt::run_over;
use crate::upstream::{Ask, CollectionRules};
use crate::value::{ArrayBuilder, Doc, DocBuf, ValueRef};
use crate::wire::Request;

use super::batch::{Batch, StatementBytes};
use super::fields::statements;
use super::naming::check_document;
use super::run::{RuledCollection, Stop, is_ok};
use super::stamp::put_without;
use super::takeover::{Ended, in_transaction, started};
use super::unfiltered::remember_inserted;
use super::{Moment, WriteStamp};
use crate::ttl::TS_FIELD;

pub async fn run<A: Ask>(
    ask: &mut A,
    request: &Request,
    target: &RuledCollection<'_>,
    moment: Moment,
) -> Result<Bytes, Stop> {
    let documents = statements(request, "documents")?;
    let takeover = target.takeover(request, moment);
    let mut fields = Vec::new();
    if in_transaction(request.body()) && target.rules.can_end() {
        // A duplicate key would end the transaction, so what has ended makes way first.
        let ids = ids(&documents);
        let filter = match target.has_unique_keys {
            true => Doc::EMPTY,
            false => ids.as_doc(),
        };
        let collation = ValueRef::MISSING;
        let ended = [Ended { filter, collation }];
        Box::pin(takeover.delete(ask, ended)).await?;
        fields = started(request.body());
    }
    let term = ask.term();
    let batch = Batch {
        request,
        name: "documents",
        statements: stamped(&documents, target.rules, moment),
        fields,
        takeover,
        begun: None,
    };
    let sent = batch.run(ask).await?;
    if sent.once && !in_transaction(request.body()) && is_whole(&sent.reply, documents.len()) {
        remember_inserted(&documents, target.rules, (moment.now, term));
    }
    Ok(sent.reply)
}

/// Returns whether all documents were inserted just now.
fn is_whole(reply: &Bytes, documents: usize) -> bool {
    let reply = Doc::new(reply);
    let n = reply.get("n").as_i32();
    is_ok(reply) && n.map(usize::try_from) == Some(Ok(documents)) && !reply.has("retriedStmtIds")
}

/// Returns the documents as they are stored.
pub fn stamped(documents: &[Doc<'_>], rules: &CollectionRules, moment: Moment) -> StatementBytes {
    let stamp = WriteStamp::new(rules, moment.now);
    let size: usize = documents.iter().map(|doc| doc.bytes().len() + 40).sum();
    let mut stored = StatementBytes::with_capacity(size);
    run_over(size, || {
        for &doc in documents {
            match (stamp, check_document(doc)) {
                (None, _) => stored.push(doc),
                (Some(_), Err(error)) => stored.refuse(error),
                (Some(stamp), Ok(())) => stored.push_with(|out| {
                    put_without(doc, &[TS_FIELD], out);
                    stamp.put(out);
                }),
            }
        }
    });
    stored
}

/// Returns the filter for the `_id`s of documents.
pub fn ids(documents: &[Doc<'_>]) -> DocBuf {
    let mut bytes = Vec::new();
    let mut ids = ArrayBuilder::begin(&mut bytes);
    for id in documents.iter().map(|doc| doc.get("_id")) {
        if !id.is_missing() {
            ids.push(id);
        }
    }
    ids.end();
    DocBuf::build(|filter| {
        filter
            .doc("_id")
            .put("$in", ValueRef::array(Doc::new(&bytes)));
    })
}
