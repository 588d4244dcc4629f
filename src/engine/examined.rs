//! How many documents this thread has looked at, for whoever wants to know what a request cost.
//!
//! A step of a command runs on one thread from its beginning to its end, so whoever takes the figure before and after it
//! has the step's own. Kept per slice, not per document: it costs an addition.

use std::cell::Cell;

thread_local! {
    static EXAMINED: Cell<u64> = const { Cell::new(0) };
}

#[inline]
pub(super) fn add_examined(documents: u64) {
    EXAMINED.with(|sum| sum.set(sum.get().wrapping_add(documents)));
}

/// The documents looked at since it was last asked.
pub fn take_examined() -> u64 {
    EXAMINED.with(|sum| sum.replace(0))
}
