//! The bounds of the fields behind those that the ranges of a scan fix. The scan meets keys outside of them, and goes on at
//! the next key that may lie inside.

use std::rc::Rc;

use smallvec::SmallVec;

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
        let mut starts: SmallVec<[usize; 4]> = SmallVec::new();
        let mut at = 0;
        for field in &self.fields {
            let rest = entry.get(at..)?;
            starts.push(at);
            if let Some(ranges) = &field.ranges
                && !holds(ranges, rest)
            {
                return Some(match direction {
                    ScanDirection::Forward => self.next_above(entry, &starts),
                    ScanDirection::Backward => self.next_below(entry, &starts),
                });
            }
            at += key::length(rest, field.descending)?;
        }
        None
    }

    /// Returns the first position above an entry that can be inside. The last of `starts` is where the field begins that is
    /// outside. If no higher value of that field is allowed, the field before it must have a higher one, and so on.
    fn next_above(&self, entry: &[u8], starts: &[usize]) -> Vec<u8> {
        let mut position = entry.to_vec();
        for (&start, field) in starts.iter().zip(&self.fields).rev() {
            let rest = position.get(start..).unwrap_or_default();
            let Some(ranges) = &field.ranges else { break };
            if holds(ranges, rest) {
                break;
            }
            if let Some(above) = ranges.get(count_below(ranges, rest)) {
                position.truncate(start);
                position.extend_from_slice(&above.lower);
                break;
            }
            position.truncate(start);
            position = after(&position);
        }
        self.extend(&mut position);
        position
    }

    /// Returns the highest position at or below an entry, such that only entries below it can be inside.
    fn next_below(&self, entry: &[u8], starts: &[usize]) -> Vec<u8> {
        let mut position = entry.to_vec();
        for (&start, field) in starts.iter().zip(&self.fields).rev() {
            let rest = position.get(start..).unwrap_or_default();
            let Some(ranges) = &field.ranges else { break };
            let below = ranges.partition_point(|range| range.lower.as_slice() < rest);
            match below.checked_sub(1).and_then(|below| ranges.get(below)) {
                Some(range) if range.upper.as_slice() >= rest => break,
                Some(range) => {
                    position.truncate(start);
                    position.extend_from_slice(&range.upper);
                    break;
                }
                None => position.truncate(start),
            }
        }
        position
    }

    /// Moves a position that gives the values of the first fields to the first entry with these values that can be inside.
    pub(super) fn extend(&self, position: &mut Vec<u8>) {
        let mut at = 0;
        for field in &self.fields {
            if at == position.len() {
                let Some(first) = field.ranges.as_ref().and_then(|ranges| ranges.first()) else {
                    return;
                };
                position.extend_from_slice(&first.lower);
            }
            let rest = position.get(at..).unwrap_or_default();
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

/// Returns the number of ranges that lie below a key.
fn count_below(ranges: &[KeyRange], key: &[u8]) -> usize {
    ranges.partition_point(|range| range.upper.as_slice() <= key)
}

/// Returns whether a key, with whatever follows it, lies in one of the ranges.
fn holds(ranges: &[KeyRange], key: &[u8]) -> bool {
    let range = ranges.get(count_below(ranges, key));
    range.is_some_and(|range| range.lower.as_slice() <= key)
}
