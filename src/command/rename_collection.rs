//! `renameCollection`: another name, possibly in another database. Documents keep their `_ts`.

use super::create::check_new_name;
use super::{Access, Call, Command, Flags, Outcome, check_collection, check_database};
use crate::error::{Code, Error, Result};
use crate::storage::{Namespace, RenameError};
use crate::value::{DocBuilder, Type};

pub(super) const COMMAND: Command = Command::ready(
    "renameCollection",
    Access::Admin,
    "Gives a collection another name.",
    run,
)
.with(Flags::ADMIN_ONLY.and(Flags::WRITE_CONCERN));

fn run(call: &mut Call<'_>, _: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut from = None;
    let mut to = None;
    let mut drop_target = false;
    let mut uuid = None;
    for arg in call.args() {
        match arg.name() {
            "renameCollection" => from = arg.str()?,
            "to" => to = arg.str()?,
            "dropTarget" => {
                drop_target = match arg.value().ty() {
                    // The UUID of the collection that may be dropped.
                    Type::Binary => true,
                    _ => arg.bool()?.unwrap_or(false),
                }
            }
            "stayTemp" => {
                arg.bool()?;
            }
            "collectionUUID" => uuid = Some(arg),
            _ => return Err(arg.unknown()),
        }
    }
    let from = parse(super::args::required(
        from,
        "renameCollection",
        "renameCollection",
    )?)?;
    let to = parse(super::args::required(to, "renameCollection", "to")?)?;
    check_new_name(to.database(), to.collection())?;
    if from.collection().starts_with("system.") {
        return Err(Error::new(
            Code::IllegalOperation,
            format!("Cannot rename system collection {from}"),
        ));
    }
    if from == to {
        return Err(Error::new(
            Code::IllegalOperation,
            "Can't rename a collection to itself",
        ));
    }
    if let Some(arg) = uuid {
        check_uuid(call, &from, arg)?;
    }
    match call.context.catalog.rename(&from, &to, drop_target) {
        Ok(()) => Ok(Outcome::Reply),
        Err(RenameError::NoSuchSource) => Err(Error::new(
            Code::NamespaceNotFound,
            format!("Source collection {from} does not exist"),
        )),
        Err(RenameError::TargetExists) => {
            Err(Error::new(Code::NamespaceExists, "target namespace exists"))
        }
    }
}

fn check_uuid(call: &Call<'_>, from: &Namespace, arg: super::args::Arg<'_>) -> Result<()> {
    let Some((4, bytes)) = arg.value().as_binary() else {
        if arg.is_null() {
            return Ok(());
        }
        return Err(arg.wrong_type(&[Type::Binary]));
    };
    let there = call.context.catalog.get(from.database(), from.collection());
    if there.is_some_and(|c| c.uuid().as_bytes() == bytes) {
        return Ok(());
    }
    Err(Error::new(
        Code::CollectionUUIDMismatch,
        "Collection UUID does not match that specified",
    ))
}

/// `db.collection`
pub(super) fn parse(full: &str) -> Result<Namespace> {
    let invalid = || {
        Error::new(
            Code::InvalidNamespace,
            format!("Invalid namespace specified '{full}'"),
        )
    };
    let (database, collection) = full.split_once('.').ok_or_else(invalid)?;
    check_database(database).map_err(|_| invalid())?;
    check_collection(database, collection).map_err(|_| invalid())?;
    Ok(Namespace::new(database, collection))
}
