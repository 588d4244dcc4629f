//! `dropIndexes`: drops indexes of a collection.

use super::{Access, Call, Command, Flags, Needs, Outcome, schema};
use crate::args::required;
use crate::auth::Action;
use crate::engine::ddl::{DropIndexes, IndexName, Namespace, SchemaChange};
use crate::error::{Error, Result};
use crate::value::{Doc, DocBuf, DocBuilder, Type, ValueRef};

pub(super) const COMMAND: Command =
    Command::ready("dropIndexes", Access::Admin, "Drops indexes.", run)
        .alias(&["deleteIndexes"])
        .with(Flags::STABLE.and(Flags::WRITE_CONCERN))
        .needs(Needs::Collection(Action::DropIndex));

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut index = None;
    for arg in call.args().skip(1) {
        match arg.name() {
            "index" => index = Some(arg.value()),
            "collectionUUID" => super::collection_uuid::check(call, arg)?,
            _ => return Err(arg.unknown()),
        }
    }
    let index = required(index, "dropIndexes", "index")?;
    if !matches!(index.ty(), Type::String | Type::Document | Type::Array) {
        return Err(Error::wrong_type(
            "dropIndexes",
            "index",
            index.ty(),
            &[Type::String, Type::Document, Type::Array],
        ));
    }
    let name = call.collection()?;
    let change = DropIndexes {
        namespace: Namespace::new(call.database(), name),
        indexes: parse(index)?,
    };
    schema::run(call, reply, SchemaChange::DropIndexes(change))
}

/// Parses a name, a key or a list of names. Returns `None` for all indexes.
fn parse(index: ValueRef<'_>) -> Result<Option<Vec<IndexName>>> {
    if let Some(key) = index.as_doc() {
        return Ok(Some(vec![IndexName::Key(DocBuf::from(key))]));
    }
    let mut names = Vec::new();
    if let Some(name) = index.as_str() {
        names.push(name);
    }
    for elem in index.as_array().unwrap_or(Doc::EMPTY) {
        names.push(elem.value.as_str().ok_or_else(|| {
            Error::wrong_type(
                "dropIndexes.index",
                elem.name(),
                elem.value.ty(),
                &[Type::String],
            )
        })?);
    }
    if names.contains(&"*") {
        return Ok(None);
    }
    let name = |name: &str| IndexName::Name(name.to_owned());
    Ok(Some(names.into_iter().map(name).collect()))
}
