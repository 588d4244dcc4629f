//! `$median` and `$percentile`, also as expressions.
//!
//! MongoDB's `approximate` method keeps a sketch of the numbers. Here all numbers are kept, and `approximate` returns the
//! same as `discrete`. The sketch gives that result too while there are few numbers.

use std::sync::Arc;

use super::rule::Accumulator;
use super::state::{AccumulatorRule, AccumulatorState, Input};
use crate::args::ArgumentError;
use crate::error::{Error, Result};
use crate::query::expr::ExprArgument;
use crate::query::{Expr, Scope, Vars};
use crate::value::{ArrayBuilder, Value, ValueRef};

/// A parsed `$median` or `$percentile`.
#[derive(Debug, Clone)]
pub struct Percentile {
    /// Holds one rank for `$median`.
    ranks: Vec<f64>,
    median: bool,
    continuous: bool,
}

/// The numbers of one group.
struct GroupNumbers {
    spec: Arc<Percentile>,
    numbers: Vec<f64>,
}

pub fn median(arg: ExprArgument<'_>) -> Result<Accumulator> {
    let (input, spec) = Percentile::median(arg)?;
    Ok(Accumulator::new(Arc::new(spec), input))
}

pub fn percentile(arg: ExprArgument<'_>) -> Result<Accumulator> {
    let (input, spec) = Percentile::parse(arg)?;
    Ok(Accumulator::new(Arc::new(spec), input))
}

fn words(arg: ExprArgument<'_>, not_an_object: i32) -> impl Fn(ArgumentError<'_>) -> Error + Copy {
    let ExprArgument { name, value, .. } = arg;
    move |wrong| match wrong {
        ArgumentError::NotAnObject(_) => Error::location(
            not_an_object,
            format!("specification must be an object; found {name} :{value}"),
        ),
        ArgumentError::Unknown(field) => Error::unknown_field(name, field),
        ArgumentError::Missing(field) => Error::missing_field(name, field),
    }
}

/// Returns whether the method is `continuous`.
fn is_continuous(method: ValueRef<'_>) -> Result<bool> {
    match method.as_str() {
        Some("approximate" | "discrete") => Ok(false),
        Some("continuous") => Ok(true),
        _ => Err(Error::bad_value(
            "Currently only 'approximate', 'discrete', and 'continuous' can be used as percentile 'method'.",
        )),
    }
}

fn ranks(p: ValueRef<'_>, scope: &Scope) -> Result<Vec<f64>> {
    let refuse = |value: ValueRef<'_>| {
        Error::location(
            7750301,
            format!(
                "The $percentile 'p' field must be an array of constant numbers from [0.0, 1.0], but found: {value}"
            ),
        )
    };
    let list = Expr::parse(p, &scope.clone().at_once())?;
    let array = list
        .as_const()
        .and_then(|value| value.as_array())
        .filter(|array| !array.is_empty())
        .ok_or_else(|| refuse(p))?;
    array
        .iter()
        .map(|elem| {
            let rank = elem.value.as_num().ok_or_else(|| refuse(p))?.to_f64();
            if (0.0..=1.0).contains(&rank) {
                Ok(rank)
            } else {
                Err(Error::location(
                    7750303,
                    format!("The $percentile 'p' field must be an array of numbers from [0.0, 1.0], but found: {}", elem.value),
                ))
            }
        })
        .collect()
}

// === impl AccumulatorRule ===

impl AccumulatorRule for Percentile {
    fn start(self: Arc<Self>, _: ValueRef<'_>, _: &Vars) -> Result<Box<dyn AccumulatorState>> {
        Ok(Box::new(GroupNumbers {
            spec: self,
            numbers: Vec::new(),
        }))
    }
}

// === impl GroupNumbers ===

impl AccumulatorState for GroupNumbers {
    fn add(&mut self, input: Input<'_>) -> Result<()> {
        if let Some(num) = input.value.as_num()
            && !num.is_nan()
        {
            self.numbers.push(num.to_f64());
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Value> {
        Ok(self.spec.finish(&mut self.numbers))
    }

    fn size(&self) -> usize {
        size_of_val(self.numbers.as_slice())
    }
}

// === impl Percentile ===

impl Percentile {
    /// Parses `{input, method}`. The expression returns the numbers.
    pub fn median(arg: ExprArgument<'_>) -> Result<(Expr, Self)> {
        let [input, method] = arg.named(["input", "method"], words(arg, 7436100))?;
        let input = Expr::parse(input.required()?, arg.scope)?;
        let spec = Self {
            ranks: vec![0.5],
            median: true,
            continuous: is_continuous(method.required()?)?,
        };
        Ok((input, spec))
    }

    /// Parses `{input, p, method}`. The expression returns the numbers.
    pub fn parse(arg: ExprArgument<'_>) -> Result<(Expr, Self)> {
        let [input, p, method] = arg.named(["input", "p", "method"], words(arg, 7429703))?;
        let input = Expr::parse(input.required()?, arg.scope)?;
        let continuous = is_continuous(method.required()?)?;
        let spec = Self {
            ranks: ranks(p.required()?, arg.scope)?,
            median: false,
            continuous,
        };
        Ok((input, spec))
    }

    /// Returns the percentiles of the numbers, which it sorts in place.
    pub fn finish(&self, numbers: &mut [f64]) -> Value {
        numbers.sort_unstable_by(f64::total_cmp);
        if self.median {
            return self
                .ranks
                .first()
                .map_or_else(Value::null, |&rank| self.at(rank, numbers));
        }
        let mut bytes = Vec::new();
        let mut out = ArrayBuilder::begin(&mut bytes);
        for &rank in &self.ranks {
            out.push(self.at(rank, numbers).as_ref());
        }
        out.end();
        Value::array(bytes)
    }

    fn at(&self, rank: f64, sorted: &[f64]) -> Value {
        let pick = |position: f64| sorted.get(position.max(0.0) as usize).copied();
        let count = sorted.len() as f64;
        let found = if self.continuous {
            let position = rank * (count - 1.0);
            pick(position.floor())
                .zip(pick(position.ceil()))
                .map(|(low, high)| low + (high - low) * (position - position.floor()))
        } else {
            pick((count * rank).ceil() - 1.0)
        };
        found.map_or_else(Value::null, Value::double)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let spec = |continuous| Percentile {
            ranks: vec![0.0, 0.5, 0.9, 1.0],
            median: false,
            continuous,
        };
        let numbers = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(
            format!("{:?}", spec(false).finish(&mut numbers.clone())),
            "[Some(1.0), Some(2.0), Some(4.0), Some(4.0)]"
        );
        assert_eq!(
            format!("{:?}", spec(true).finish(&mut numbers.clone())),
            "[Some(1.0), Some(2.5), Some(3.7), Some(4.0)]"
        );
        assert_eq!(
            format!("{:?}", spec(true).finish(&mut [])),
            "[null([]), null([]), null([]), null([])]"
        );
    }
}
