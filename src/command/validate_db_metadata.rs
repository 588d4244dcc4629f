//! `validateDBMetadata`: reports the parts of collections and indexes that are not in the stable API.

use super::{Access, Call, Command, Flags, Needs, Outcome};
use crate::args::{fields, required};
use crate::auth::{Action, AuthTarget};
use crate::engine::describe::sparse_indexes;
use crate::error::{Code, Error, Result};
use crate::names::{self, check_collection};
use crate::value::{ArrayBuilder, Doc, DocBuilder};

pub(super) const COMMAND: Command = Command::ready(
    "validateDBMetadata",
    Access::Admin,
    "Finds collections and indexes outside the stable API.",
    run,
)
.with(Flags::SECONDARY)
.needs(Needs::Asked(may));

/// Checks the rights. A command that names no database asks about all of them, except `config` and `local`.
fn may(call: &Call<'_>) -> Result<bool> {
    let validate = |name: &str| call.may(AuthTarget::Database(name), Action::Validate);
    Ok(match call.arg("db").and_then(|arg| arg.value().as_str()) {
        Some(name) => validate(name),
        None => {
            let all = call.context.catalog.databases();
            let mut others = all
                .iter()
                .filter(|name| !["config", "local"].contains(&name.as_str()));
            validate(call.database()) && others.all(|name| validate(name))
        }
    })
}

/// The most errors that one reply contains.
const MAX_ERRORS: usize = 10_000;

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let (mut parameters, mut database, mut collection) = (None, None, None);
    for arg in call.args().skip(1) {
        match arg.name() {
            "apiParameters" => parameters = arg.doc()?,
            "db" => {
                database = arg.str()?;
                database.map_or(Ok(()), check_database)?;
            }
            "collection" => {
                collection = arg.str()?;
                if let Some(name) = collection {
                    check_collection(call.database(), name)?;
                }
            }
            _ => return Err(arg.unknown()),
        }
    }
    let strict = read(required(parameters, "validateDBMetadata", "apiParameters")?)?;
    let mut errors = reply.array("apiVersionErrors");
    let complete = !strict || look(call, database, collection, &mut errors);
    errors.end();
    if !complete {
        reply.put_bool("hasMoreErrors", true);
    }
    Ok(Outcome::Reply)
}

/// Reads the API parameters and returns `strict`.
fn read(parameters: Doc<'_>) -> Result<bool> {
    let path = "validateDBMetadata.apiParameters";
    let (mut version, mut strict) = (None, false);
    for field in fields(path, parameters) {
        match field.name() {
            "version" => version = field.str()?,
            name @ ("strict" | "deprecationErrors") => {
                strict |= field.bool_not_null()? && name == "strict";
            }
            _ => return Err(field.unknown()),
        }
    }
    required(version, path, "version")?;
    Ok(strict)
}

/// Checks the name of a database. Only here it may contain a dollar.
fn check_database(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::location(28539, "need a valid database name"));
    }
    if name.contains(['/', '\\', ' ', '"']) {
        return Err(Error::location(13280, format!("invalid db name: {name}")));
    }
    names::check_database(&name.replace('$', "_"))
}

/// Reports sparse indexes, the only feature built here that is not in the stable API. Returns whether all of them were
/// reported.
fn look(
    call: &Call<'_>,
    database: Option<&str>,
    collection: Option<&str>,
    errors: &mut ArrayBuilder<'_>,
) -> bool {
    let mut reported = 0;
    for there in call.context.catalog.collections() {
        let namespace = there.namespace();
        if database.is_some_and(|name| name != namespace.database())
            || collection.is_some_and(|name| name != namespace.collection())
        {
            continue;
        }
        for name in sparse_indexes(&there, call.read_point()) {
            if reported == MAX_ERRORS {
                return false;
            }
            reported += 1;
            let mut error = errors.doc();
            error
                .put_str("ns", namespace.as_str())
                .put_i32("code", Code::APIStrictError.number())
                .put_str("codeName", &Code::APIStrictError.name())
                .put_str(
                    "errmsg",
                    &format!("The index with name {name} is not allowed in API version 1."),
                );
            error.end();
        }
    }
    true
}
