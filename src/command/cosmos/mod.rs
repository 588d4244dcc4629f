//! The commands of Azure Cosmos DB's API for MongoDB, and its rules for other commands.
//!
//! [`custom_action`] creates databases and collections with throughput. [`sharding`] accepts the commands about shards.
//! [`meter`] measures each request, charges budgets, and shows what the last request cost. [`strict`] applies the rules of
//! `--strict cosmos` before a command runs, and [`pipeline`] those about pipelines. The model of costs, the budgets and the
//! rules themselves are in `crate::cosmos`.

mod custom_action;
mod meter;
mod pipeline;
mod sharding;
mod strict;
#[cfg(test)]
mod tests;

pub(super) use custom_action::COMMAND as CUSTOM_ACTION;
pub(super) use meter::{LAST_REQUEST, Meter};
pub(super) use sharding::{
    BALANCER_STATUS, ENABLE_SHARDING, GET_SHARD_MAP, LIST_SHARDS, SHARD_COLLECTION, put_shard,
};
pub(super) use strict::check as check_strict;
