//! `renameCollection`: another name, possibly in another database. Documents keep their `_ts`.

use super::create::check_new_name;
use super::{
    Access, Call, Command, Flags, Needs, Outcome, check_collection, check_database, collection_uuid,
};
use crate::auth::{Action, Target};
use crate::engine::write::other_case;
use crate::error::{Code, Error, Result};
use crate::storage::{Namespace, RenameError};
use crate::value::{DocBuilder, Type};

pub(super) const COMMAND: Command = Command::ready(
    "renameCollection",
    Access::Admin,
    "Gives a collection another name.",
    run,
)
.with(Flags::ADMIN_ONLY.and(Flags::WRITE_CONCERN))
.needs(Needs::Asked(may));

/// Within a database it is an action of its own, elsewhere a copy. Nobody gets to read a collection by giving it another name.
fn may(call: &Call<'_>) -> Result<bool> {
    let to = call.arg("to").and_then(|arg| arg.value().as_str());
    let (Some(from), Some(to)) = (call.target().as_str(), to) else {
        return Ok(call.user().is_some());
    };
    let (from, to) = (named(from)?, named(to)?);
    let source = Target::Collection(from.database(), from.collection());
    let target = Target::Collection(to.database(), to.collection());
    let drops = call
        .arg("dropTarget")
        .is_some_and(|arg| arg.value().as_bool() != Some(false));
    if drops && !call.may(target, Action::DropCollection) {
        return Ok(false);
    }
    if from.database() != to.database() {
        return Ok(call.may(source, Action::Find)
            && call.may(source, Action::DropCollection)
            && call.may(target, Action::Insert)
            && call.may(target, Action::CreateIndex));
    }
    Ok(call.may(source, Action::RenameCollectionSameDb)
        && call.may(target, Action::RenameCollectionSameDb)
        && (call.may(source, Action::Find) || !call.may(target, Action::Find)))
}

fn run(call: &mut Call<'_>, _: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut from = None;
    let mut to = None;
    let mut drop_target = false;
    let mut uuid = None;
    let mut target_uuid = None;
    for arg in call.args() {
        match arg.name() {
            "renameCollection" => from = arg.str()?,
            "to" => to = arg.str()?,
            "dropTarget" => {
                drop_target = match arg.value().as_bool() {
                    Some(flag) => flag,
                    // The UUID of the collection that may be dropped.
                    None => match arg.value().as_binary() {
                        Some((collection_uuid::UUID, _)) => {
                            target_uuid = Some(collection_uuid::read(arg)?);
                            true
                        }
                        Some(_) => return Err(collection_uuid::invalid()),
                        None => return Err(arg.wrong_type(&[Type::Bool, Type::Binary])),
                    },
                }
            }
            "stayTemp" => {
                arg.strict_bool()?;
            }
            "collectionUUID" => uuid = Some(arg),
            _ => return Err(arg.unknown()),
        }
    }
    let from = named(super::args::required(
        from,
        "renameCollection",
        "renameCollection",
    )?)?;
    let to = named(super::args::required(to, "renameCollection", "to")?)?;
    for name in [&from, &to] {
        check(name)?;
    }
    if from == to {
        return Err(Error::new(
            Code::IllegalOperation,
            "Can't rename a collection to itself",
        ));
    }
    if let Some(uuid) = target_uuid {
        if from.database() != to.database() {
            return Err(Error::new(
                Code::InvalidOptions,
                "The dropTarget UUID cannot be given when renaming across databases",
            ));
        }
        let there = call.context.catalog.get(to.database(), to.collection());
        if there.is_none_or(|c| *c.uuid().as_bytes() != uuid) {
            return Err(mismatch());
        }
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
        Err(RenameError::IndexBuild(uuid)) => Err(Error::new(
            Code::BackgroundOperationInProgressForNamespace,
            format!(
                "cannot perform operation: an index build is currently running for collection with UUID: {uuid}. Found \
                 index build: {}",
                uuid::Uuid::new_v4()
            ),
        )),
        Err(RenameError::OtherCase(other)) => Err(other_case(&other)),
    }
}

/// Neither the old nor the new name may be one of the server's own.
fn check(namespace: &Namespace) -> Result<()> {
    let illegal = |why: String| Err(Error::new(Code::IllegalOperation, why));
    let name = namespace.collection();
    if name.starts_with("system.") {
        return illegal(format!(
            "error with namespace: cannot rename system collection {namespace}"
        ));
    }
    if namespace.database() == "local" && name.starts_with("oplog.") {
        return illegal(format!(
            "error with namespace: cannot rename the oplog {namespace}"
        ));
    }
    match check_new_name(namespace.database(), name) {
        Ok(()) => Ok(()),
        Err(error) => illegal(format!("error with namespace: {}", error.message())),
    }
}

fn check_uuid(call: &Call<'_>, from: &Namespace, arg: super::args::Arg<'_>) -> Result<()> {
    if arg.is_null() {
        return Ok(());
    }
    let uuid = collection_uuid::read(arg)?;
    let there = call.context.catalog.get(from.database(), from.collection());
    if there.is_some_and(|c| *c.uuid().as_bytes() == uuid) {
        return Ok(());
    }
    Err(mismatch())
}

fn mismatch() -> Error {
    Error::new(
        Code::CollectionUUIDMismatch,
        "Collection UUID does not match that specified",
    )
}

/// A dollar is refused in other words than what else a database cannot have in its name.
fn named(full: &str) -> Result<Namespace> {
    match full.split_once('.') {
        Some((database, _)) if database.contains('$') => Err(Error::new(
            Code::IllegalOperation,
            format!("error with namespace: Invalid database name: '{database}'"),
        )),
        _ => parse(full),
    }
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
