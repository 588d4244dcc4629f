//! Accumulators: the operators with which `$group` and `$bucket` combine the values of many documents.
//!
//! [`Accumulator::parse`] turns `{$sum: "$a"}` into a rule and an input expression. Each group has an [`AccumulatorState`]
//! of its own. [`Accumulator::feed`] adds one document to it, and [`AccumulatorState::finish`] returns the group's value.
//! `feed` also returns by how many bytes the state has grown or shrunk, so that a stage can limit its memory.
//!
//! [`ACCUMULATORS`] lists MongoDB's whole vocabulary. An accumulator that is not built is rejected by name. To add one,
//! implement [`AccumulatorState`] in a new file or in the file of its family, and add its `mod` line, its row and its case.
//! Accumulators know nothing about groups other than their own, or about stages.

mod bounded;
mod collect;
mod deviation;
mod extreme;
mod first_last;
mod percentile;
mod rule;
mod state;
mod sum;
mod table;
mod top;

pub use deviation::Deviation;
pub(super) use extreme::keep;
pub use percentile::Percentile;
pub use rule::{Accumulator, GroupEngine};
pub use state::AccumulatorState;
pub(super) use sum::average;
pub use table::{ACCUMULATORS, AccumulatorParser};
