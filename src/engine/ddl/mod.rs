//! Schema changes: which collections there are, how they are set up, and which indexes they have.

mod names;

pub use names::{check_created, check_read, check_written};
