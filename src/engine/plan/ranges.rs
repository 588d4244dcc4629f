//! Turning the intervals of each field into ranges of key bytes.

use std::rc::Rc;

use super::{
    KeyRange,
    bounds::{BoundKind, PathBounds},
    interval::{Interval, IntervalEnd},
    predicates::FieldBounds,
};
use crate::{error::Result, interrupt};

/// The largest number of ranges. `$in` on several fields multiplies them. Beyond the limit the scan skips the keys that
/// the later fields exclude.
const MAX_RANGES: usize = 1000;

/// Returns how many leading fields make the ranges of an index with these bounds. A further field does only if all fields
/// before it are points. Otherwise the scan skips what it excludes.
pub fn narrowing(bounds: &[Option<Rc<FieldBounds>>]) -> Result<usize> {
    let mut prefixes = 1_usize;
    let mut used = 0;
    for FieldBounds { bounds, .. } in bounds.iter().map_while(Option::as_deref) {
        prefixes = prefixes.saturating_mul(bounds.intervals.len());
        if used > 0 && prefixes > MAX_RANGES {
            break;
        }
        used += 1;
        if !is_points(bounds)? {
            break;
        }
    }
    Ok(used)
}

/// Returns the ranges for an index with these bounds on its first fields, all of which narrow the scan.
pub fn ranges(descending: &[bool], used: &[Option<Rc<FieldBounds>>]) -> Result<Vec<KeyRange>> {
    if used.is_empty() {
        return Ok(vec![KeyRange::everything()]);
    }
    let mut prefixes: Vec<Vec<u8>> = vec![Vec::new()];
    for (FieldBounds { bounds, .. }, &descending) in
        used.iter().flatten().map(Rc::as_ref).zip(descending)
    {
        let count = prefixes.len().saturating_mul(bounds.intervals.len());
        if !is_points(bounds)? {
            let mut all = Vec::with_capacity(count);
            for prefix in &prefixes {
                for interval in &bounds.intervals {
                    interrupt::tick(1)?;
                    all.push(range(prefix, interval, descending));
                }
            }
            all.sort();
            return Ok(all);
        }
        let mut next = Vec::with_capacity(count);
        for prefix in &prefixes {
            for interval in &bounds.intervals {
                interrupt::tick(1)?;
                next.push(joined(prefix, &interval.low, descending));
            }
        }
        next.sort();
        prefixes = next;
    }
    let mut all = Vec::with_capacity(prefixes.len());
    for prefix in prefixes {
        interrupt::tick(1)?;
        all.push(KeyRange {
            upper: after(&prefix),
            lower: prefix,
        });
    }
    Ok(all)
}

fn is_points(bounds: &PathBounds) -> Result<bool> {
    if bounds.kind < BoundKind::Points {
        return Ok(false);
    }
    interrupt::tick_each(&bounds.intervals)?;
    Ok(bounds.intervals.iter().all(Interval::is_point))
}

fn joined(prefix: &[u8], end: &IntervalEnd, descending: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(prefix.len() + end.key().len());
    bytes.extend_from_slice(prefix);
    // A descending field is in the key with all bits inverted.
    bytes.extend(
        end.key()
            .iter()
            .map(|&byte| if descending { !byte } else { byte }),
    );
    bytes
}

pub(super) fn range(prefix: &[u8], interval: &Interval, descending: bool) -> KeyRange {
    let (first, last) = if descending {
        (&interval.high, &interval.low)
    } else {
        (&interval.low, &interval.high)
    };
    let (lower, upper) = (
        joined(prefix, first, descending),
        joined(prefix, last, descending),
    );
    KeyRange {
        lower: if first.included { lower } else { after(&lower) },
        upper: if last.included { after(&upper) } else { upper },
    }
}

/// Returns the first bytes behind everything that begins with `prefix`. Keys never begin with 0xff, so such bytes always
/// exist.
pub(super) fn after(prefix: &[u8]) -> Vec<u8> {
    let mut bytes = prefix.to_vec();
    while let Some(byte) = bytes.pop() {
        if let Some(next) = byte.checked_add(1) {
            bytes.push(next);
            return bytes;
        }
    }
    vec![0xff]
}
