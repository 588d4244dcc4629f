//! The commands: one file each (siblings share one), named as on the wire, and one sorted table that everything
//! derives from.
//!
//! [`Commands`] implements the seam to the sockets. It finds the command by the first field of the request, sorts the
//! generic arguments from the command's own in one pass, and runs it with a [`Call`]. A command is a plain function
//! that writes the fields of its reply, or returns a [`Task`] if it may run long; an `Err` becomes mongod's error
//! reply. Dispatch, listCommands, metrics and the README's table come from [`COMMANDS`]. A command that MongoDB has and
//! Sundown has not stands there too, and is refused by name.

mod about;
mod aggregate;
mod announced;
pub mod args;
mod build_info;
mod bulk_write;
mod call;
mod capped;
#[cfg(test)]
mod check;
mod client;
mod coll_mod;
mod coll_stats;
mod collection_uuid;
mod commit_quorum;
mod concern;
mod context;
mod cosmos;
mod count;
mod counters;
mod create;
mod create_indexes;
mod current_op;
pub mod cursor;
mod data_size;
mod delete;
mod dispatch;
mod distinct;
#[cfg(test)]
mod doors;
mod drop;
mod drop_indexes;
mod entry;
mod explain;
mod fail_point;
mod find;
mod find_and_modify;
mod generic;
mod get_more;
mod get_parameter;
mod guard;
mod hello;
mod host_info;
mod index_spec;
mod indexing_policy;
mod insert;
mod kill_cursors;
mod list_collections;
mod list_databases;
mod list_indexes;
mod login;
mod operations;
mod parameters;
mod ping;
mod planned;
mod profile;
mod read_preference;
mod record_ids;
mod rename_collection;
pub mod reply;
#[cfg(test)]
mod rights;
mod rows;
mod scan;
mod schema;
mod server_status;
mod sessions;
mod stream;
mod system;
mod task;
mod time_travel;
mod tools;
mod transaction;
mod update;
mod users;
mod validate;
mod validate_db_metadata;
mod write;

pub use call::{Call, Documents};
pub use client::{Client, Connection};
pub use context::Context;
pub use counters::{Counted, Counters};
pub use dispatch::{Commands, find};
pub use entry::{Access, Command, Flags, Outcome, Run, Status};
pub use fail_point::FailPoints;
pub use guard::Needs;
pub use operations::{OperationInfo, Operations};
pub use parameters::{PARAMETERS, Parameter, Parameters};
pub use task::{Step, Task};

use planned::planned;

/// Every command, sorted by name.
pub static COMMANDS: &[Command] = &[
    planned("abortMoveCollection"),
    planned("abortReshardCollection"),
    transaction::ABORT,
    planned("abortUnshardCollection"),
    planned("addShard"),
    planned("addShardToZone"),
    aggregate::COMMAND,
    planned("analyzeShardKey"),
    planned("appendOplogNote"),
    planned("applyOps"),
    login::AUTHENTICATE,
    planned("autoCompact"),
    planned("balancerCollectionStatus"),
    planned("balancerStart"),
    cosmos::BALANCER_STATUS,
    planned("balancerStop"),
    build_info::COMMAND,
    bulk_write::COMMAND,
    planned("checkMetadataConsistency"),
    planned("cleanupOrphaned"),
    planned("cleanupReshardCollection"),
    planned("cleanupStructuredEncryptionData"),
    planned("clearJumboFlag"),
    planned("cloneCollectionAsCapped"),
    coll_mod::COMMAND,
    coll_stats::COMMAND,
    planned("commitReshardCollection"),
    transaction::COMMIT,
    planned("compact"),
    planned("compactStructuredEncryptionData"),
    planned("configureCollectionBalancing"),
    fail_point::COMMAND,
    planned("configureQueryAnalyzer"),
    about::CONN_POOL_STATS,
    login::CONNECTION_STATUS,
    planned("convertToCapped"),
    count::COMMAND,
    create::COMMAND,
    create_indexes::COMMAND,
    planned("createRole"),
    planned("createSearchIndexes"),
    users::CREATE,
    current_op::COMMAND,
    cosmos::CUSTOM_ACTION,
    data_size::COMMAND,
    planned("dbHash").alias(&["dbhash"]),
    coll_stats::DATABASE,
    delete::COMMAND,
    distinct::COMMAND,
    drop::COMMAND,
    users::DROP_ALL_ROLES,
    users::DROP_ALL,
    planned("dropConnections"),
    drop::DATABASE,
    drop_indexes::COMMAND,
    planned("dropRole"),
    planned("dropSearchIndex"),
    users::DROP,
    cosmos::ENABLE_SHARDING,
    sessions::END,
    explain::COMMAND,
    about::FEATURES,
    planned("filemd5"),
    find::COMMAND,
    find_and_modify::COMMAND,
    planned("flushRouterConfig"),
    planned("fsync"),
    planned("fsyncUnlock"),
    planned("getAuditConfig"),
    planned("getClusterParameter"),
    about::GET_CMD_LINE_OPTS,
    tools::GET_DEFAULT_RW_CONCERN,
    cosmos::LAST_REQUEST,
    about::GET_LOG,
    get_more::COMMAND,
    get_parameter::COMMAND,
    cosmos::GET_SHARD_MAP,
    planned("getShardVersion"),
    planned("grantPrivilegesToRole"),
    planned("grantRolesToRole"),
    users::GRANT,
    hello::COMMAND,
    host_info::COMMAND,
    insert::COMMAND,
    users::INVALIDATE,
    hello::IS_MASTER,
    about::IS_DB_GRID,
    sessions::KILL_ALL,
    sessions::KILL_BY_PATTERN,
    kill_cursors::COMMAND,
    current_op::KILL,
    sessions::KILL,
    list_collections::COMMAND,
    about::LIST_COMMANDS,
    list_databases::COMMAND,
    list_indexes::COMMAND,
    cosmos::LIST_SHARDS,
    about::LOCK_INFO,
    planned("logApplicationMessage"),
    planned("logRotate"),
    login::LOGOUT,
    planned("mapReduce").alias(&["mapreduce"]),
    planned("mergeChunks"),
    planned("moveChunk"),
    planned("moveCollection"),
    planned("movePrimary"),
    planned("moveRange"),
    planned("netstat"),
    ping::COMMAND,
    tools::PLAN_CACHE_CLEAR,
    tools::PLAN_CACHE_CLEAR_FILTERS,
    tools::PLAN_CACHE_LIST_FILTERS,
    planned("planCacheSetFilter"),
    profile::COMMAND,
    planned("reIndex"),
    planned("refineCollectionShardKey"),
    sessions::REFRESH,
    planned("removeQuerySettings"),
    planned("removeShard"),
    planned("removeShardFromZone"),
    rename_collection::COMMAND,
    planned("replSetAbortPrimaryCatchUp"),
    planned("replSetFreeze"),
    about::REPL_SET_GET_CONFIG,
    about::REPL_SET_GET_STATUS,
    about::REPL_SET_INITIATE,
    planned("replSetMaintenance"),
    planned("replSetReconfig"),
    planned("replSetResizeOplog"),
    planned("replSetStepDown"),
    planned("replSetSyncFrom"),
    planned("reshardCollection"),
    planned("revokePrivilegesFromRole"),
    planned("revokeRolesFromRole"),
    users::REVOKE,
    users::ROLES_INFO,
    planned("rotateCertificates"),
    login::CONTINUE,
    login::START,
    server_status::COMMAND,
    planned("setAllowMigrations"),
    planned("setClusterParameter"),
    planned("setDefaultRWConcern"),
    planned("setFeatureCompatibilityVersion"),
    planned("setIndexCommitQuorum"),
    get_parameter::SET,
    planned("setQuerySettings"),
    planned("setUserWriteBlockMode"),
    cosmos::SHARD_COLLECTION,
    planned("shardingState"),
    planned("shutdown"),
    planned("split"),
    sessions::START,
    time_travel::COMMAND,
    tools::TOP,
    planned("unshardCollection"),
    update::COMMAND,
    planned("updateRole"),
    planned("updateSearchIndex"),
    users::UPDATE,
    planned("updateZoneKeyRange"),
    users::USERS_INFO,
    validate::COMMAND,
    validate_db_metadata::COMMAND,
    about::WHATSMYURI,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_or_alias_stands_twice() {
        let mut names: Vec<_> = COMMANDS.iter().flat_map(Command::names).collect();
        names.sort_unstable();
        for pair in names.windows(2) {
            assert_ne!(pair[0], pair[1]);
        }
    }
}
