//! At most `n` values: the shared part of `$firstN`, `$lastN`, `$minN`, `$maxN`, `$topN` and `$bottomN`.

use std::collections::VecDeque;
use std::sync::Arc;

use super::rule::Accumulator;
use super::state::{AccumulatorRule, AccumulatorState};
use crate::error::{Error, Result};
use crate::query::expr::args::n_and_input;
use crate::query::expr::array_order::check_n;
use crate::query::expr::{ExprArgument, array_of};
use crate::query::{Expr, Vars};
use crate::value::{Doc, Value, ValueRef};

/// The number of values that a group keeps.
#[derive(Debug, Clone)]
pub enum ValueCount {
    Known(usize),
    /// An expression over the group's key, evaluated once when the group starts.
    OfKey(Expr),
}

/// The rule of an accumulator that keeps at most `n` values.
#[derive(Debug)]
struct BoundedRule {
    n: ValueCount,
    start: fn(BoundedValues) -> Box<dyn AccumulatorState>,
}

/// At most `n` values, and the bytes they occupy.
#[derive(Debug)]
pub struct BoundedValues {
    n: usize,
    values: VecDeque<Value>,
    size: usize,
}

/// Parses `{n, input}`. `not_an_object` is the error code for an argument that is not an object.
pub fn parse(
    arg: ExprArgument<'_>,
    not_an_object: i32,
    start: fn(BoundedValues) -> Box<dyn AccumulatorState>,
) -> Result<Accumulator> {
    let (n, input) = n_and_input(arg, not_an_object, Expr::parse)?;
    let n = ValueCount::of_expr(n);
    Ok(Accumulator::new(Arc::new(BoundedRule { n, start }), input))
}

/// Checks `n`. MongoDB runs groups in its newer engine, which has a single code for every invalid `n`.
fn check(n: ValueRef<'_>) -> Result<usize> {
    check_n(n).map_err(|error| Error::location(7548606, error.message()))
}

fn cost(value: &Value) -> usize {
    value.as_ref().data().len() + size_of::<Value>()
}

// === impl ValueCount ===

impl ValueCount {
    pub fn of_expr(expr: Expr) -> Self {
        // A constant that is wrong fails when the first group starts, as in MongoDB.
        match expr.as_const().map(check) {
            Some(Ok(n)) => Self::Known(n),
            _ => Self::OfKey(expr),
        }
    }

    pub fn expr(&self) -> Option<&Expr> {
        match self {
            Self::Known(_) => None,
            Self::OfKey(expr) => Some(expr),
        }
    }

    /// Returns the count for the group with that `_id`. The expression sees the fields of the `_id` as those of a
    /// document.
    pub fn of(&self, id: ValueRef<'_>, vars: &Vars) -> Result<usize> {
        match self {
            Self::Known(n) => Ok(*n),
            Self::OfKey(expr) => {
                let n = expr.eval(id.as_doc().unwrap_or(Doc::EMPTY), vars)?;
                check(n.as_ref())
            }
        }
    }
}

// === impl BoundedRule ===

impl AccumulatorRule for BoundedRule {
    fn start(self: Arc<Self>, id: ValueRef<'_>, vars: &Vars) -> Result<Box<dyn AccumulatorState>> {
        let few = BoundedValues {
            n: self.n.of(id, vars)?,
            values: VecDeque::new(),
            size: 0,
        };
        Ok((self.start)(few))
    }

    fn count(&self) -> Option<&Expr> {
        self.n.expr()
    }
}

// === impl BoundedValues ===

impl BoundedValues {
    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn is_full(&self) -> bool {
        self.values.len() >= self.n
    }

    /// Returns how many values from the front satisfy `before`: the position of a new value.
    pub fn position(&self, before: impl Fn(&Value) -> bool) -> usize {
        self.values.partition_point(before)
    }

    /// Inserts a value. If there is then one too many, the last value is removed.
    pub fn insert(&mut self, at: usize, value: Value) {
        self.size += cost(&value);
        self.values.insert(at, value);
        if self.values.len() > self.n {
            let last = self.values.pop_back();
            self.forget(last);
        }
    }

    pub fn remove_first(&mut self) {
        let first = self.values.pop_front();
        self.forget(first);
    }

    fn forget(&mut self, value: Option<Value>) {
        if let Some(value) = value {
            self.size -= cost(&value);
        }
    }

    pub fn to_array(&self) -> Result<Value> {
        array_of(self.values.iter().map(Value::as_ref))
    }

    pub fn size(&self) -> usize {
        self.size
    }
}
