//! When a document ends, and how its memory is given back.
//!
//! [`rule`] is the whole of the matrix: collection default, document ttl, last write and date rules give one instant.
//! Visibility is nothing but a comparison with it, made at the moment of use. [`bounds`] say from when on something in a
//! segment may have ended, so that whoever looks for ended documents skips the rest. [`reaper`] frees memory and
//! never decides who is visible.

mod bounds;
mod reaper;
mod rule;

pub use bounds::Bounds;
pub use reaper::{Reaper, ReaperStats};
pub use rule::{DefaultTtl, End, OwnTtl};
