//! The id of a stored document within its collection.

/// The id of a record. Ids grow with every insert and are never reused, so their order is the natural order.
///
/// ```text
/// | number of the segment (48 bits) | slot (16 bits) |
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(pub u64);

// === impl RecordId ===

impl RecordId {
    pub const FIRST: Self = Self(0);
    /// The first id of documents that a transaction has added and not committed. No segment has such a number.
    pub(super) const PROVISIONAL: Self = Self(1 << 63);

    pub(super) fn new(segment: u64, slot: u16) -> Self {
        Self(segment << 16 | u64::from(slot))
    }

    pub(super) fn segment(self) -> u64 {
        self.0 >> 16
    }

    pub(super) fn slot(self) -> u16 {
        self.0 as u16
    }

    pub(super) fn is_provisional(self) -> bool {
        self >= Self::PROVISIONAL
    }

    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Returns the id before this one, or `None` for the first.
    pub fn previous(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }
}
