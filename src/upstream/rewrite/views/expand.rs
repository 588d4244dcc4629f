//! Replaces the views in a command by what they read.

use super::reply::ViewReply;
use super::stages::ViewStages;
use super::{collation, read};
use crate::error::Result;
use crate::query::stage::{ConditionPosition, STAGES};
use crate::upstream::RuledView;
use crate::upstream::rewrite::Rulebook;
use crate::upstream::rewrite::fields::{doc_or_empty, with_body, with_fields};
use crate::upstream::rewrite::namespaces::database;
use crate::value::{ArrayBuilder, Doc, DocBuf, ValueRef};
use crate::wire::Request;

/// A command in which views were replaced.
pub struct Expanded {
    pub request: Request,
    /// What becomes of the reply, if the command itself was on a view.
    pub reply: Option<ViewReply>,
}

/// Replaces the views with rules that a reading command names, each by what it is based on. The result may name other
/// views. Returns `None` if nothing was replaced: a command that cannot be run on a view is the cluster's to refuse.
pub fn expand<B: Rulebook>(request: &Request, book: &B) -> Result<Option<Expanded>> {
    let command = request.body();
    let db = database(request);
    let Some(first) = command.first() else {
        return Ok(None);
    };
    if first.name() != "explain" {
        let expanded = expand_command(command, db, book)?;
        return Ok(expanded.map(|(body, reply)| Expanded {
            request: with_body(request, body),
            reply,
        }));
    }
    let expanded = expand_command(doc_or_empty(command, "explain"), db, book)?;
    Ok(expanded.map(|(body, _)| {
        let inner = ValueRef::document(body.as_doc());
        Expanded {
            request: with_body(request, with_fields(command, &[("explain", inner)])),
            reply: None,
        }
    }))
}

fn expand_command<B: Rulebook>(
    command: Doc<'_>,
    db: &str,
    book: &B,
) -> Result<Option<(DocBuf, Option<ViewReply>)>> {
    let Some(first) = command.first() else {
        return Ok(None);
    };
    let name = first.value.as_str().unwrap_or_default();
    let rules = book.rules(db, name);
    let view = rules.view.as_deref();
    let reads = matches!(first.name(), "find" | "count" | "distinct" | "aggregate");
    if !reads || (view.is_some() && begins_without_documents(command)) {
        return Ok(None);
    }
    if let (Some(view), Some(asked)) = (view, command.get("collation").as_doc()) {
        collation::check(view, asked)?;
    }
    let shown = format!("{db}.{name}");
    let (aggregate, reply) = match (first.name(), view) {
        ("find", Some(_)) => (read::find(command)?, ViewReply::Rows(shown)),
        ("count", Some(_)) => (read::count(command), ViewReply::Count),
        ("distinct", Some(_)) => (read::distinct(command)?, ViewReply::Distinct),
        ("aggregate", _) => (DocBuf::from(command), ViewReply::Rows(shown)),
        _ => return Ok(None),
    };
    let aggregate = aggregate.as_doc();
    let Some(own) = aggregate.get("pipeline").as_array() else {
        return Ok(None);
    };
    let stages = ViewStages {
        book,
        database: db,
        collation: aggregate.get("collation").as_doc(),
        view,
    };
    let mut bytes = Vec::with_capacity(own.bytes().len() + 256);
    let mut out = ArrayBuilder::begin(&mut bytes);
    for stage in view.map_or(Doc::EMPTY, |found| found.stages.as_doc()) {
        out.push(stage.value);
    }
    let inner_replaced = stages.write(own, &mut out)?;
    out.end();
    if view.is_none() && !inner_replaced {
        return Ok(None);
    }
    let sent = on_base(aggregate, view, Doc::new(&bytes));
    Ok(Some((sent, view.is_some().then_some(reply))))
}

/// Returns the aggregate with other stages, on what the view is based on.
fn on_base(aggregate: Doc<'_>, view: Option<&RuledView>, stages: Doc<'_>) -> DocBuf {
    let collation = view.map(collation::of_view);
    DocBuf::build_sized(aggregate.bytes().len() + stages.bytes().len(), |out| {
        for elem in aggregate {
            match (elem.name(), view) {
                ("aggregate", Some(view)) => out.put_str("aggregate", &view.base),
                ("pipeline", _) => out.put("pipeline", ValueRef::array(stages)),
                ("collation", Some(_)) => out,
                (name, _) => out.put(name, elem.value),
            };
        }
        if let Some(collation) = &collation {
            out.put_doc("collation", collation.as_doc());
        }
    })
}

/// Returns whether a pipeline begins with a stage that reads no documents, such as `$changeStream`. The cluster refuses it on a
/// view.
fn begins_without_documents(command: Doc<'_>) -> bool {
    let stages = command.get("pipeline").as_array();
    let first = stages.and_then(|stages| stages.first()?.value.as_doc()?.first());
    let row = first.and_then(|first| STAGES.find(first.name_bytes()));
    row.is_some_and(|row| row.facts.condition == ConditionPosition::Nowhere)
}
