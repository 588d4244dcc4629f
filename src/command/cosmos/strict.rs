//! The rules of `--strict cosmos`, asked before a command begins.

use crate::command::{Call, Flags};
use crate::cosmos::strict;
use crate::error::Result;
use crate::value::Doc;

pub fn check(call: &Call<'_>) -> Result<()> {
    strict::check_command(call.command.name)?;
    if call.transaction_number().is_some() && call.command.flags.has(Flags::RETRYABLE) {
        return Err(strict::refuse_retryable());
    }
    match call.command.name {
        "createIndexes" => {
            let specs = call.arg("indexes").and_then(|arg| arg.value().as_array());
            let filled = has_documents(call);
            for spec in specs.unwrap_or(Doc::EMPTY) {
                strict::check_index(spec.value.as_doc().unwrap_or(Doc::EMPTY), filled)?;
            }
            Ok(())
        }
        "find" | "findAndModify" => {
            check_sort(call, call.arg("sort").and_then(|arg| arg.value().as_doc()))
        }
        "aggregate" => {
            let stages = call.arg("pipeline").and_then(|arg| arg.value().as_array());
            let stages = stages.unwrap_or(Doc::EMPTY);
            strict::check_pipeline(stages)?;
            check_sort(call, strict::leading_sort(stages))
        }
        _ => Ok(()),
    }
}

fn has_documents(call: &Call<'_>) -> bool {
    let name = call.target().as_str().unwrap_or_default();
    let collection = call.context.catalog.get(call.database(), name);
    collection.is_some_and(|there| there.read(call.now, |view| view.totals().count > 0))
}

/// Where there is no collection, nothing has to be sorted.
fn check_sort(call: &Call<'_>, sort: Option<Doc<'_>>) -> Result<()> {
    let name = call.target().as_str().unwrap_or_default();
    let (Some(sort), Some(there)) = (sort, call.context.catalog.get(call.database(), name)) else {
        return Ok(());
    };
    there.read(call.now, |view| {
        let ready = view.indexes().filter(|index| index.ready);
        strict::check_sort(sort, ready.map(|index| index.spec.key.as_doc()))
    })
}
