//! Changing documents: the query language computes the new document, storage keeps it.
//!
//! [`intake`] prepares a client's document for storage, and [`insert`] adds it. [`statement`] runs one statement of an
//! update or delete in steps. Its [`selector`] says which documents the client wants, [`search`] finds them one by one with
//! the help of [`pick`], and [`change`] applies an update to each.
//!
//! [`modify`] is the only way to change a stored document. If the computation is quick, it runs in one lock hold. If not, it
//! runs outside the lock, and the result is written only if the document has not changed meanwhile.
//!
//! [`refused()`] turns the refusals of storage into MongoDB's errors. [`collection_for`] creates the collection if it does
//! not exist yet.

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
pub use modify::{
    Candidate, CandidateId, Deleted, MatchCondition, Modified, Stopped, append_ts, with_ts,
};
pub use pick::{Picked, Picker};
pub use refused::{refused, transactions_too_large, write_conflict};
pub use search::{Blocked, Search, Selection, WriteTarget};
pub use selector::Selector;
pub use statement::{Deleting, MAX_LOST, Shows, Updated, Updating, Version};
