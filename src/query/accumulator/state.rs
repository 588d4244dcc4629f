//! The traits behind an accumulator: its parsed rule, and the state that each group keeps.

use std::fmt;
use std::sync::Arc;

use crate::error::Result;
use crate::query::sort::Sort;
use crate::query::{Expr, Vars};
use crate::value::{Doc, Value, ValueRef};

/// The parsed form of an accumulator, which creates the state of each group. Each family of operators has one
/// implementation.
pub trait AccumulatorRule: fmt::Debug + Send + Sync {
    /// Creates the state of the group with that `_id`, before any document is added.
    fn start(self: Arc<Self>, id: ValueRef<'_>, vars: &Vars) -> Result<Box<dyn AccumulatorState>>;

    /// Returns the order in which the rule needs the documents, besides the input expression.
    fn sort(&self) -> Option<&Sort> {
        None
    }

    /// Returns the number of values to keep, if that is an expression.
    fn count(&self) -> Option<&Expr> {
        None
    }
}

/// The values that one group has collected so far. (Moving windows will also need a `remove`.)
pub trait AccumulatorState: Send {
    fn add(&mut self, input: Input<'_>) -> Result<()>;

    /// Returns whether further input can change the group's value. If not, it is not even computed, as in MongoDB.
    fn needs_input(&self) -> bool {
        true
    }

    /// Returns whether MongoDB's newer engine computes the input although it needs none.
    fn computes_in_vain(&self) -> bool {
        false
    }

    /// Returns whether the group's value is an array or a document that the accumulator itself puts together.
    fn makes_container(&self) -> bool {
        false
    }

    /// Returns the group's value. No document is added after this call.
    fn finish(&mut self) -> Result<Value>;

    /// Returns the bytes that are held besides the state itself.
    fn size(&self) -> usize;
}

/// The contribution of one document.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    pub doc: Doc<'a>,
    /// The result of the accumulator's expression.
    pub value: ValueRef<'a>,
}

/// A rule without arguments, in which every group starts with the same state.
#[derive(Debug)]
pub struct PlainRule(pub fn() -> Box<dyn AccumulatorState>);

// === impl PlainRule ===

impl AccumulatorRule for PlainRule {
    fn start(self: Arc<Self>, _: ValueRef<'_>, _: &Vars) -> Result<Box<dyn AccumulatorState>> {
        Ok((self.0)())
    }
}
