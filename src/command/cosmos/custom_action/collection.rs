//! The actions on collections.

use super::indexes::{self, IndexChanges};
use super::work::{CustomActionWork, NewProvision, UndoableCommand, client_command};
use super::{ActionArguments, put_offer};
use crate::command::{Call, Outcome};
use crate::cosmos::{Offer, Provisioned};
use crate::engine::describe::indexes_of;
use crate::error::{Code, Error, Result};
use crate::value::{DocBuf, DocBuilder};

/// The most throughput of one partition. More requires a shard key.
const MAX_UNSHARDED: u32 = 10_000;

pub fn create(
    call: &Call<'_>,
    arguments: &ActionArguments<'_>,
    _: &mut DocBuilder<'_>,
) -> Result<Outcome> {
    let name = arguments.collection(call)?;
    if call.context.catalog.get(call.database(), name)?.is_some() {
        return Err(Error::new(
            Code::NamespaceExists,
            format!("Collection {}.{name} already exists.", call.database()),
        ));
    }
    let provision = NewProvision {
        offer: arguments.offer,
        shard_key: arguments.shard_key.clone(),
    };
    check_offer(&provision)?;
    let body = |verb: &str| {
        DocBuf::build(|body| {
            body.put_str(verb, name).put_str("$db", call.database());
        })
    };
    let mut commands = vec![UndoableCommand {
        work: client_command(call, &body("create")),
        undo: Some(client_command(call, &body("drop"))),
    }];
    if let Some(specs) = &arguments.indexes {
        let specs = indexes::check(call, specs)?;
        if !specs.is_empty() {
            commands.push(UndoableCommand {
                work: indexes::make(call, name, specs.iter().map(|(spec, _)| *spec)),
                undo: None,
            });
        }
    }
    Ok(CustomActionWork::begin(call, name, commands, provision))
}

pub fn update(
    call: &Call<'_>,
    arguments: &ActionArguments<'_>,
    _: &mut DocBuilder<'_>,
) -> Result<Outcome> {
    let name = arguments.collection(call)?;
    let provisioned = find(call, name)?;
    let provision = NewProvision {
        offer: arguments.offer.or(provisioned.offer),
        shard_key: provisioned.shard_key,
    };
    check_offer(&provision)?;
    let mut commands = Vec::new();
    if let Some(specs) = &arguments.indexes {
        commands =
            IndexChanges::new(call, name, indexes::check(call, specs)?)?.commands(call, name);
    }
    Ok(CustomActionWork::begin(call, name, commands, provision))
}

pub fn get(
    call: &Call<'_>,
    arguments: &ActionArguments<'_>,
    reply: &mut DocBuilder<'_>,
) -> Result<Outcome> {
    let name = arguments.collection(call)?;
    let provisioned = find(call, name)?;
    reply
        .put_str("database", call.database())
        .put_str("collection", name);
    if let Some(key) = &provisioned.shard_key {
        reply.put_doc("shardKeyDefinition", key.as_doc());
    }
    let offers = &call.context.cosmos.offers;
    put_offer(reply, offers.shown(call.database(), &provisioned));
    if arguments.show_indexes
        && let Some(there) = call.context.catalog.get(call.database(), name)?
    {
        let mut indexes = reply.array("indexes");
        for index in indexes_of(&there, call.read_point()) {
            let mut entry = indexes.doc();
            entry
                .put_body(index.as_doc().body())
                .put_str("ns", &call.namespace(name));
            entry.end();
        }
        indexes.end();
    }
    Ok(Outcome::Reply)
}

fn find(call: &Call<'_>, name: &str) -> Result<Provisioned> {
    let Some(there) = call.context.catalog.get(call.database(), name)? else {
        return Err(Error::new(
            Code::NamespaceNotFound,
            format!("Collection {}.{name} not found.", call.database()),
        ));
    };
    let uuid = *there.uuid().as_bytes();
    let offers = &call.context.cosmos.offers;
    Ok(offers.collection(&call.namespace(name), uuid))
}

fn check_offer(provision: &NewProvision) -> Result<()> {
    let much = provision.offer.map_or(0, Offer::units) > MAX_UNSHARDED;
    match much && provision.shard_key.is_none() {
        true => Err(Error::bad_value(format!(
            "A collection without a shardKey has at most {MAX_UNSHARDED} request units per second"
        ))),
        false => Ok(()),
    }
}
