//! `drop` and `dropDatabase`: drop a collection or a whole database.

use super::{Access, Call, Command, Flags, Needs, Outcome, collection_uuid, schema};
use crate::args::required;
use crate::auth::Action;
use crate::engine::ddl::{DropCollection, DropDatabase, Namespace, SchemaChange};
use crate::error::{Code, Error, Result};
use crate::names::is_internal;
use crate::value::{DocBuilder, Num, Type};

pub(super) const COMMAND: Command =
    Command::ready("drop", Access::Admin, "Drops a collection.", run)
        .with(Flags::STABLE.and(Flags::WRITE_CONCERN))
        .needs(Needs::Collection(Action::DropCollection));

pub(super) const DATABASE: Command = Command::ready(
    "dropDatabase",
    Access::Admin,
    "Drops a database.",
    run_database,
)
.with(Flags::STABLE.and(Flags::WRITE_CONCERN))
.needs(Needs::Database(Action::DropDatabase));

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    for arg in call.args().skip(1) {
        match arg.name() {
            "collectionUUID" => collection_uuid::check(call, arg)?,
            _ => return Err(arg.unknown()),
        }
    }
    let name = call.collection()?;
    let namespace = Namespace::new(call.database(), name);
    let change = DropCollection {
        namespace,
        uuid: None,
    };
    let change = SchemaChange::DropCollection(change);
    schema::run(call, reply, change)
}

fn run_database(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
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
            "Have to pass 1 as 'drop' parameter",
        ));
    }
    let database = call.database();
    if is_internal(database) {
        return Err(Error::new(
            Code::IllegalOperation,
            format!("Dropping the '{database}' database is prohibited."),
        ));
    }
    let database = database.to_owned();
    let change = SchemaChange::DropDatabase(DropDatabase { database });
    schema::run(call, reply, change)
}
