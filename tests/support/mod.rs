//! Code that several tests share: values as text, a client that speaks raw OP_MSG, golden scripts, and a server with its
//! clock.

// Each test binary uses only a part of this.
#![allow(dead_code)]

pub mod authority;
pub mod binary;
pub mod client;
pub mod cluster;
pub mod dice;
pub mod difference;
pub mod literal;
pub mod mongod;
pub mod print;
pub mod runner;
pub mod script;
pub mod statement;
pub mod vocabularies;
pub mod world;
