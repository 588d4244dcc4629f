//! Operators that build arrays: `$range`, `$zip`.

use super::args::{ExprArgument, integral_i32, show};
use super::array::items;
use super::node::{Expr, ExprCall, ExprOp, OperatorFolding};
use super::{Env, LiveValues, fuel};
use crate::args::{ArgumentError, named_as};
use crate::error::{Code, Error, Result};
use crate::value::{ArrayBuilder, Doc, Val, Value, ValueRef, check_computed};

#[derive(Debug)]
struct Zip {
    inputs: Vec<Expr>,
    defaults: Vec<Expr>,
    longest: bool,
}

/// MongoDB's limit for the memory of a range.
const MAX_RANGE: i64 = 104_857_600;

pub fn range<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let integer = |at: usize, code: i32, what: &str| -> Result<i64> {
        let value = call.arg(at, env)?;
        let value = value.as_ref();
        if !value.ty().is_number() {
            return Err(Error::location(
                code,
                format!(
                    "$range requires a numeric {what} value, found value of type: {}",
                    value.ty().alias()
                ),
            ));
        }
        integral_i32(value).map(i64::from).ok_or_else(|| {
            Error::location(
                code + 1,
                format!(
                    "$range requires a {what} value that can be represented as a 32-bit integer, found value: {}",
                    show(value)
                ),
            )
        })
    };
    let start = integer(0, 34443, "starting")?;
    let end = integer(1, 34445, "ending")?;
    let step = if call.args.len() > 2 {
        integer(2, 34447, "step")?
    } else {
        1
    };
    if step == 0 {
        return Err(Error::location(
            34449,
            "$range requires a non-zero step value",
        ));
    }
    let count = ((end - start) + (step - step.signum())) / step;
    let count = usize::try_from(count).unwrap_or(0);
    // The memory that MongoDB's array would take.
    let needed = match count {
        0 => 0,
        _ => 24 + ((end - start) / step + 1).saturating_mul(16),
    };
    if needed >= MAX_RANGE {
        return Err(Error::new(
            Code::ExceededMemoryLimit,
            format!(
                "$range would use too much memory ({needed} bytes) and cannot spill to disk. Memory limit: {MAX_RANGE} bytes"
            ),
        ));
    }
    fuel::spend(count as u64 / 16)?;
    let mut bytes = Vec::with_capacity(count * 12 + 16);
    let mut out = ArrayBuilder::begin(&mut bytes);
    let mut value = start;
    for _ in 0..count {
        out.push(Value::int32(value as i32).as_ref());
        value += step;
    }
    check_computed(out.len())?;
    out.end();
    Ok(Val::Own(Value::array(bytes)))
}

pub fn zip(arg: ExprArgument<'_>) -> Result<Expr> {
    let (mut inputs, mut defaults, mut longest) = (Vec::new(), Vec::new(), false);
    let list = |into: &mut Vec<Expr>, value: ValueRef<'_>, number, words| -> Result<()> {
        let array = value.as_array();
        let array = array.ok_or_else(|| Error::found(number, words, value.ty().alias()))?;
        for item in items(array) {
            into.push(arg.operand(item)?);
        }
        Ok(())
    };
    named_as(
        arg.value,
        ["inputs", "defaults", "useLongestLength"],
        |wrong| match wrong {
            ArgumentError::NotAnObject(ty) => {
                let words = format!("$zip only supports an object as an argument, found {ty}");
                (34460, words)
            }
            // No argument is required, so `Missing` does not occur.
            ArgumentError::Unknown(field) | ArgumentError::Missing(field) => {
                (34464, format!("$zip found an unknown argument: {field}"))
            }
        },
        |name, value| match name {
            "inputs" => {
                let words = "inputs must be an array of expressions, found {}";
                list(&mut inputs, value, 34461, words)
            }
            "defaults" => {
                let words = "defaults must be an array of expressions, found {}";
                list(&mut defaults, value, 34462, words)
            }
            _ => {
                // MongoDB names the type of the whole argument.
                let words = "useLongestLength must be a bool, found object";
                longest = value
                    .as_bool()
                    .ok_or_else(|| Error::location(34463, words))?;
                Ok(())
            }
        },
    )?;
    if inputs.is_empty() {
        return Err(Error::location(
            34465,
            "$zip requires at least one input array",
        ));
    }
    if !defaults.is_empty() && !longest {
        return Err(Error::location(
            34466,
            "cannot specify defaults unless useLongestLength is true",
        ));
    }
    if !defaults.is_empty() && defaults.len() != inputs.len() {
        return Err(Error::location(
            34467,
            "defaults and inputs must have the same length",
        ));
    }
    Ok(Expr::op(Zip {
        inputs,
        defaults,
        longest,
    }))
}

// === impl Zip ===

impl ExprOp for Zip {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        let values = LiveValues::eval_until_null(&self.inputs, env, |value| {
            if value.as_array().is_some() {
                return Ok(());
            }
            let shown = show(value);
            let words = format!("$zip found a non-array expression in input: {shown}");
            Err(Error::location(34468, words))
        })?;
        let Some(values) = values else {
            return Ok(Val::NULL);
        };
        let arrays = values.iter().filter_map(|value| value.as_ref().as_array());
        let mut columns: Vec<_> = arrays.clone().map(Doc::iter).collect();
        let mut lengths = arrays.map(|array| array.count());
        let first = lengths.next();
        // Arrays of one length need no defaults.
        let defaults = match self.defaults.is_empty() || lengths.all(|n| Some(n) == first) {
            true => LiveValues::default(),
            false => LiveValues::eval(&self.defaults, env)?,
        };
        let mut bytes = Vec::new();
        let mut out = ArrayBuilder::begin(&mut bytes);
        loop {
            let row: Vec<Option<ValueRef<'_>>> = columns
                .iter_mut()
                .map(|column| column.next().map(|elem| elem.value))
                .collect();
            let there = row.iter().flatten().count();
            if there == 0 || (there < row.len() && !self.longest) {
                break;
            }
            let mut inner = out.array();
            for (at, item) in row.into_iter().enumerate() {
                let default = defaults.get(at).map_or(ValueRef::NULL, Val::as_ref);
                inner.push(item.unwrap_or(default));
            }
            inner.end();
            check_computed(out.len())?;
        }
        out.end();
        Ok(Val::Own(Value::array(bytes)))
    }

    fn optimised(&self) -> OperatorFolding {
        OperatorFolding::Parts
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        self.inputs.iter().for_each(&mut *visit);
        self.defaults.iter().for_each(visit);
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Bson, bson};

    #[test]
    fn values() {
        check::values(&[
            (bson!({"$range": [0, 3]}), bson!([0, 1, 2])),
            (bson!({"$range": [5, 0, -2]}), bson!([5, 3, 1])),
            (bson!({"$range": [0, 5, -1]}), bson!([])),
            (
                bson!({"$zip": {"inputs": [[1, 2], ["a"]]}}),
                bson!([[1, "a"]]),
            ),
            (
                bson!({"$zip": {"inputs": [[1, 2], ["a"]], "useLongestLength": true, "defaults": [0, "z"]}}),
                bson!([[1, "a"], [2, "z"]]),
            ),
            (bson!({"$zip": {"inputs": [[1], Bson::Null]}}), Bson::Null),
        ]);
        check::errors(&[
            (bson!({"$range": ["a", 1]}), 34443),
            (bson!({"$range": [0, 1.5]}), 34446),
            (bson!({"$range": [0, 1, 0]}), 34449),
            (bson!({"$range": [0, i32::MAX]}), 146),
            (bson!({"$zip": {"inputs": []}}), 34465),
        ]);
    }
}
