//! Upstream mode: Sundown in front of a cluster.
//!
//! The cluster is a genuine mongod if `MONGOD` names its binary (`MONGOD=$(tests/mongod.sh path)`), else another Sundown, which
//! has no transactions and no replica sets of several members. A test that needs what a Sundown lacks says by name that it
//! did not run.

#![allow(clippy::unwrap_used)] // a panic says where

#[path = "../support/mod.rs"]
mod support;

#[path = "../differential/generate/mod.rs"]
#[allow(dead_code, unused_imports)] // the differential test uses all of it
mod generate;
#[path = "../differential/random.rs"]
mod random;

mod bounds;
mod cut_off;
mod encrypted;
mod failover;
mod features;
mod gates;
mod killed;
mod login;
mod pass;
mod same_bytes;
mod sockets;
mod start;
mod ttl;
mod views;
mod watch;

use support::cluster;
