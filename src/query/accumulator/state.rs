//! What an accumulator is once it is parsed, and what each group gathers with it.

use std::fmt;
use std::sync::Arc;

use crate::error::Result;
use crate::query::sort::Sort;
use crate::query::{Expr, Vars};
use crate::value::{Doc, Value, ValueRef};

/// How the values of a group are put together: one implementation for each family of operators.
pub trait Rule: fmt::Debug + Send + Sync {
    /// The state of the group with that `_id`, before any document.
    fn start(self: Arc<Self>, id: ValueRef<'_>, vars: &Vars) -> Result<Box<dyn State>>;

    /// An order of documents that is asked for besides the input expression.
    fn sort(&self) -> Option<&Sort> {
        None
    }

    /// How many values are kept, where that is an expression.
    fn count(&self) -> Option<&Expr> {
        None
    }
}

/// What one group has gathered so far. (Windows that move will ask for a `remove` as well.)
pub trait State: Send {
    fn add(&mut self, input: Input<'_>) -> Result<()>;

    /// The group's value. Nothing is added behind it.
    fn finish(&mut self) -> Result<Value>;

    /// The bytes that are held beyond the state itself.
    fn size(&self) -> usize;
}

/// What one document brings.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    pub doc: Doc<'a>,
    /// What the accumulator's expression comes to.
    pub value: ValueRef<'a>,
}

/// A rule without arguments: every group begins with the default.
#[derive(Debug)]
pub struct Plain(pub fn() -> Box<dyn State>);

// === impl Plain ===

impl Rule for Plain {
    fn start(self: Arc<Self>, _: ValueRef<'_>, _: &Vars) -> Result<Box<dyn State>> {
        Ok((self.0)())
    }
}
