//! `listCollections`: lists the collections of a database and their options.

use super::system_collections::is_unlisted;
use super::{Access, Call, Command, Flags, Needs, Outcome, cursor};
use crate::auth::{Action, AuthTarget};
use crate::engine::describe::describe_collection;
use crate::error::Result;
use crate::query::Scope;
use crate::query::filter::Filter;
use crate::value::{Doc, DocBuf, DocBuilder};

pub(super) const COMMAND: Command = Command::ready(
    "listCollections",
    Access::Admin,
    "Lists the collections of a database.",
    run,
)
.with(Flags::STABLE.and(Flags::SECONDARY))
.needs(Needs::Asked(may));

/// Checks the rights. A user with any right in the database may list the names of the collections that they may use.
fn may(call: &Call<'_>) -> Result<bool> {
    let db = call.database();
    let said = |name| {
        call.arg(name)
            .is_some_and(|arg| arg.value().as_bool() == Some(true))
    };
    Ok(call.may(AuthTarget::Database(db), Action::ListCollections)
        || said("nameOnly") && said("authorizedCollections") && call.may_enter(db))
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut filter = Doc::EMPTY;
    let mut name_only = false;
    let mut authorized = false;
    let mut batch_size = None;
    for arg in call.args().skip(1) {
        match arg.name() {
            "filter" => filter = arg.doc()?.unwrap_or(Doc::EMPTY),
            "nameOnly" => name_only = arg.strict_bool()?.unwrap_or(false),
            "authorizedCollections" => authorized = arg.strict_bool()?.unwrap_or(false),
            "cursor" => {
                if let Some(options) = arg.doc()? {
                    batch_size = cursor::batch_size("cursor", options)?;
                }
            }
            "includePendingDrops" => {
                arg.bool()?;
            }
            _ => return Err(arg.unknown()),
        }
    }
    let filter = Filter::parse(filter, &Scope::without_constants())?;
    let vars = call.vars();
    let mut found = Vec::new();
    for collection in call.context.catalog.in_database(call.database()) {
        let namespace = collection.namespace();
        let name = namespace.collection();
        if is_unlisted(call.context, call.database(), name)
            || authorized && !call.may_reach(call.database(), name)
        {
            continue;
        }
        let mut doc = describe_collection(&collection, call.read_point());
        if name_only {
            doc = name_and_type(&doc);
        }
        // The filter sees the same fields as the client.
        if filter.matches(doc.as_doc(), &vars)? {
            found.push(doc);
        }
    }
    // A list without rows has ended, also if no row is wanted yet.
    let batch_size = batch_size.filter(|_| !found.is_empty());
    let opening = cursor::CursorOptions::plain(call.namespace("$cmd.listCollections"), batch_size);
    cursor::list(call, reply, found, opening)
}

fn name_and_type(doc: &DocBuf) -> DocBuf {
    DocBuf::build(|short| {
        for name in ["name", "type"] {
            short.put(name, doc.as_doc().get(name));
        }
    })
}
