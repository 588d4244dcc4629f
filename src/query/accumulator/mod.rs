//! Accumulators: what `$group` and `$bucket` gather over many documents.
//!
//! [`Accumulator::parse`] reads `{$sum: "$a"}` into a rule and the expression it is fed with; each group has a
//! [`State`] of its own, which [`Accumulator::feed`] lets grow by one document and [`Accumulator::finish`] turns into
//! the group's value. Feeding tells how many bytes a state has grown by, so that a stage can bound what it holds.
//! [`ACCUMULATORS`] lists MongoDB's whole vocabulary; what is not built is refused by name.

mod collect;
mod deviation;
mod extreme;
mod many;
mod percentile;
mod rule;
mod state;
mod table;
mod top;

pub use deviation::Deviation;
pub(super) use extreme::keep;
pub use percentile::Percentile;
pub(super) use percentile::parse as parse_percentile;
pub use rule::Accumulator;
pub(super) use rule::average;
pub use state::State;
pub use table::{ACCUMULATORS, Row, Status};
