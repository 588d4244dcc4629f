//! `explain` of a command that would be written anew. The plan is that of what the cluster would be asked.

use crate::error::{Error, Result};
use crate::value::{Doc, DocBuf, ValueRef};
use crate::wire::Request;

use super::aggregate::AggregateRewrite;
use super::change::OwnTtlCheck;
use super::fields::with_fields;
use super::find::FindRewrite;
use super::find_and_modify::FindAndModify;
use super::namespaces::database;
use super::rulebook::NO_RULES;
use super::run::RuledCollection;
use super::{EndedPredicate, Moment, Rulebook, delete, reads, update};

/// Returns the command with the inner command as it would be sent.
pub fn rewrite<B: Rulebook>(request: &Request, book: &B, moment: Moment) -> Result<DocBuf> {
    let command = request.body();
    let inner = super::fields::doc_or_empty(command, "explain");
    let db = database(request);
    let first = inner.first();
    let collection = first.and_then(|first| first.value.as_str());
    let rules = collection.map(|collection| book.rules(db, collection));
    let rules = rules.as_deref().unwrap_or(&NO_RULES);
    let predicate = EndedPredicate::new(rules, moment.now);
    let narrow = |filter: Doc<'_>| predicate.alive(filter);
    let body = match first.map_or("", |first| first.name()) {
        "find" => FindRewrite::rewrite(inner, rules, moment)?.body,
        "count" | "distinct" => reads::rewrite(inner, rules, moment)?,
        "aggregate" => AggregateRewrite::rewrite(inner, db, rules, book, moment)?.body,
        "update" => each(inner, "updates", |statement| {
            let lets = inner.get("let").as_doc();
            update::rewrite(statement, lets, rules, (narrow, OwnTtlCheck::None), moment)
        })?,
        "delete" => each(inner, "deletes", |statement| {
            delete::rewrite(statement, "q", rules, narrow, moment)
        })?,
        "findAndModify" | "findandmodify" => {
            let target = RuledCollection {
                database: db,
                collection: collection.unwrap_or_default(),
                rules,
                has_unique_keys: true,
            };
            FindAndModify::rewrite(inner, &target, (narrow, OwnTtlCheck::None), moment)?.body
        }
        other => {
            return Err(Error::not_implemented(format_args!(
                "explain of {other} on a collection with a TTL, in front of a cluster,"
            )));
        }
    };
    let body = ValueRef::document(body.as_doc());
    Ok(with_fields(command, &[("explain", body)]))
}

/// Rewrites the statements of a write command.
fn each(
    command: Doc<'_>,
    name: &str,
    rewrite: impl Fn(Doc<'_>) -> Result<DocBuf>,
) -> Result<DocBuf> {
    let mut bytes = Vec::new();
    let mut out = crate::value::ArrayBuilder::begin(&mut bytes);
    let statements = command.get(name).as_array().into_iter().flatten();
    for statement in statements.filter_map(|elem| elem.value.as_doc()) {
        out.push_doc(rewrite(statement)?.as_doc());
    }
    out.end();
    let statements = ValueRef::array(Doc::new(&bytes));
    Ok(with_fields(command, &[(name, statements)]))
}
