//! Stages: a pipeline is parsed into typed stages and runs as a pull of batches.
//!
//! At run time a stage is [`Rows`]: it owns its input and appends to a [`Batch`] when it is asked to. Nothing is locked
//! between two pulls, and every pull ends soon ([`Flow::Pause`]). Collections are reached through [`Sources`],
//! which engine implements.

mod batch;
mod rows;
mod sources;

pub use batch::{Batch, Origin, Row};
pub use rows::{Cx, Empty, Endless, Flow, Limits, Rows, Slice};
pub use sources::{Output, Report, Sink, SourceSpec, Sources, Target};
