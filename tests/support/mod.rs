//! What several tests share: values as text, a client that speaks raw OP_MSG, golden scripts, a server with its clock.

// Every test binary takes a part of this only.
#![allow(dead_code)]

pub mod binary;
pub mod client;
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
