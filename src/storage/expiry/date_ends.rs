//! The ends that TTL indexes on dates give the documents of one segment: a column beside its slots.

use crate::storage::expiry::Bounds;
use crate::ttl::End;

/// One end a slot. Most collections have no such index: empty as long as every end is `NEVER`, else as long as the slots.
#[derive(Default)]
pub(in crate::storage) struct DateEnds(Vec<End>);

/// The ends under the rules to come ([`super::dates`]).
pub(in crate::storage) struct PendingEnds {
    ends: DateEnds,
    /// Over these ends alone.
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

    /// Of all ends only those of the slots `kept`, which move together.
    pub fn of(&self, kept: &[usize]) -> Self {
        Self(
            kept.iter()
                .filter_map(|&at| self.0.get(at).copied())
                .collect(),
        )
    }

    /// Bytes that it keeps from the allocator.
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

    /// See [`DateEnds::of`].
    pub fn keep(&mut self, kept: &[usize]) {
        self.ends = self.ends.of(kept);
    }

    #[cfg(test)]
    pub fn allocated(&self) -> usize {
        self.ends.allocated()
    }

    /// The rules hold from now on: the ends, which a segment's bounds take over.
    pub fn install(self, bounds: &mut Bounds) -> DateEnds {
        bounds.set_dates(&self.bounds);
        self.ends
    }
}
