//! `renameCollection`: renames a collection, or moves it to another database. Documents keep their `_ts`.

use super::{Access, Call, Command, Flags, Needs, Outcome, collection_uuid, schema};
use crate::args::{Arg, required};
use crate::auth::{Action, AuthTarget};
use crate::engine::ddl::{Namespace, RenameCollection, SchemaChange};
use crate::error::{Code, Error, Result};
use crate::names::{check_collection, check_database};
use crate::value::{DocBuilder, Type, UUID_SUBTYPE};

pub(super) const COMMAND: Command = Command::ready(
    "renameCollection",
    Access::Admin,
    "Renames a collection.",
    run,
)
.with(
    Flags::ADMIN_ONLY
        .and(Flags::WRITE_CONCERN)
        .and(Flags::STABLE),
)
.needs(Needs::Asked(may));

/// Checks the rights. A rename within a database has its own action; one into another database counts as a copy. A user
/// must not gain read access to a collection by renaming it.
fn may(call: &Call<'_>) -> Result<bool> {
    let to = call.arg("to").and_then(|arg| arg.value().as_str());
    let (Some(from), Some(to)) = (call.target().as_str(), to) else {
        return Ok(call.user().is_some());
    };
    let (from, to) = (named(from)?, named(to)?);
    let source = AuthTarget::Collection(from.database(), from.collection());
    let target = AuthTarget::Collection(to.database(), to.collection());
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

/// The arguments of the command.
#[derive(Default)]
struct Rename<'a> {
    from: Option<&'a str>,
    to: Option<&'a str>,
    drop_target: bool,
    /// `collectionUUID`: the UUID that the source must have.
    uuid: Option<Arg<'a>>,
    /// `dropTarget` as a UUID: the target is dropped only if it has this UUID.
    target_uuid: Option<Arg<'a>>,
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    // A wrong name of the source is told before other mistakes.
    call.target().as_str().map(named).transpose()?;
    let rename = Rename::read(call)?;
    let from = required(rename.from, "renameCollection", "renameCollection")?;
    let to = required(rename.to, "renameCollection", "to")?;
    let change = RenameCollection::new(named(from)?, named(to)?, rename.drop_target)?;
    let (from, to) = (change.from(), change.to());
    let names_uuid = rename.uuid.is_some() || rename.target_uuid.is_some();
    if names_uuid && from.database() != to.database() {
        return Err(Error::new(
            Code::InvalidOptions,
            "Cannot provide an expected collection UUID when renaming across databases",
        ));
    }
    for (name, uuid) in [(from, rename.uuid), (to, rename.target_uuid)] {
        if let Some(uuid) = uuid {
            collection_uuid::check_in(call, name.database(), name.collection(), uuid)?;
        }
    }
    schema::run(call, reply, SchemaChange::RenameCollection(change))
}

// === impl Rename ===

impl<'a> Rename<'a> {
    fn read(call: &Call<'a>) -> Result<Self> {
        let mut rename = Self::default();
        for arg in call.args() {
            match arg.name() {
                "renameCollection" => rename.from = arg.str()?,
                "to" => rename.to = arg.str()?,
                "dropTarget" => match (arg.value().as_bool(), arg.value().as_binary()) {
                    (Some(flag), _) => rename.drop_target = flag,
                    (None, Some((UUID_SUBTYPE, _))) => {
                        (rename.drop_target, rename.target_uuid) = (true, Some(arg));
                    }
                    (None, Some(_)) => return Err(collection_uuid::invalid()),
                    (None, None) => return Err(arg.wrong_type(&[Type::Bool, Type::Binary])),
                },
                "stayTemp" => drop(arg.strict_bool()?),
                "collectionUUID" => rename.uuid = Some(arg),
                _ => return Err(arg.unknown()),
            }
        }
        Ok(rename)
    }
}

/// Parses a full name. A `$` in the database name has an error message of its own.
fn named(full: &str) -> Result<Namespace> {
    match full.split_once('.') {
        Some((database, _)) if database.contains('$') => Err(Error::new(
            Code::IllegalOperation,
            format!("error with namespace: Invalid database name: '{database}'"),
        )),
        _ => parse(full),
    }
}

/// Parses `db.collection`.
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
