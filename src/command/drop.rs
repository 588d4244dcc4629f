//! `drop` and `dropDatabase`.

use super::args::required;
use super::{Access, Call, Command, Flags, Needs, Outcome};
use crate::auth::Action;
use crate::error::{Code, Error, Result};
use crate::value::{DocBuilder, Num, Type};

pub(super) const COMMAND: Command =
    Command::ready("drop", Access::Admin, "Takes a collection away.", run)
        .with(Flags::STABLE.and(Flags::WRITE_CONCERN))
        .needs(Needs::Collection(Action::DropCollection));

pub(super) const DATABASE: Command = Command::ready(
    "dropDatabase",
    Access::Admin,
    "Takes all collections of a database away.",
    run_database,
)
.with(Flags::STABLE.and(Flags::WRITE_CONCERN))
.needs(Needs::Database(Action::DropDatabase));

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let name = call.collection()?;
    for arg in call.args().skip(1) {
        match arg.name() {
            "collectionUUID" => check_uuid(call, name, arg)?,
            _ => return Err(arg.unknown()),
        }
    }
    let there = call.context.catalog.get(call.database(), name);
    let indexes = there.map_or(0, |c| c.read(call.now, super::list_indexes::count));
    // Dropping what is not there is no error.
    if call
        .context
        .catalog
        .drop_collection(call.database(), name)
        .is_some()
    {
        reply
            .put_i32("nIndexesWas", indexes)
            .put_str("ns", &call.namespace(name));
    }
    Ok(Outcome::Reply)
}

/// A client that names the collection by its UUID, too, means just that one.
pub(super) fn check_uuid(call: &Call<'_>, name: &str, arg: super::args::Arg<'_>) -> Result<()> {
    check_uuid_in(call, call.database(), name, arg)
}

/// The same in any database.
pub(super) fn check_uuid_in(
    call: &Call<'_>,
    database: &str,
    name: &str,
    arg: super::args::Arg<'_>,
) -> Result<()> {
    if arg.is_null() {
        return Ok(());
    }
    let wanted = read_uuid(arg)?;
    let there = call.context.catalog.get(database, name);
    if there.is_some_and(|c| *c.uuid().as_bytes() == wanted) {
        return Ok(());
    }
    let actual = call
        .context
        .catalog
        .in_database(database)
        .into_iter()
        .find(|c| *c.uuid().as_bytes() == wanted)
        .map(|c| c.namespace().collection().to_owned());
    let details = crate::value::DocBuf::build(|doc| {
        doc.put_str("db", database)
            .put("collectionUUID", arg.value())
            .put_str("expectedCollection", name);
        match &actual {
            Some(actual) => doc.put_str("actualCollection", actual),
            None => doc.put_null("actualCollection"),
        };
    });
    Err(Error::new(
        Code::CollectionUUIDMismatch,
        "Collection UUID does not match that specified",
    )
    .with_details(details.into_bytes()))
}

/// Sixteen bytes of binary subtype 4.
pub(super) fn read_uuid(arg: super::args::Arg<'_>) -> Result<[u8; 16]> {
    let Some((subtype, bytes)) = arg.value().as_binary() else {
        return Err(arg.wrong_type(&[Type::Binary]));
    };
    match bytes.try_into() {
        Ok(uuid) if subtype == 4 => Ok(uuid),
        _ => Err(Error::new(
            Code::InvalidUUID,
            "uuid must be a 16-byte binary field with UUID (4) subtype",
        )),
    }
}

fn run_database(call: &mut Call<'_>, _: &mut DocBuilder<'_>) -> Result<Outcome> {
    call.only(&[])?;
    let target = call.target();
    let value = required(
        Some(target).filter(|v| !v.is_nullish()),
        "dropDatabase",
        "dropDatabase",
    )?;
    let Some(number) = value.as_num() else {
        return Err(Error::wrong_type(
            "dropDatabase",
            "dropDatabase",
            value.ty(),
            &[Type::Int64, Type::Int32, Type::Decimal, Type::Double],
        ));
    };
    if Num::to_i64_saturating(number) != 1 {
        return Err(Error::location(
            5255100,
            "Have to pass 1 as 'dropDatabase' parameter",
        ));
    }
    let database = call.database();
    if matches!(database, "admin" | "local" | "config") {
        return Err(Error::new(
            Code::IllegalOperation,
            format!("Dropping the '{database}' database is prohibited."),
        ));
    }
    call.context.catalog.drop_database(database);
    call.context.cosmos.offers.forget_database(database);
    Ok(Outcome::Reply)
}
