//! `$first`, `$last`, `$firstN`, `$lastN`: the values at the ends of a group.

use super::few::Few;
use super::state::{Input, State};
use crate::error::Result;
use crate::value::{Value, ValueRef};

#[derive(Default)]
pub struct First(Option<Value>);

#[derive(Default)]
pub struct Last(Option<Value>);

pub struct FirstN(Few);

pub struct LastN(Few);

/// What is missing becomes null: no group goes without its field, and an array has no gaps.
pub(super) fn present(value: ValueRef<'_>) -> Value {
    value.or_null().to_value()
}

/// The value of a group that keeps one: null where none came.
pub(super) fn one(kept: &Option<Value>) -> Result<Value> {
    Ok(kept.clone().unwrap_or_else(Value::null))
}

pub(super) fn size_of_one(kept: &Option<Value>) -> usize {
    kept.as_ref().map_or(0, |value| value.as_ref().data().len())
}

// === impl First ===

impl State for First {
    fn add(&mut self, input: Input<'_>) -> Result<()> {
        self.0.get_or_insert_with(|| present(input.value));
        Ok(())
    }

    fn finish(&self) -> Result<Value> {
        one(&self.0)
    }

    fn size(&self) -> usize {
        size_of_one(&self.0)
    }
}

// === impl Last ===

impl State for Last {
    fn add(&mut self, input: Input<'_>) -> Result<()> {
        self.0 = Some(present(input.value));
        Ok(())
    }

    fn finish(&self) -> Result<Value> {
        one(&self.0)
    }

    fn size(&self) -> usize {
        size_of_one(&self.0)
    }
}

// === impl FirstN ===

impl FirstN {
    pub fn start(few: Few) -> Box<dyn State> {
        Box::new(Self(few))
    }
}

impl State for FirstN {
    fn add(&mut self, input: Input<'_>) -> Result<()> {
        if !self.0.is_full() {
            self.0.insert(self.0.len(), present(input.value));
        }
        Ok(())
    }

    fn finish(&self) -> Result<Value> {
        self.0.to_array()
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

// === impl LastN ===

impl LastN {
    pub fn start(few: Few) -> Box<dyn State> {
        Box::new(Self(few))
    }
}

impl State for LastN {
    fn add(&mut self, input: Input<'_>) -> Result<()> {
        if self.0.is_full() {
            self.0.remove_first();
        }
        self.0.insert(self.0.len(), present(input.value));
        Ok(())
    }

    fn finish(&self) -> Result<Value> {
        self.0.to_array()
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}
