//! Intervals of values in BSON order, and sets of them. A set may have as many intervals as a filter has conditions. So a
//! function that goes through one counts its work, and fails when the command must end.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::{
    error::Result,
    interrupt,
    value::{Value, ValueRef, key},
};

/// All values between two ends.
#[derive(Debug, Clone)]
pub struct Interval {
    pub low: IntervalEnd,
    pub high: IntervalEnd,
}

/// One end of an interval. Ends are shared: both ends of a point have the same value, and sets of intervals reuse the ends
/// of other sets.
#[derive(Debug, Clone)]
pub struct IntervalEnd {
    at: Rc<KeyedValue>,
    pub included: bool,
}

/// A value with its key bytes. All comparisons use the key bytes.
#[derive(Debug)]
struct KeyedValue {
    value: Value,
    key: Vec<u8>,
}

// === impl IntervalEnd ===

impl IntervalEnd {
    pub fn new(value: ValueRef<'_>, included: bool) -> Self {
        let mut bytes = Vec::new();
        key::encode(value, false, &mut bytes);
        let value = value.to_value();
        Self {
            at: Rc::new(KeyedValue { value, key: bytes }),
            included,
        }
    }

    pub fn key(&self) -> &[u8] {
        &self.at.key
    }

    /// Returns the same position as an end of the neighboring interval.
    fn other_side(&self) -> Self {
        Self {
            at: Rc::clone(&self.at),
            included: !self.included,
        }
    }
}

// === impl Interval ===

impl Interval {
    pub fn point(value: ValueRef<'_>) -> Self {
        let end = IntervalEnd::new(value, true);
        Self {
            low: end.clone(),
            high: end,
        }
    }

    pub fn new(low: IntervalEnd, high: IntervalEnd) -> Self {
        Self { low, high }
    }

    pub fn is_point(&self) -> bool {
        self.low.included && self.high.included && self.low.key() == self.high.key()
    }

    fn is_empty(&self) -> bool {
        match self.low.key().cmp(self.high.key()) {
            Ordering::Less => false,
            Ordering::Equal => !(self.low.included && self.high.included),
            Ordering::Greater => true,
        }
    }

    /// Formats the interval as mongod prints it. With `reversed` the higher end comes first, as the scan meets it.
    pub fn show(&self, reversed: bool) -> String {
        let (first, last) = if reversed {
            (&self.high, &self.low)
        } else {
            (&self.low, &self.high)
        };
        format!(
            "{}{}, {}{}",
            if first.included { '[' } else { '(' },
            first.at.value.as_ref(),
            last.at.value.as_ref(),
            if last.included { ']' } else { ')' },
        )
    }
}

/// Returns the values that lie in at least one of these intervals, as disjoint and ascending intervals.
pub fn union(all: Vec<Interval>) -> Result<Vec<Interval>> {
    covered(all, 1)
}

/// Returns the values that lie in all of these sets. Each set is disjoint and ascending.
pub fn intersection(mut sets: Vec<Vec<Interval>>) -> Result<Vec<Interval>> {
    match (sets.len(), sets.pop()) {
        (1, Some(only)) => Ok(only),
        (depth, last) => covered(sets.into_iter().chain(last).flatten().collect(), depth),
    }
}

/// Returns the values that lie in at least `depth` of these intervals. It takes one sort and one pass, however many sets
/// the intervals come from: the pass meets the edges in ascending order and counts the open intervals.
fn covered(mut all: Vec<Interval>, depth: usize) -> Result<Vec<Interval>> {
    interrupt::tick_each(&all)?;
    all.retain(|interval| !interval.is_empty());
    if all.len() < 2 {
        return Ok(if depth <= 1 { all } else { Vec::new() });
    }
    let mut edges: Vec<IntervalEdge> = Vec::with_capacity(2 * all.len());
    for Interval { low, high } in all {
        edges.push(IntervalEdge {
            end: low,
            opens: true,
        });
        edges.push(IntervalEdge {
            end: high,
            opens: false,
        });
    }
    edges.sort_by(|a, b| a.position().cmp(&b.position()).then(b.opens.cmp(&a.opens)));
    let mut found = Vec::new();
    let mut open = 0;
    let mut since: Option<IntervalEdge> = None;
    for edge in edges {
        interrupt::tick(1)?;
        if edge.opens {
            open += 1;
            if open == depth {
                since = Some(edge);
            }
        } else {
            if open == depth
                && let Some(low) = since.take()
                && low.position() < edge.position()
            {
                found.push(Interval::new(low.end, edge.end));
            }
            open -= 1;
        }
    }
    Ok(found)
}

/// One end of an interval while [`covered`] processes it.
struct IntervalEdge {
    end: IntervalEnd,
    opens: bool,
}

impl IntervalEdge {
    /// Returns the position of the edge, before or behind the values with its key. At these positions intervals are half
    /// open, and two that touch share a position.
    fn position(&self) -> (&[u8], bool) {
        (self.end.key(), self.end.included != self.opens)
    }
}

/// Returns all values except these (disjoint and ascending).
pub fn complement(
    of: &[Interval],
    lowest: IntervalEnd,
    highest: IntervalEnd,
) -> Result<Vec<Interval>> {
    interrupt::tick_each(of)?;
    let mut rest = Vec::with_capacity(of.len() + 1);
    let mut low = lowest;
    for interval in of {
        rest.push(Interval::new(low, interval.low.other_side()));
        low = interval.high.other_side();
    }
    rest.push(Interval::new(low, highest));
    rest.retain(|interval| !interval.is_empty());
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks whether a set holds one of the numbers 0 to 9 or one of the gaps between them.
    fn holds(set: &[Interval], at: i32) -> bool {
        // Odd positions are gaps: 2n + 1 lies between n and n + 1.
        let point = Interval::point(Value::double(f64::from(at) / 2.0).as_ref());
        set.iter().any(|interval| {
            let low = interval.low.key().cmp(point.low.key());
            let high = interval.high.key().cmp(point.low.key());
            (low.is_lt() || low.is_eq() && interval.low.included)
                && (high.is_gt() || high.is_eq() && interval.high.included)
        })
    }

    #[test]
    fn interval_sets_contain_what_their_parts_contain() {
        let mut state = 7_u64;
        let mut roll = |sides: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % sides
        };
        for round in 0..2_000 {
            let sets: Vec<Vec<Interval>> = (0..=roll(4))
                .map(|_| {
                    let parts = (0..roll(4)).map(|_| {
                        let mut end = || {
                            IntervalEnd::new(Value::int32(roll(10) as i32).as_ref(), roll(2) == 0)
                        };
                        Interval::new(end(), end())
                    });
                    union(parts.collect()).unwrap()
                })
                .collect();
            let all = union(sets.iter().flatten().cloned().collect()).unwrap();
            let both = intersection(sets.clone()).unwrap();
            let end = |n: i32| IntervalEnd::new(Value::int32(n).as_ref(), true);
            let rest = complement(&all, end(-1), end(11)).unwrap();
            for at in -1..21 {
                let of_each: Vec<bool> = sets.iter().map(|set| holds(set, at)).collect();
                let any = of_each.contains(&true);
                assert_eq!(holds(&all, at), any, "union, round {round}, {at}");
                let every = !of_each.contains(&false);
                assert_eq!(holds(&both, at), every, "intersection, round {round}, {at}");
                assert_eq!(holds(&rest, at), !any, "complement, round {round}, {at}");
            }
            for set in [&all, &both, &rest] {
                let apart = |pair: &[Interval]| pair[0].high.key() <= pair[1].low.key();
                assert!(set.windows(2).all(apart), "round {round}: {set:?}");
            }
        }
    }
}
