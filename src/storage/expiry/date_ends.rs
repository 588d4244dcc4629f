//! The ends that TTL indexes on dates give the documents of one segment: a column beside the slots.

use crate::storage::expiry::Bounds;
use crate::ttl::End;

/// One end per slot. Most collections have no such index, so the column is empty as long as every end is `NEVER`. Otherwise
/// it is as long as the slots.
#[derive(Default)]
pub(in crate::storage) struct DateEnds(Vec<End>);

/// The ends under the next rules ([`super::dates`]).
pub(in crate::storage) struct PendingEnds {
    ends: DateEnds,
    /// The bounds of these ends only.
    bounds: Bounds,
}

// === impl DateEnds ===

impl DateEnds {
    #[inline]
    pub fn get(&self, at: usize) -> End {
        self.0.get(at).copied().unwrap_or(End::NEVER)
    }

    pub fn set(&mut self, slots: usize, at: usize, end: End) {
        if self.0.is_empty() && end == End::NEVER {
            return;
        }
        self.0.resize(slots, End::NEVER);
        self.0[at] = end;
    }

    /// Returns only the ends of the slots `kept`, in that order, for slots that are compacted.
    pub fn of(&self, kept: &[usize]) -> Self {
        Self(
            kept.iter()
                .filter_map(|&at| self.0.get(at).copied())
                .collect(),
        )
    }

    /// Returns how many bytes are allocated.
    #[cfg(test)]
    pub fn allocated(&self) -> usize {
        self.0.capacity() * size_of::<End>()
    }
}

// === impl PendingEnds ===

impl PendingEnds {
    pub fn new() -> Self {
        Self {
            ends: DateEnds::default(),
            bounds: Bounds::NONE,
        }
    }

    pub fn set(&mut self, slots: usize, at: usize, end: End) {
        self.ends.set(slots, at, end);
        self.bounds.include_dates(end);
    }

    /// Keeps only the ends of the slots `kept`. See [`DateEnds::of`].
    pub fn keep(&mut self, kept: &[usize]) {
        self.ends = self.ends.of(kept);
    }

    #[cfg(test)]
    pub fn allocated(&self) -> usize {
        self.ends.allocated()
    }

    /// Returns the ends, for the moment when their rules come into force, and puts their bounds into those of the segment.
    pub fn install(self, bounds: &mut Bounds) -> DateEnds {
        bounds.set_dates(&self.bounds);
        self.ends
    }
}
