//! Accumulators: the operators with which `$group` and `$bucket` combine the values of many documents.
//!
//! [`Accumulator::parse`] turns `{$sum: "$a"}` into a rule and an input expression. Each group has a [`State`] of its own.
//! [`Accumulator::feed`] adds one document to it, and [`State::finish`] returns the group's value. `feed` also returns by
//! how many bytes the state has grown or shrunk, so that a stage can limit its memory.
//!
//! [`ACCUMULATORS`] lists MongoDB's whole vocabulary. An accumulator that is not built is rejected by name. To add one,
//! implement [`State`] in a new file or in the file of its family, and add its `mod` line, its row and its case.
//! Accumulators know nothing about groups other than their own, or about stages.

mod bounded;
mod collect;
mod deviation;
mod edge;
mod extreme;
mod percentile;
mod rule;
mod state;
mod sum;
mod table;
mod top;

pub use deviation::Deviation;
pub(super) use extreme::keep;
pub use percentile::Percentile;
pub use rule::Accumulator;
pub use state::State;
pub(super) use sum::average;
pub use table::{ACCUMULATORS, Parse};
