//! `aggregate`.

use std::cell::RefCell;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::upstream::{Ask, CollectionRules};
use crate::value::{ArrayBuilder, Doc, DocBuf, ValueRef};
use crate::wire::Request;

use super::cursors::{CursorRule, CursorRules};
use super::fields::{with_body, with_fields};
use super::get_more::finish;
use super::namespaces::NamespacePair;
use super::naming::Parts;
use super::pipeline::Levels;
use super::rows::{RowRule, Window};
use super::run::{RuledCollection, Stop};
use super::takeover::Takeover;
use super::{Moment, Rulebook, hint};

/// An aggregate as it is sent, and what becomes of its rows.
pub struct AggregateRewrite {
    pub body: DocBuf,
    pub rows: RowRule,
    /// The collections from which everything that has ended must go first.
    pub drained: Vec<NamespacePair>,
}

pub async fn run<A: Ask, B: Rulebook>(
    ask: &mut A,
    request: &Request,
    target: &RuledCollection<'_>,
    book: &B,
    moment: Moment,
    cursors: &CursorRules,
) -> Result<Bytes, Stop> {
    let command = request.body();
    let sent = AggregateRewrite::rewrite(command, target.database, target.rules, book, moment)?;
    for (db, collection) in &sent.drained {
        let rules = book.rules(db, collection);
        let takeover = Takeover {
            database: db,
            collection,
            rules: &rules,
            now: moment.now,
            command: Doc::EMPTY,
            untried: true,
        };
        takeover.drain(ask).await?;
    }
    let reply = ask.ask(with_body(request, sent.body)).await?;
    let rule = CursorRule {
        rows: sent.rows,
        window: Window::default(),
        rules: book.rules(target.database, target.collection),
        used: moment.now,
    };
    match rule.rows.is_none() {
        true => Ok(reply),
        false => finish(ask, reply, rule, target.database, moment, cursors).await,
    }
}

/// Returns whether an aggregate names `_ts`.
pub fn names_ts(command: Doc<'_>) -> bool {
    let parts = Parts {
        pipeline: command.get("pipeline").as_array(),
        lets: command.get("let").as_doc(),
        ..Parts::default()
    };
    parts.name_ts()
}

// === impl AggregateRewrite ===

impl AggregateRewrite {
    pub fn rewrite<B: Rulebook>(
        command: Doc<'_>,
        database: &str,
        rules: &CollectionRules,
        book: &B,
        moment: Moment,
    ) -> Result<Self> {
        let stages = command.get("pipeline").as_array();
        let stages = stages.ok_or_else(|| {
            Error::type_mismatch("'pipeline' option must be specified as an array")
        })?;
        let shows_ts = moment.expose_ts || names_ts(command);
        let levels = Levels {
            book,
            database,
            collection: command
                .first()
                .and_then(|first| first.value.as_str())
                .unwrap_or_default(),
            moment,
            shows_ts,
            drained: RefCell::default(),
        };
        let mut bytes = Vec::with_capacity(stages.bytes().len() + 512);
        let mut out = ArrayBuilder::begin(&mut bytes);
        let rows = levels.outer(stages, rules, &mut out)?;
        out.end();
        let sent = ValueRef::array(Doc::new(&bytes));
        let fields = [("pipeline", sent), hint::sent(command, rules)];
        let rows = rows.rule(rules, shows_ts)?;
        Ok(Self {
            body: with_fields(command, &fields),
            rows,
            drained: levels.drained.into_inner(),
        })
    }
}
