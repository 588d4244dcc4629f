//! What this thread has done to documents so far, for whoever wants to know what a request cost.
//!
//! A step of a command runs on one thread from its beginning to its end, so the difference between two looks is the
//! step's own. The figures only grow; nobody resets what somebody else is about to subtract. What ends by itself is no
//! request's doing and is not in them.

use std::cell::Cell;
use std::ops::{AddAssign, Sub};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effort {
    /// Documents looked at, but for those that were asked for by their `_id`.
    pub looked_at: u64,
    /// Bytes of documents added. Here and below a document counts as a kilobyte at least.
    pub inserted: u64,
    /// Bytes of documents changed, as they became.
    pub changed: u64,
    /// Documents removed.
    pub removed: u64,
}

const LEAST: u64 = 1024;

thread_local! {
    static SO_FAR: Cell<Effort> = const {
        Cell::new(Effort {
            looked_at: 0,
            inserted: 0,
            changed: 0,
            removed: 0,
        })
    };
}

#[inline]
fn add(count: impl FnOnce(&mut Effort)) {
    SO_FAR.with(|so_far| {
        let mut effort = so_far.get();
        count(&mut effort);
        so_far.set(effort);
    });
}

// === impl Effort ===

impl Effort {
    #[inline]
    pub fn so_far() -> Self {
        SO_FAR.with(Cell::get)
    }

    #[inline]
    pub(super) fn add_looks(documents: u64) {
        add(|effort| effort.looked_at = effort.looked_at.wrapping_add(documents));
    }

    #[inline]
    pub(super) fn add_insert(bytes: usize) {
        add(|effort| effort.inserted = effort.inserted.wrapping_add((bytes as u64).max(LEAST)));
    }

    #[inline]
    pub(super) fn add_change(bytes: usize) {
        add(|effort| effort.changed = effort.changed.wrapping_add((bytes as u64).max(LEAST)));
    }

    #[inline]
    pub(super) fn add_removal() {
        add(|effort| effort.removed = effort.removed.wrapping_add(1));
    }
}

impl Sub for Effort {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            looked_at: self.looked_at.wrapping_sub(earlier.looked_at),
            inserted: self.inserted.wrapping_sub(earlier.inserted),
            changed: self.changed.wrapping_sub(earlier.changed),
            removed: self.removed.wrapping_sub(earlier.removed),
        }
    }
}

impl AddAssign for Effort {
    fn add_assign(&mut self, other: Self) {
        self.looked_at = self.looked_at.wrapping_add(other.looked_at);
        self.inserted = self.inserted.wrapping_add(other.inserted);
        self.changed = self.changed.wrapping_add(other.changed);
        self.removed = self.removed.wrapping_add(other.removed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_looks_tell_what_was_done_between_them() {
        let before = Effort::so_far();
        Effort::add_looks(3);
        Effort::add_insert(10);
        Effort::add_insert(5000);
        Effort::add_change(1);
        Effort::add_removal();
        let mut done = Effort::so_far() - before;
        let once = Effort {
            looked_at: 3,
            inserted: 6024,
            changed: 1024,
            removed: 1,
        };
        assert_eq!(done, once);
        done += once;
        assert_eq!(done - once, once);
        assert_eq!(Effort::so_far() - Effort::so_far(), Effort::default());
    }
}
