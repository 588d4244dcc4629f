//! The commands of Azure Cosmos DB's API for MongoDB, and where its rules meet ours.
//!
//! [`custom_action`] makes databases and collections with throughput, [`sharding`] accepts what a client says about shards,
//! [`meter`] measures requests and says what the last one cost, [`strict`] asks the rules of `--strict cosmos`,
//! [`pipeline`] those about pipelines.

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
