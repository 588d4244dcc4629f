//! `$min`, `$max`, and the first, last, least and greatest few.

use std::collections::VecDeque;

use crate::error::Result;
use crate::query::expr::array_of;
use crate::value::{Value, ValueRef, compare};

/// Keeps the least, or the greatest; null does not count. Of equal ones the first stays.
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

/// An array has no gaps: what is missing counts as null.
fn present(value: ValueRef<'_>) -> Value {
    if value.is_missing() {
        Value::null()
    } else {
        value.to_value()
    }
}

/// At most `n` values.
#[derive(Debug)]
pub struct Few {
    n: usize,
    values: VecDeque<Value>,
    held: usize,
}

// === impl Few ===

impl Few {
    pub fn new(n: usize) -> Self {
        Self {
            n,
            values: VecDeque::new(),
            held: 0,
        }
    }

    fn insert(&mut self, at: usize, value: Value) {
        self.held += cost(&value);
        self.values.insert(at, value);
    }

    fn forget(&mut self, value: Option<Value>) {
        if let Some(value) = value {
            self.held -= cost(&value);
        }
    }

    pub fn first_n(&mut self, value: ValueRef<'_>) {
        if self.values.len() < self.n {
            self.insert(self.values.len(), present(value));
        }
    }

    pub fn last_n(&mut self, value: ValueRef<'_>) {
        if self.values.len() >= self.n {
            let oldest = self.values.pop_front();
            self.forget(oldest);
        }
        self.insert(self.values.len(), present(value));
    }

    /// Sorted, best first; null does not count.
    pub fn best_n(&mut self, value: ValueRef<'_>, greatest: bool) {
        if value.is_nullish() {
            return;
        }
        let at = self.values.partition_point(|before| {
            let order = compare(before.as_ref(), value);
            if greatest {
                order.is_ge()
            } else {
                order.is_le()
            }
        });
        if at >= self.n {
            return;
        }
        self.insert(at, value.to_value());
        if self.values.len() > self.n {
            let worst = self.values.pop_back();
            self.forget(worst);
        }
    }

    pub fn to_array(&self) -> Result<Value> {
        array_of(self.values.iter().map(Value::as_ref))
    }

    pub fn held(&self) -> usize {
        self.held
    }
}

fn cost(value: &Value) -> usize {
    value.as_ref().data().len() + size_of::<Value>()
}
