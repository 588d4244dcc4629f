//! `$sum`, `$avg` and `$count`.

use std::sync::Arc;

use super::rule::Accumulator;
use super::state::{AccumulatorState, Input, PlainRule};
use crate::error::{Error, Result};
use crate::query::Expr;
use crate::query::expr::ExprArgument;
use crate::query::expr::total::Total;
use crate::value::Value;

#[derive(Default)]
struct Sum(Total);

#[derive(Default)]
struct Average {
    total: Total,
    count: u64,
}

pub fn sum() -> Box<dyn AccumulatorState> {
    Box::new(Sum::default())
}

pub fn avg() -> Box<dyn AccumulatorState> {
    Box::new(Average::default())
}

/// Parses `$count: {}`, which means `$sum: 1`.
pub fn count(arg: ExprArgument<'_>) -> Result<Accumulator> {
    let ExprArgument { name, value, .. } = arg;
    if !value.as_doc().is_some_and(|doc| doc.is_empty()) {
        return Err(Error::type_mismatch(format!(
            "{name} takes no arguments, i.e. {name}:{{}}"
        )));
    }
    let one = Expr::Const(Value::int32(1));
    Ok(Accumulator::new(Arc::new(PlainRule(sum)), one))
}

/// Returns the average as the expression `$avg` does. It is null without numbers, and a decimal if one of the numbers is a decimal.
pub fn average(total: Total, count: u64) -> Value {
    match count {
        0 => Value::null(),
        _ => total.average(count).to_value(),
    }
}

// === impl Sum ===

impl AccumulatorState for Sum {
    fn add(&mut self, input: Input<'_>) -> Result<()> {
        if let Some(num) = input.value.as_num() {
            self.0.add(num);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Value> {
        Ok(self.0.to_num().to_value())
    }

    fn size(&self) -> usize {
        0
    }
}

// === impl Average ===

impl AccumulatorState for Average {
    fn add(&mut self, input: Input<'_>) -> Result<()> {
        if let Some(num) = input.value.as_num() {
            self.total.add(num);
            self.count += 1;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Value> {
        Ok(match self.count {
            0 => Value::null(),
            count => self.total.average_of_group(count).to_value(),
        })
    }

    fn size(&self) -> usize {
        0
    }
}
