//! `$first`, `$last`, `$firstN`, `$lastN`: the values at the ends of a group.

use super::bounded::{self, BoundedValues};
use super::rule::Accumulator;
use super::state::{Input, State};
use crate::error::Result;
use crate::query::expr::Argument;
use crate::value::{Value, ValueRef};

/// The first value, or the last one.
struct Edge {
    kept: Option<Value>,
    last: bool,
}

/// The first few, or the last few.
struct EdgeN {
    kept: BoundedValues,
    last: bool,
}

pub fn first() -> Box<dyn State> {
    Box::new(Edge {
        kept: None,
        last: false,
    })
}

pub fn last() -> Box<dyn State> {
    Box::new(Edge {
        kept: None,
        last: true,
    })
}

pub fn first_n(arg: Argument<'_>) -> Result<Accumulator> {
    bounded::parse(arg, 5787801, |kept| Box::new(EdgeN { kept, last: false }))
}

pub fn last_n(arg: Argument<'_>) -> Result<Accumulator> {
    bounded::parse(arg, 5787801, |kept| Box::new(EdgeN { kept, last: true }))
}

/// What is missing becomes null: no group goes without its field, and an array has no gaps.
fn present(value: ValueRef<'_>) -> Value {
    value.or_null().to_value()
}

/// The value of a group that keeps one: null where none came.
pub(super) fn one(kept: &Option<Value>) -> Result<Value> {
    Ok(kept.clone().unwrap_or_else(Value::null))
}

pub(super) fn size_of_one(kept: &Option<Value>) -> usize {
    kept.as_ref().map_or(0, |value| value.as_ref().data().len())
}

// === impl Edge ===

impl State for Edge {
    fn add(&mut self, input: Input<'_>) -> Result<()> {
        if self.last || self.kept.is_none() {
            self.kept = Some(present(input.value));
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Value> {
        one(&self.kept)
    }

    fn size(&self) -> usize {
        size_of_one(&self.kept)
    }
}

// === impl EdgeN ===

impl State for EdgeN {
    fn add(&mut self, input: Input<'_>) -> Result<()> {
        if self.kept.is_full() {
            if !self.last {
                return Ok(());
            }
            self.kept.remove_first();
        }
        self.kept.insert(self.kept.len(), present(input.value));
        Ok(())
    }

    fn finish(&mut self) -> Result<Value> {
        self.kept.to_array()
    }

    fn size(&self) -> usize {
        self.kept.size()
    }
}
