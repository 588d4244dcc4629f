//! Intervals of values in BSON order, with sets of them.

use std::cmp::Ordering;

use crate::value::{Value, ValueRef, key};

/// All values between two ends. The ends carry their key bytes, which decide every comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval {
    pub low: End,
    pub high: End,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub value: Value,
    pub key: Vec<u8>,
    pub included: bool,
}

// === impl End ===

impl End {
    pub fn new(value: ValueRef<'_>, included: bool) -> Self {
        let mut bytes = Vec::new();
        key::encode(value, false, &mut bytes);
        Self {
            value: value.to_value(),
            key: bytes,
            included,
        }
    }
}

// === impl Interval ===

impl Interval {
    pub fn point(value: ValueRef<'_>) -> Self {
        let end = End::new(value, true);
        Self {
            low: end.clone(),
            high: end,
        }
    }

    pub fn new(low: End, high: End) -> Self {
        Self { low, high }
    }

    pub fn is_point(&self) -> bool {
        self.low.included && self.high.included && self.low.key == self.high.key
    }

    fn is_empty(&self) -> bool {
        match self.low.key.cmp(&self.high.key) {
            Ordering::Less => false,
            Ordering::Equal => !(self.low.included && self.high.included),
            Ordering::Greater => true,
        }
    }

    /// As mongod prints it, turned round where the scan meets the higher end first.
    pub fn show(&self, reversed: bool) -> String {
        let (first, last) = if reversed {
            (&self.high, &self.low)
        } else {
            (&self.low, &self.high)
        };
        format!(
            "{}{}, {}{}",
            if first.included { '[' } else { '(' },
            first.value.as_ref(),
            last.value.as_ref(),
            if last.included { ']' } else { ')' },
        )
    }
}

/// Which of two lower ends lets more in.
fn compare_low(a: &End, b: &End) -> Ordering {
    a.key.cmp(&b.key).then(b.included.cmp(&a.included))
}

fn compare_high(a: &End, b: &End) -> Ordering {
    a.key.cmp(&b.key).then(a.included.cmp(&b.included))
}

/// Sorts, drops what is empty, and joins what overlaps.
pub fn union(mut all: Vec<Interval>) -> Vec<Interval> {
    all.retain(|interval| !interval.is_empty());
    all.sort_by(|a, b| compare_low(&a.low, &b.low));
    let mut joined: Vec<Interval> = Vec::with_capacity(all.len());
    for next in all {
        match joined.last_mut() {
            Some(last) if overlap(&last.high, &next.low) => {
                if compare_high(&next.high, &last.high).is_gt() {
                    last.high = next.high;
                }
            }
            _ => joined.push(next),
        }
    }
    joined
}

/// Whether nothing lies between an upper end and the lower end of what follows.
fn overlap(high: &End, low: &End) -> bool {
    match high.key.cmp(&low.key) {
        Ordering::Greater => true,
        Ordering::Equal => high.included || low.included,
        Ordering::Less => false,
    }
}

/// What is in both (each disjoint and ascending).
pub fn intersect(a: &[Interval], b: &[Interval]) -> Vec<Interval> {
    let mut both = Vec::new();
    let (mut i, mut j) = (0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        let low = std::cmp::max_by(&x.low, &y.low, |a, b| compare_low(a, b));
        let high = std::cmp::min_by(&x.high, &y.high, |a, b| compare_high(a, b));
        let part = Interval::new(low.clone(), high.clone());
        if !part.is_empty() {
            both.push(part);
        }
        if compare_high(&x.high, &y.high).is_lt() {
            i += 1;
        } else {
            j += 1;
        }
    }
    both
}

/// Everything but these (disjoint and ascending).
pub fn complement(of: &[Interval], lowest: End, highest: End) -> Vec<Interval> {
    let mut rest = Vec::with_capacity(of.len() + 1);
    let mut low = lowest;
    for interval in of {
        let mut high = interval.low.clone();
        high.included = !high.included;
        rest.push(Interval::new(low, high));
        low = interval.high.clone();
        low.included = !low.included;
    }
    rest.push(Interval::new(low, highest));
    union(rest)
}
