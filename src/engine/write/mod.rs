//! Changing documents: what language computes, storage keeps.
//!
//! [`intake`] makes a client's document fit to be stored. [`insert`] adds it. [`modify`] computes what becomes of a stored
//! document outside the collection's lock and puts it in place only if it still is the document that was looked at, else looks
//! again. [`refused`] turns storage's facts into MongoDB's errors.

mod insert;
mod intake;
mod modify;
mod refused;

pub use insert::{BATCH, Inserted, insert_batch};
pub use intake::{Intake, MAX_DOCUMENT, check_id};
pub use modify::{Match, Modified, append_ts, delete, modify};
pub use refused::refused;
