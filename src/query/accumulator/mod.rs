//! Accumulators: what `$group` and `$bucket` gather over many documents.
//!
//! [`Accumulator::parse`] reads `{$sum: "$a"}` into a rule and the expression it is fed with; each group has a
//! [`State`] of its own, which [`Accumulator::feed`] lets grow by one document and [`State::finish`] turns into
//! the group's value. Feeding tells by how many bytes a state has grown or shrunk, so that a stage can bound what it holds.
//! [`ACCUMULATORS`] lists MongoDB's whole vocabulary; what is not built is refused by name. To add one: implement
//! [`State`] in a file (or in that of its family), and add its `mod` line, its row and its case.

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
