//! The promises of expiry through upstream mode: the tables of `ttl/`, with a Sundown in front of a cluster. The cluster is a
//! genuine replica set if `MONGOD` names a binary, else another Sundown.

#[path = "ttl/main.rs"]
mod tables;

use tables::support;
