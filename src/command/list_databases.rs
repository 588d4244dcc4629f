//! `listDatabases`: lists the databases and their sizes.

use super::{Access, Call, Command, Flags, Needs, Outcome};
use crate::auth::{Action, AuthTarget};
use crate::engine::stats::StorageStats;
use crate::error::{Code, Error, Result};
use crate::names::{INTERNAL_DATABASES, is_internal};
use crate::query::Scope;
use crate::query::filter::Filter;
use crate::value::{Doc, DocBuf, DocBuilder};

pub(super) const COMMAND: Command =
    Command::ready("listDatabases", Access::Admin, "Lists the databases.", run)
        .with(Flags::STABLE.and(Flags::ADMIN_ONLY).and(Flags::SECONDARY))
        .needs(Needs::Nothing);

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut filter = Doc::EMPTY;
    let mut name_only = false;
    let mut authorized = None;
    for arg in call.args().skip(1) {
        match arg.name() {
            "filter" => filter = arg.doc()?.unwrap_or(Doc::EMPTY),
            "nameOnly" => name_only = arg.bool()?.unwrap_or(false),
            "authorizedDatabases" => authorized = arg.strict_bool()?,
            _ => return Err(arg.unknown()),
        }
    }
    // A user who may not list all databases sees those that they may use.
    let all = call.may(AuthTarget::Cluster, Action::ListDatabases);
    if !all && authorized == Some(false) {
        return Err(Error::new(
            Code::Unauthorized,
            "Insufficient permissions to list all databases",
        ));
    }
    let some = !all || authorized == Some(true);
    let filter = Filter::parse(filter, &Scope::without_constants())?;
    let vars = call.vars();
    let mut total = 0;
    let mut databases = reply.array("databases");
    for name in names(call) {
        if some && !call.may_enter(&name) {
            continue;
        }
        let mut bytes = 0;
        let mut empty = !is_internal(&name);
        for collection in call.context.catalog.in_database(&name) {
            let figures = StorageStats::of(&collection, call.read_point());
            empty &= figures.documents.count == 0;
            bytes += figures.documents.bytes + figures.index_bytes();
        }
        let doc = DocBuf::build(|doc| {
            doc.put_str("name", &name);
            if !name_only {
                doc.put_i64("sizeOnDisk", bytes.cast_signed())
                    .put_bool("empty", empty);
            }
        });
        if filter.matches(doc.as_doc(), &vars)? {
            total += bytes;
            databases.push_doc(doc.as_doc());
        }
    }
    databases.end();
    if !name_only {
        reply
            .put_i64("totalSize", total.cast_signed())
            .put_i64("totalSizeMb", (total / 1024 / 1024).cast_signed());
    }
    Ok(Outcome::Reply)
}

fn names(call: &Call<'_>) -> Vec<String> {
    let mut names = call.context.catalog.databases();
    // These are listed even if they hold nothing.
    names.extend(INTERNAL_DATABASES.iter().map(|&name| name.to_owned()));
    names.sort_unstable();
    names.dedup();
    names
}
