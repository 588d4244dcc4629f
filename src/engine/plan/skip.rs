//! The bounds of the fields behind those that the ranges of a scan fix. The scan meets keys outside of them, and goes on at
//! the next key that may lie inside.

use std::rc::Rc;

use super::{
    KeyRange, ScanDirection,
    predicates::FieldBounds,
    ranges::{after, range},
};
use crate::{error::Result, interrupt, value::key};

/// The bounds of the later fields of an index.
#[derive(Debug, PartialEq, Eq)]
pub struct SkipBounds {
    /// One entry per field of the index, up to the last one with bounds.
    fields: Vec<SkipField>,
}

#[derive(Debug, PartialEq, Eq)]
struct SkipField {
    descending: bool,
    /// The keys of the field alone: disjoint and ascending. `None` allows all.
    ranges: Option<Vec<KeyRange>>,
}

// === impl SkipBounds ===

impl SkipBounds {
    /// Returns the bounds of the fields from `used` on, if there are any.
    pub(super) fn of(
        descending: &[bool],
        bounds: &[Option<Rc<FieldBounds>>],
        used: usize,
    ) -> Result<Option<Self>> {
        let Some(last) = bounds.iter().rposition(Option::is_some) else {
            return Ok(None);
        };
        if last < used {
            return Ok(None);
        }
        let mut fields = Vec::with_capacity(last + 1);
        for (at, (field, &descending)) in bounds.iter().zip(descending).enumerate().take(last + 1) {
            let ranges = match field.as_deref().filter(|_| at >= used) {
                None => None,
                Some(FieldBounds { bounds, .. }) => {
                    interrupt::tick_each(&bounds.intervals)?;
                    let ranges = bounds.intervals.iter();
                    let mut ranges: Vec<KeyRange> = ranges
                        .map(|interval| range(&[], interval, descending))
                        .collect();
                    if descending {
                        ranges.reverse();
                    }
                    Some(ranges)
                }
            };
            fields.push(SkipField { descending, ranges });
        }
        Ok(Some(Self { fields }))
    }

    /// Returns `None` for an entry inside the bounds. For another one, returns where the next entry can be that is inside: from
    /// there on in a forward scan, below that in a backward scan.
    pub fn target(&self, entry: &[u8], direction: ScanDirection) -> Option<Vec<u8>> {
        let mut at = 0;
        for field in &self.fields {
            let (before, rest) = entry.split_at_checked(at)?;
            if let Some(ranges) = &field.ranges {
                let next = ranges.partition_point(|range| range.upper.as_slice() <= rest);
                let above = ranges.get(next);
                if !above.is_some_and(|range| range.lower.as_slice() <= rest) {
                    let near = match direction {
                        ScanDirection::Forward => above.map(|range| &range.lower),
                        ScanDirection::Backward => {
                            let below = next.checked_sub(1).and_then(|below| ranges.get(below));
                            below.map(|range| &range.upper)
                        }
                    };
                    return Some(match (near, direction) {
                        (Some(near), _) => [before, near].concat(),
                        (None, ScanDirection::Forward) => after(before),
                        (None, ScanDirection::Backward) => before.to_vec(),
                    });
                }
            }
            at += key::length(rest, field.descending)?;
        }
        None
    }

    /// Moves the beginning of a range to the first entry that can be inside, if its first fields are given there.
    pub(super) fn narrow(&self, range: &mut KeyRange) {
        let mut at = 0;
        for field in &self.fields {
            if at == range.lower.len() {
                let Some(first) = field.ranges.as_ref().and_then(|ranges| ranges.first()) else {
                    return;
                };
                range.lower.extend_from_slice(&first.lower);
            }
            let rest = range.lower.get(at..).unwrap_or_default();
            let Some(length) = key::length(rest, field.descending) else {
                return;
            };
            at += length;
        }
    }

    /// Returns whether no entry is inside.
    pub(super) fn is_empty(&self) -> bool {
        let mut fields = self.fields.iter();
        fields.any(|field| field.ranges.as_ref().is_some_and(Vec::is_empty))
    }

    /// Returns the number of bytes that this takes.
    pub(super) fn size(&self) -> usize {
        let fields = self.fields.iter();
        let ranges = fields.flat_map(|field| field.ranges.iter().flatten());
        ranges.map(KeyRange::size).sum()
    }
}
