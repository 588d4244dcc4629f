//! Generation of new ObjectIds.
//!
//! ```text
//! | seconds (4) | random, once per server (5) | counter (3) |    all big-endian
//! ```

use std::sync::atomic::{AtomicU32, Ordering};

use crate::value::Millis;

/// A generator of `_id`s for documents that come without one.
pub struct ObjectIds {
    random: [u8; 5],
    counter: AtomicU32,
}

// === impl ObjectIds ===

impl ObjectIds {
    pub fn new() -> Self {
        let seed = *uuid::Uuid::new_v4().as_bytes();
        let [a, b, c, d, e, f, _, _, _, g, h, ..] = seed;
        Self {
            random: [a, b, c, d, e],
            counter: AtomicU32::new(u32::from_be_bytes([0, f, g, h])),
        }
    }

    /// Returns a new id. Its seconds come from server time, so an id made after a time travel shows the new time.
    pub fn next(&self, now: Millis) -> [u8; 12] {
        let seconds = (now.seconds() as u32).to_be_bytes();
        let count = self.counter.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let mut id = [0; 12];
        id[..4].copy_from_slice(&seconds);
        id[4..9].copy_from_slice(&self.random);
        id[9..].copy_from_slice(&count[1..]);
        id
    }
}

impl Default for ObjectIds {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_ids_differ_and_contain_the_time() {
        let ids = ObjectIds::new();
        let (a, b) = (
            ids.next(Millis(1_700_000_000_123)),
            ids.next(Millis(1_700_000_000_123)),
        );
        assert_ne!(a, b);
        assert_eq!(a[..4], 1_700_000_000u32.to_be_bytes());
    }
}
