//! The stable API: what a client that asks for it strictly may not use, and that a cursor is read as it was opened.

use super::Command;
use crate::error::{Code, Error, Result};
use crate::value::{Doc, DocBuf, Elem};

/// The fields of stable commands that are not stable themselves, as MongoDB's command definitions (`.idl`) mark them.
const UNSTABLE: &[(&str, &[&str])] = &[
    ("aggregate", &["exchange", "isMapReduceCommand"]),
    ("collMod", &["changeStreamPreAndPostImages"]),
    (
        "create",
        &[
            "changeStreamPreAndPostImages",
            "flags",
            "indexOptionDefaults",
            "max",
            "recordIdsReplicated",
            "size",
            "storageEngine",
            "temp",
        ],
    ),
    ("createIndexes", &["ignoreUnknownIndexOptions"]),
    (
        "find",
        &[
            "awaitData",
            "max",
            "min",
            "noCursorTimeout",
            "oplogReplay",
            "returnKey",
            "showRecordId",
            "tailable",
        ],
    ),
    ("listCollections", &["includePendingDrops"]),
    (
        "listIndexes",
        &["includeBuildUUIDs", "includeIndexBuildInfo"],
    ),
];

/// The fields that say which API a client uses.
const PARAMETERS: [&str; 3] = ["apiVersion", "apiStrict", "apiDeprecationErrors"];

/// Checks the own fields of a command of a client with `apiStrict`. The first field is the name that the client used.
pub fn check_strict(command: &Command, own: &[Elem<'_>]) -> Result<()> {
    let strict = |message: String| Err(Error::new(Code::APIStrictError, message));
    let used = own.first().map_or(command.name, Elem::name);
    if used != command.name {
        return strict(format!(
            "Command invocation with name '{used}' is not allowed in 'apiStrict' mode, use '{}' instead",
            command.name
        ));
    }
    let row = UNSTABLE.iter().find(|(name, _)| *name == command.name);
    let fields = row.map_or(&[][..], |(_, fields)| fields);
    match own.iter().find(|elem| fields.contains(&elem.name())) {
        None => Ok(()),
        Some(elem) => strict(format!(
            "BSON field '{used}.{}' is not allowed with apiStrict:true.",
            elem.name()
        )),
    }
}

/// Checks that a getMore uses the API of the command that opened the cursor.
pub fn check_same(get_more: Doc<'_>, opening: Doc<'_>) -> Result<()> {
    let (used, opened) = (parameters(get_more), parameters(opening));
    match used == opened {
        true => Ok(()),
        false => Err(Error::new(
            Code::APIMismatchError,
            format!(
                "API parameter mismatch: getMore used params {used}, the cursor-creating command used {opened}"
            ),
        )),
    }
}

/// Returns the parameters of a command that chooses an API.
pub fn chosen(command: Doc<'_>) -> Option<DocBuf> {
    command.has("apiVersion").then(|| parameters(command))
}

/// Checks that a command uses the API of the transaction that it belongs to.
pub fn check_transaction(name: &str, command: Doc<'_>, begun: Option<&DocBuf>) -> Result<()> {
    let used = chosen(command);
    if used.as_ref() == begun {
        return Ok(());
    }
    let shown =
        |chosen: Option<&DocBuf>| chosen.map_or_else(|| "{}".to_owned(), ToString::to_string);
    Err(Error::new(
        Code::APIMismatchError,
        format!(
            "API parameter mismatch: {name} used params {}, the transaction's first command used {}",
            shown(used.as_ref()),
            shown(begun)
        ),
    ))
}

fn parameters(command: Doc<'_>) -> DocBuf {
    DocBuf::build(|out| {
        for name in PARAMETERS {
            out.put(name, command.get(name));
        }
    })
}
