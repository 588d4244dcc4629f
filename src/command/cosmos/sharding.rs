//! What clients say and ask about shards. There is one server, whatever it is told.

use crate::auth::{Action, Target};
use crate::command::args::required;
use crate::command::{
    Access, Call, Command, Flags, Needs, Outcome, check_collection, check_database,
};
use crate::engine::write::collection_for;
use crate::error::{Code, Error, Result};
use crate::value::{DocBuilder, Type, Value};

const ADMIN: Flags = Flags::ADMIN_ONLY.and(Flags::SECONDARY);

pub const SHARD_COLLECTION: Command = Command::ready(
    "shardCollection",
    Access::Admin,
    "Accepts a shard key and keeps it to be shown: all documents stay on this server.",
    shard_collection,
)
.needs(Needs::Asked(may_shard));

pub const ENABLE_SHARDING: Command = Command::ready(
    "enableSharding",
    Access::Admin,
    "Accepts that a database is to be sharded, which changes nothing.",
    |call, _| {
        check_database(name(call)?)?;
        call.only(&["primaryShard"])?;
        Ok(Outcome::Reply)
    },
)
.with(ADMIN)
.needs(Needs::Asked(may_shard));

pub const LIST_SHARDS: Command = Command::ready(
    "listShards",
    Access::Admin,
    "Lists the shards: this server is the only one.",
    |call, reply| {
        let host = call.context.host();
        let mut shards = reply.array("shards");
        let mut shard = shards.doc();
        shard
            .put_str("_id", SHARD)
            .put_str("host", &host)
            .put_i32("state", 1)
            .put("topologyTime", Value::timestamp(1, 1).as_ref());
        shard.end();
        shards.end();
        Ok(Outcome::Reply)
    },
)
.with(ADMIN)
.needs(Needs::Server(Action::ListShards));

pub const GET_SHARD_MAP: Command = Command::ready(
    "getShardMap",
    Access::Admin,
    "Shows which host is which shard: this server is the only one.",
    |call, reply| {
        let host = call.context.host();
        let mut map = reply.doc("map");
        map.put_str(SHARD, &host);
        map.end();
        let mut hosts = reply.doc("hosts");
        hosts.put_str(&host, SHARD);
        hosts.end();
        reply.doc("nodes").end();
        Ok(Outcome::Reply)
    },
)
.with(ADMIN)
.needs(Needs::Server(Action::GetShardMap));

/// In the database that the name begins with.
fn may_shard(call: &Call<'_>) -> Result<bool> {
    let name = call.target().as_str().unwrap_or_default();
    let database = name.split('.').next().unwrap_or(name);
    Ok(call.may(Target::Database(database), Action::EnableSharding))
}

const SHARD: &str = "shard0000";

fn name<'a>(call: &Call<'a>) -> Result<&'a str> {
    let target = call.target();
    target
        .as_str()
        .ok_or_else(|| Error::wrong_type("", call.command.name, target.ty(), &[Type::String]))
}

/// In `admin` with the full name of a collection, as MongoDB has it; in any database, as Cosmos does.
fn shard_collection(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let name = name(call)?;
    let mut key = None;
    for arg in call.args().skip(1) {
        match arg.name() {
            "key" => key = arg.doc()?,
            // Where documents go: here, in any case.
            "unique"
            | "numInitialChunks"
            | "presplitHashedZones"
            | "collation"
            | "enforceUniquenessCheck"
            | "timeseries" => {}
            _ => return Err(arg.unknown()),
        }
    }
    let key = required(key, "shardCollection", "key")?;
    let path = key.first().ok_or_else(|| {
        Error::new(
            Code::BadValue,
            "shardCollection needs a key with a field in it",
        )
    })?;
    let (database, collection) = name.split_once('.').ok_or_else(|| {
        Error::new(
            Code::InvalidNamespace,
            format!("Invalid namespace specified '{name}'"),
        )
    })?;
    check_database(database)?;
    check_collection(database, collection)?;
    let (there, _) = collection_for(&call.context.catalog, database, collection)?;
    let offers = &call.context.cosmos.offers;
    let mut sold = offers.collection(database, name, *there.uuid().as_bytes());
    if sold
        .shard_key
        .as_deref()
        .is_some_and(|known| known != path.name())
    {
        return Err(Error::new(
            Code::AlreadyInitialized,
            format!("sharding already enabled for collection {name}"),
        ));
    }
    sold.shard_key = Some(path.name().to_owned());
    offers.set_collection(name.to_owned(), sold);
    reply.put_str("collectionsharded", name);
    Ok(Outcome::Reply)
}
