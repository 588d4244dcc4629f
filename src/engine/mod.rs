//! Where language meets storage.

mod oid;
mod slice;

pub use oid::ObjectIds;
pub use slice::{STEP, TimeSlice};
