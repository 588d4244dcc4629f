//! The commands about shards. There is always one server, whatever these commands say.

use crate::args::{fields, required};
use crate::auth::{Action, AuthTarget};
use crate::command::collation;
use crate::command::{Access, Call, Command, Flags, Needs, Outcome};
use crate::engine::write::collection_for;
use crate::error::{Code, Error, Result};
use crate::names::{check_collection, check_database};
use crate::value::{Doc, DocBuf, DocBuilder, Type, Value};

const ADMIN: Flags = Flags::ADMIN_ONLY.and(Flags::SECONDARY);

pub const SHARD_COLLECTION: Command = Command::ready(
    "shardCollection",
    Access::Admin,
    "Records a shard key (all documents stay on this server).",
    shard_collection,
)
.needs(Needs::Asked(may_shard));

pub const ENABLE_SHARDING: Command = Command::ready(
    "enableSharding",
    Access::Admin,
    "Accepts a database for sharding, without effect.",
    enable_sharding,
)
.with(ADMIN)
.needs(Needs::Asked(may_shard));

pub const LIST_SHARDS: Command = Command::ready(
    "listShards",
    Access::Admin,
    "Lists the shards (this server is the only one).",
    list_shards,
)
.with(ADMIN)
.needs(Needs::Server(Action::ListShards));

pub const BALANCER_STATUS: Command = Command::ready(
    "balancerStatus",
    Access::Admin,
    "Shows the status of the balancer, which is always off.",
    balancer_status,
)
.with(ADMIN)
.needs(Needs::Server(Action::ListShards));

pub const GET_SHARD_MAP: Command = Command::ready(
    "getShardMap",
    Access::Admin,
    "Shows the host of each shard (this server is the only one).",
    get_shard_map,
)
.with(ADMIN)
.needs(Needs::Server(Action::GetShardMap));

const SHARD: &str = "shard0000";

/// Whether the sender may shard in the database that the name begins with.
fn may_shard(call: &Call<'_>) -> Result<bool> {
    let name = call.target().as_str().unwrap_or_default();
    let database = name.split('.').next().unwrap_or(name);
    Ok(call.may(AuthTarget::Database(database), Action::EnableSharding))
}

fn name<'a>(call: &Call<'a>) -> Result<&'a str> {
    let target = call.target();
    target
        .as_str()
        .ok_or_else(|| Error::wrong_type("", call.command.name, target.ty(), &[Type::String]))
}

fn enable_sharding(call: &mut Call<'_>, _: &mut DocBuilder<'_>) -> Result<Outcome> {
    check_database(name(call)?)?;
    for arg in call.args().skip(1) {
        match arg.name() {
            "primaryShard" => match arg.str()? {
                None | Some(SHARD) => {}
                Some(other) => {
                    return Err(Error::new(
                        Code::ShardNotFound,
                        format!("Shard {other} not found"),
                    ));
                }
            },
            _ => return Err(arg.unknown()),
        }
    }
    Ok(Outcome::Reply)
}

fn list_shards(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut draining = None;
    for arg in call.args().skip(1) {
        match arg.name() {
            "filter" => {
                for field in fields("listShards.filter", arg.doc()?.unwrap_or(Doc::EMPTY)) {
                    match field.name() {
                        "draining" => draining = field.bool()?,
                        _ => return Err(field.unknown()),
                    }
                }
            }
            _ => return Err(arg.unknown()),
        }
    }
    let host = call.context.host();
    let mut shards = reply.array("shards");
    // This shard is never draining.
    if draining != Some(true) {
        let mut shard = shards.doc();
        put_shard(&mut shard, &host);
        shard.end();
    }
    shards.end();
    Ok(Outcome::Reply)
}

/// Writes the description of this server as a shard.
pub fn put_shard(doc: &mut DocBuilder<'_>, host: &str) {
    doc.put_str("_id", SHARD)
        .put_str("host", host)
        .put_i32("state", 1)
        .put("topologyTime", Value::timestamp(1, 1).as_ref());
}

fn balancer_status(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    call.only(&[])?;
    reply
        .put_str("mode", "off")
        .put_bool("inBalancerRound", false)
        .put_i64("numBalancerRounds", 0);
    Ok(Outcome::Reply)
}

fn get_shard_map(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    call.only(&[])?;
    let host = call.context.host();
    let mut map = reply.doc("map");
    map.put_str(SHARD, &host);
    map.end();
    for name in ["hosts", "connStrings"] {
        let mut shards = reply.doc(name);
        shards.put_str(&host, SHARD);
        shards.end();
    }
    Ok(Outcome::Reply)
}

/// Shards a collection. The name is a full one, and the command runs in `admin`, as in MongoDB, or in any database, as in
/// Cosmos DB.
fn shard_collection(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let name = name(call)?;
    let mut key = None;
    for arg in call.args().skip(1) {
        match arg.name() {
            "key" => key = arg.doc()?,
            // These options distribute documents over shards, and there is only one.
            "unique" | "presplitHashedZones" | "enforceUniquenessCheck" => drop(arg.bool()?),
            "numInitialChunks" => drop(arg.int()?),
            "collation" => collation::read(&arg)?,
            "timeseries" => {
                if arg.doc()?.is_some() {
                    return Err(arg.not_implemented());
                }
            }
            _ => return Err(arg.unknown()),
        }
    }
    let key = required(key, "shardCollection", "key")?;
    check_key(key)?;
    let (database, collection) = name.split_once('.').ok_or_else(|| {
        Error::new(
            Code::InvalidNamespace,
            format!("Invalid namespace specified '{name}'"),
        )
    })?;
    check_database(database)?;
    check_collection(database, collection)?;
    let (there, _) = collection_for(
        &call.context.catalog,
        database,
        collection,
        call.read_point(),
    )?;
    let offers = &call.context.cosmos.offers;
    let mut provisioned = offers.collection(name, *there.uuid().as_bytes());
    let paths = |key: Doc<'_>| -> Vec<String> { key.iter().map(|e| e.name().into()).collect() };
    if let Some(known) = &provisioned.shard_key
        && paths(known.as_doc()) != paths(key)
    {
        return Err(Error::new(
            Code::AlreadyInitialized,
            format!("sharding already enabled for collection {name}"),
        ));
    }
    provisioned.shard_key = Some(DocBuf::from(key));
    offers.set_collection(name.to_owned(), provisioned);
    reply.put_str("collectionsharded", name);
    Ok(Outcome::Reply)
}

/// Checks a shard key. Its fields are ascending, except that one may be hashed.
fn check_key(key: Doc<'_>) -> Result<()> {
    if key.is_empty() {
        return Err(Error::bad_value("Shard key pattern is empty"));
    }
    let mut hashed = 0;
    for elem in key {
        let ascending = elem.value.as_num().is_some_and(|way| way.to_f64() == 1.0);
        let hashes = elem.value.as_str() == Some("hashed");
        hashed += usize::from(hashes);
        if elem.name().is_empty() || !(ascending || hashes) || hashed > 1 {
            return Err(Error::bad_value(format!(
                "Shard key {key} can contain either 1 or, for one field, 'hashed'. Failed to parse field {}",
                elem.name()
            )));
        }
    }
    Ok(())
}
