//! `$min`, `$max`, `$minN`, `$maxN`: the least and the greatest values. Null does not count.

use super::bounded::{self, BoundedValues};
use super::first_last::{one, size_of_one};
use super::rule::Accumulator;
use super::state::{AccumulatorState, Input};
use crate::error::Result;
use crate::query::expr::ExprArgument;
use crate::value::{Value, ValueRef, compare};

/// The least or the greatest value.
struct Extreme {
    kept: Option<Value>,
    greatest: bool,
}

/// The `n` least values in ascending order, or the `n` greatest in descending order.
struct ExtremeN {
    kept: BoundedValues,
    greatest: bool,
}

pub fn min() -> Box<dyn AccumulatorState> {
    Box::new(Extreme {
        kept: None,
        greatest: false,
    })
}

pub fn max() -> Box<dyn AccumulatorState> {
    Box::new(Extreme {
        kept: None,
        greatest: true,
    })
}

pub fn min_n(arg: ExprArgument<'_>) -> Result<Accumulator> {
    bounded::parse(arg, 5787900, |kept| {
        Box::new(ExtremeN {
            kept,
            greatest: false,
        })
    })
}

pub fn max_n(arg: ExprArgument<'_>) -> Result<Accumulator> {
    bounded::parse(arg, 5787900, |kept| {
        Box::new(ExtremeN {
            kept,
            greatest: true,
        })
    })
}

/// Keeps the lesser or the greater of two values. Null does not count. Among equal values the first one stays.
pub fn keep(kept: &mut Option<Value>, value: ValueRef<'_>, greatest: bool) {
    if value.is_nullish() {
        return;
    }
    let better = match kept {
        None => true,
        Some(kept) => {
            let order = compare(value, kept.as_ref());
            if greatest {
                order.is_gt()
            } else {
                order.is_lt()
            }
        }
    };
    if better {
        *kept = Some(value.to_value());
    }
}

// === impl Extreme ===

impl AccumulatorState for Extreme {
    fn add(&mut self, input: Input<'_>) -> Result<()> {
        keep(&mut self.kept, input.value, self.greatest);
        Ok(())
    }

    fn finish(&mut self) -> Result<Value> {
        one(&self.kept)
    }

    fn size(&self) -> usize {
        size_of_one(&self.kept)
    }
}

// === impl ExtremeN ===

impl AccumulatorState for ExtremeN {
    fn add(&mut self, input: Input<'_>) -> Result<()> {
        if input.value.is_nullish() {
            return Ok(());
        }
        let at = self.kept.position(|before| {
            let order = compare(before.as_ref(), input.value);
            if self.greatest {
                order.is_ge()
            } else {
                order.is_le()
            }
        });
        // The value is worse than all that are kept.
        if at == self.kept.len() && self.kept.is_full() {
            return Ok(());
        }
        self.kept.insert(at, input.value.to_value());
        Ok(())
    }

    fn finish(&mut self) -> Result<Value> {
        self.kept.to_array()
    }

    fn size(&self) -> usize {
        self.kept.size()
    }
}
