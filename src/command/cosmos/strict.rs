//! The rules of `--strict cosmos`, asked before a command begins, or before it is explained.

use super::pipeline;
use crate::command::{Call, Flags};
use crate::cosmos::strict;
use crate::error::Result;
use crate::value::{Doc, DocBuf, ValueRef};

pub fn check(call: &Call<'_>) -> Result<()> {
    strict::check_command(call.command.name)?;
    if call.transaction_number().is_some() && call.command.facts.flags.has(Flags::RETRYABLE) {
        return Err(strict::retryable());
    }
    let doc_of = |name| call.arg(name).and_then(|arg| arg.value().as_doc());
    let array_of = |name| call.arg(name).and_then(|arg| arg.value().as_array());
    match call.command.name {
        "createIndexes" => {
            let specs = array_of("indexes").unwrap_or(Doc::EMPTY);
            for spec in specs.iter().filter_map(|elem| elem.value.as_doc()) {
                strict::check_index(spec, would_add(call, spec)?)?;
            }
        }
        "find" => check_sort(call, doc_of("sort"))?,
        "findAndModify" => {
            let keys = keys(call)?;
            let sort = doc_of("sort").filter(|_| !keys.is_empty());
            let keys = keys.iter().map(DocBuf::as_doc);
            strict::check_lone_sort(sort.unwrap_or(Doc::EMPTY), keys)?;
        }
        "update" => {
            for statement in call.documents("updates")?.iter() {
                let statement = statement.as_doc().unwrap_or(Doc::EMPTY);
                check_sort(call, statement.get("sort").as_doc())?;
            }
        }
        "aggregate" => {
            let stages = array_of("pipeline").unwrap_or(Doc::EMPTY);
            pipeline::check_stages(stages)?;
            for sort in pipeline::sorts_of_source(stages) {
                check_sort(call, Some(sort))?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Whether the collection has documents, and not this very index: making it again changes nothing.
fn would_add(call: &Call<'_>, spec: Doc<'_>) -> Result<bool> {
    let name = call.target().as_str().unwrap_or_default();
    let Some(there) = call.context.catalog.get(call.database(), name)? else {
        return Ok(false);
    };
    let key = spec.get("key");
    let same = |known: Doc<'_>| crate::value::equal(ValueRef::document(known), key);
    Ok(there.read(call.read_point(), |view| {
        let mut unique = view.indexes().filter(|index| index.spec.unique);
        view.totals().count > 0 && !unique.any(|index| same(index.spec.key.as_doc()))
    }))
}

fn check_sort(call: &Call<'_>, sort: Option<Doc<'_>>) -> Result<()> {
    let Some(sort) = sort else {
        return Ok(());
    };
    let keys = keys(call)?;
    // Where there is no collection, nothing has to be sorted.
    if keys.is_empty() {
        return Ok(());
    }
    strict::check_sort(sort, keys.iter().map(DocBuf::as_doc))
}

/// The keys of the collection's indexes. The service indexes the shard key, too.
fn keys(call: &Call<'_>) -> Result<Vec<DocBuf>> {
    let name = call.target().as_str().unwrap_or_default();
    let Some(there) = call.context.catalog.get(call.database(), name)? else {
        return Ok(Vec::new());
    };
    let mut keys = vec![DocBuf::build(|key| {
        key.put_i32("_id", 1);
    })];
    keys.extend(there.read(call.read_point(), |view| {
        let ready = view.indexes().filter(|index| index.ready);
        ready
            .map(|index| index.spec.key.clone())
            .collect::<Vec<_>>()
    }));
    let uuid = *there.uuid().as_bytes();
    let offers = &call.context.cosmos.offers;
    keys.extend(offers.collection(&call.namespace(name), uuid).shard_key);
    Ok(keys)
}
