//! Changing documents: what language computes, storage keeps.
//!
//! [`intake`] makes a client's document fit to be stored. [`insert`] adds it. [`modify`] is the one way to change a stored
//! document: in one lock hold where that is quickly done, else computed outside the lock and written only if it still is the
//! document that was looked at; [`pick`] finds it, [`search`] does so for a statement
//! that asks for what [`wanted`] says, [`change`] puts the two together, and [`statement`] runs them. [`refused()`] turns
//! storage's facts into MongoDB's errors. [`collection_for`] makes the collection where there is none yet.

mod change;
mod collection;
mod insert;
mod intake;
mod modify;
mod pick;
mod refused;
mod search;
mod selector;
mod statement;

pub use change::Changed;
pub use collection::collection_for;
pub use insert::{BATCH, Inserted, insert_batch, insert_own};
pub use intake::Intake;
pub use modify::{Candidate, Deleted, Match, Modified, Target, append_ts, with_ts};
pub use pick::{Picked, Picker};
pub use refused::refused;
pub use search::{Search, Selection, WriteTarget};
pub use selector::Selector;
pub use statement::{Deleting, MAX_LOST, Shows, Updated, Updating, Version};
