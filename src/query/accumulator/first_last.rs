//! `$first`, `$last`, `$firstN`, `$lastN`: the values at either end of a group.

use super::bounded::{self, BoundedValues};
use super::rule::Accumulator;
use super::state::{AccumulatorState, Input};
use crate::error::Result;
use crate::query::expr::ExprArgument;
use crate::value::{Value, ValueRef};

/// The first or the last value.
struct FirstOrLast {
    kept: Option<Value>,
    last: bool,
}

/// The first or the last `n` values.
struct FirstOrLastN {
    kept: BoundedValues,
    last: bool,
}

pub fn first() -> Box<dyn AccumulatorState> {
    Box::new(FirstOrLast {
        kept: None,
        last: false,
    })
}

pub fn last() -> Box<dyn AccumulatorState> {
    Box::new(FirstOrLast {
        kept: None,
        last: true,
    })
}

pub fn first_n(arg: ExprArgument<'_>) -> Result<Accumulator> {
    bounded::parse(arg, 5787801, |kept| {
        Box::new(FirstOrLastN { kept, last: false })
    })
}

pub fn last_n(arg: ExprArgument<'_>) -> Result<Accumulator> {
    bounded::parse(arg, 5787801, |kept| {
        Box::new(FirstOrLastN { kept, last: true })
    })
}

/// Turns a missing value into null, because every group has the field and an array has no gaps.
fn present(value: ValueRef<'_>) -> Value {
    value.or_null().to_value()
}

/// Returns the value of a group that keeps one value, or null if it received none.
pub(super) fn one(kept: &Option<Value>) -> Result<Value> {
    Ok(kept.clone().unwrap_or_else(Value::null))
}

pub(super) fn size_of_one(kept: &Option<Value>) -> usize {
    kept.as_ref().map_or(0, |value| value.as_ref().data().len())
}

// === impl FirstOrLast ===

impl AccumulatorState for FirstOrLast {
    fn add(&mut self, input: Input<'_>) -> Result<()> {
        self.kept = Some(present(input.value));
        Ok(())
    }

    fn needs_input(&self) -> bool {
        self.last || self.kept.is_none()
    }

    fn computes_in_vain(&self) -> bool {
        true
    }

    fn finish(&mut self) -> Result<Value> {
        one(&self.kept)
    }

    fn size(&self) -> usize {
        size_of_one(&self.kept)
    }
}

// === impl FirstOrLastN ===

impl AccumulatorState for FirstOrLastN {
    fn add(&mut self, input: Input<'_>) -> Result<()> {
        if self.kept.is_full() {
            self.kept.remove_first();
        }
        self.kept.insert(self.kept.len(), present(input.value));
        Ok(())
    }

    fn needs_input(&self) -> bool {
        self.last || !self.kept.is_full()
    }

    fn finish(&mut self) -> Result<Value> {
        self.kept.to_array()
    }

    fn size(&self) -> usize {
        self.kept.size()
    }
}
