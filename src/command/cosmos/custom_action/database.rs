//! The actions on databases.

use super::{ActionArguments, put_offer};
use crate::command::{Call, Outcome};
use crate::error::{Code, Error, Result};
use crate::value::DocBuilder;

pub fn create(
    call: &Call<'_>,
    arguments: &ActionArguments<'_>,
    _: &mut DocBuilder<'_>,
) -> Result<Outcome> {
    if exists(call) {
        return Err(Error::new(
            Code::NamespaceExists,
            format!("Database {} already exists.", call.database()),
        ));
    }
    let offers = &call.context.cosmos.offers;
    offers.set_database(call.database(), arguments.offer);
    Ok(Outcome::Reply)
}

pub fn update(
    call: &Call<'_>,
    arguments: &ActionArguments<'_>,
    _: &mut DocBuilder<'_>,
) -> Result<Outcome> {
    find(call)?;
    let offers = &call.context.cosmos.offers;
    let offer = arguments
        .offer
        .or_else(|| offers.of_database(call.database()));
    offers.set_database(call.database(), offer);
    Ok(Outcome::Reply)
}

pub fn get(
    call: &Call<'_>,
    _: &ActionArguments<'_>,
    reply: &mut DocBuilder<'_>,
) -> Result<Outcome> {
    find(call)?;
    reply.put_str("database", call.database());
    let offers = &call.context.cosmos.offers;
    put_offer(reply, offers.of_database(call.database()));
    Ok(Outcome::Reply)
}

/// Whether the database exists: an action created it, or it has a collection.
fn exists(call: &Call<'_>) -> bool {
    let made = call.context.cosmos.offers.database(call.database());
    made.is_some() || !call.context.catalog.in_database(call.database()).is_empty()
}

fn find(call: &Call<'_>) -> Result<()> {
    match exists(call) {
        true => Ok(()),
        false => Err(Error::new(
            Code::NamespaceNotFound,
            format!("Database {} not found.", call.database()),
        )),
    }
}
