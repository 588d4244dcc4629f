//! `bulkWrite`: writes to several collections in one command.
//!
//! Its reply is a cursor over the outcomes, which cannot be put together from parts. So everything that has ended and could
//! be in the way is deleted first.

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::upstream::Ask;
use crate::value::{Doc, DocBuf, ValueRef, is_true};
use crate::wire::Request;

use super::batch::StatementBytes;
use super::change::{OwnTtlCheck, names_ts, stamped};
use super::cursors::CursorRules;
use super::fields::{doc_or_empty, statements, with_fields, with_replaced, with_statements};
use super::filter::prepared;
use super::naming::{Parts, check_document, check_hidden};
use super::run::Stop;
use super::takeover::{Ended, Takeover, in_transaction, started};
use super::{EndedPredicate, Moment, Rulebook, WriteStamp, delete, hint, insert};

pub async fn run<A: Ask, B: Rulebook>(
    ask: &mut A,
    request: &Request,
    book: &B,
    moment: Moment,
    _cursors: &CursorRules,
) -> Result<Bytes, Stop> {
    let ops = statements(request, "ops")?;
    let infos = statements(request, "nsInfo")?;
    let mut sent = StatementBytes::default();
    for op in &ops {
        let namespace = namespace(*op, &infos)?;
        let changed = rewrite(*op, namespace, book, moment)?;
        sent.push(changed.as_doc());
    }
    for (at, info) in infos.iter().enumerate() {
        let Some((db, collection)) = info.get("ns").as_str().and_then(|ns| ns.split_once('.'))
        else {
            continue;
        };
        let rules = book.rules(db, collection);
        if !rules.can_end() {
            continue;
        }
        let here = |op: &&Doc<'_>| index_of(**op) == Some(at);
        let takeover = Takeover {
            database: db,
            collection,
            rules: &rules,
            now: moment.now,
            command: match in_transaction(request.body()) {
                true => request.body(),
                false => Doc::EMPTY,
            },
            untried: true,
        };
        if book.has_unique_keys(db, collection) {
            takeover.drain(ask).await?;
            continue;
        }
        let inserted = ops.iter().filter(here).filter(|op| op.has("insert"));
        let inserted: Vec<_> = inserted
            .filter_map(|op| op.get("document").as_doc())
            .collect();
        let ids = insert::ids(&inserted);
        let upserts = ops
            .iter()
            .filter(here)
            .filter(|op| is_true(op.get("upsert")));
        let ended = upserts.map(|op| Ended {
            filter: doc_or_empty(*op, "filter"),
            collation: op.get("collation"),
        });
        let by_id = (!inserted.is_empty()).then(|| Ended {
            filter: ids.as_doc(),
            collation: ValueRef::MISSING,
        });
        takeover.delete(ask, ended.chain(by_id)).await?;
    }
    let mut fields = started(request.body());
    fields.push(("ops", ValueRef::MISSING));
    let body = with_fields(request.body(), &fields);
    Ok(ask
        .ask(with_statements(request, body, "ops", sent.into_bytes()))
        .await?)
}

/// Returns one operation as it is sent.
pub fn rewrite<B: Rulebook>(
    op: Doc<'_>,
    (db, collection): (&str, &str),
    book: &B,
    moment: Moment,
) -> Result<DocBuf> {
    let rules = book.rules(db, collection);
    if rules.is_none() {
        return Ok(DocBuf::from(op));
    }
    let predicate = EndedPredicate::new(&rules, moment.now);
    let stamp = WriteStamp::new(&rules, moment.now);
    if op.has("insert") {
        let document = doc_or_empty(op, "document");
        let Some(stamp) = stamp else {
            return Ok(DocBuf::from(op));
        };
        check_document(document)?;
        let stored = stamp.document(document);
        return Ok(with_replaced(
            op,
            &[("document", ValueRef::document(stored.as_doc()))],
        ));
    }
    if op.has("delete") {
        let narrow = |filter: Doc<'_>| predicate.alive(filter);
        return delete::rewrite(op, "filter", &rules, narrow, moment);
    }
    if rules.stamped {
        check_hidden(op, &[])?;
    }
    let filter = doc_or_empty(op, "filter");
    let change = op.get("updateMods");
    let parts = Parts {
        filter: Some(filter),
        sort: op.get("sort").as_doc(),
        ..Parts::default()
    };
    let shows_ts = moment.expose_ts || parts.name_ts() || names_ts(change);
    let prepared = prepared(filter, &rules, shows_ts)?;
    let filter = prepared.as_ref().map_or(filter, DocBuf::as_doc);
    let filter = match is_true(op.get("upsert")) {
        true => DocBuf::from(filter),
        false => predicate.alive(filter),
    };
    let change = stamped(change, stamp, OwnTtlCheck::None)?;
    let filter = ValueRef::document(filter.as_doc());
    Ok(with_replaced(
        op,
        &[
            ("filter", filter),
            ("updateMods", change.as_ref()),
            hint::sent(op, &rules),
        ],
    ))
}

/// Returns the number of the namespace that an operation is about.
fn index_of(op: Doc<'_>) -> Option<usize> {
    let number = op.first()?.value.as_num()?.to_i64_exact()?;
    usize::try_from(number).ok()
}

fn namespace<'a>(op: Doc<'_>, infos: &[Doc<'a>]) -> Result<(&'a str, &'a str)> {
    let info = index_of(op).and_then(|at| infos.get(at));
    let name = info.and_then(|info| info.get("ns").as_str());
    name.and_then(|name| name.split_once('.'))
        .ok_or_else(|| Error::bad_value("BulkWrite ops entry has an invalid nsInfo index."))
}
