//! The rules of `--strict cosmos`, checked before a command runs or is explained.

use super::pipeline;
use crate::command::{Call, Flags};
use crate::cosmos::strict;
use crate::engine::describe::{index_keys, would_add_unique};
use crate::error::Result;
use crate::value::{Doc, DocBuf};

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

/// Whether the command would add this unique index to a collection with documents. Creating an existing index again changes
/// nothing.
fn would_add(call: &Call<'_>, spec: Doc<'_>) -> Result<bool> {
    let name = call.target().as_str().unwrap_or_default();
    let Some(there) = call.context.catalog.get(call.database(), name)? else {
        return Ok(false);
    };
    let at = call.read_point();
    Ok(would_add_unique(&there, at, spec.get("key")))
}

fn check_sort(call: &Call<'_>, sort: Option<Doc<'_>>) -> Result<()> {
    let Some(sort) = sort else {
        return Ok(());
    };
    let keys = keys(call)?;
    // Without a collection there is nothing to sort.
    if keys.is_empty() {
        return Ok(());
    }
    strict::check_sort(sort, keys.iter().map(DocBuf::as_doc))
}

/// Returns the keys of the collection's indexes. Cosmos DB also indexes the shard key.
fn keys(call: &Call<'_>) -> Result<Vec<DocBuf>> {
    let name = call.target().as_str().unwrap_or_default();
    let Some(there) = call.context.catalog.get(call.database(), name)? else {
        return Ok(Vec::new());
    };
    let mut keys = index_keys(&there, call.read_point());
    let uuid = *there.uuid().as_bytes();
    let offers = &call.context.cosmos.offers;
    keys.extend(offers.collection(&call.namespace(name), uuid).shard_key);
    Ok(keys)
}
