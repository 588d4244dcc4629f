//! From intervals per field to ranges of key bytes.

use super::{
    bounds::{Bounds, Kind},
    interval::{End, Interval},
};
use crate::engine::access::KeyRange;

/// `$in` on several fields multiplies; beyond this many ranges the later fields are left to the filter.
const MAX_RANGES: usize = 1000;

/// Every entry of an index: kinds of keys lie well inside.
fn everything() -> KeyRange {
    KeyRange {
        lower: vec![0],
        upper: vec![0xff],
    }
}

/// The ranges for an index with these bounds on its first fields, and how many of the fields they express. A further field
/// narrows a scan only while all fields before it are points.
pub fn ranges(descending: &[bool], bounds: &[Option<Bounds>]) -> (Vec<KeyRange>, usize) {
    let mut prefixes: Vec<Vec<u8>> = vec![Vec::new()];
    let mut used = 0;
    for (&descending, bounds) in descending.iter().zip(bounds) {
        let Some(bounds) = bounds else { break };
        let count = prefixes.len().saturating_mul(bounds.intervals.len());
        if used > 0 && count > MAX_RANGES {
            break;
        }
        used += 1;
        if bounds.kind < Kind::Points || bounds.intervals.iter().any(|i| !i.is_point()) {
            let mut all = Vec::with_capacity(count);
            for prefix in &prefixes {
                for interval in &bounds.intervals {
                    all.push(range(prefix, interval, descending));
                }
            }
            all.sort();
            return (all, used);
        }
        let mut next = Vec::with_capacity(count);
        for prefix in &prefixes {
            for interval in &bounds.intervals {
                next.push(joined(prefix, &interval.low, descending));
            }
        }
        next.sort();
        prefixes = next;
    }
    if used == 0 {
        return (vec![everything()], 0);
    }
    let all = prefixes
        .into_iter()
        .map(|prefix| KeyRange {
            upper: behind(&prefix),
            lower: prefix,
        })
        .collect();
    (all, used)
}

fn joined(prefix: &[u8], end: &End, descending: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(prefix.len() + end.key.len());
    bytes.extend_from_slice(prefix);
    // A descending field stands in the key with all bits turned.
    bytes.extend(
        end.key
            .iter()
            .map(|&byte| if descending { !byte } else { byte }),
    );
    bytes
}

fn range(prefix: &[u8], interval: &Interval, descending: bool) -> KeyRange {
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
        lower: if first.included {
            lower
        } else {
            behind(&lower)
        },
        upper: if last.included { behind(&upper) } else { upper },
    }
}

/// The first bytes behind everything that begins with `prefix`. Keys never begin with 0xff, so there always are some.
fn behind(prefix: &[u8]) -> Vec<u8> {
    let mut bytes = prefix.to_vec();
    while let Some(byte) = bytes.pop() {
        if let Some(next) = byte.checked_add(1) {
            bytes.push(next);
            return bytes;
        }
    }
    vec![0xff]
}
