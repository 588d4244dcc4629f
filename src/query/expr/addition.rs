//! `$add`.

use super::arithmetic::{null_follows, num_val};
use super::{Env, ExprCall};
use crate::error::{Code, Error, Result};
use crate::value::{Num, Val, Value, ValueRef};

/// A sum that grows from left to right. Unlike `$sum` it carries no rounding errors along.
#[derive(Clone, Copy)]
enum RunningSum {
    /// The sum of ints. It is an int if it fits in the end.
    Ints(i64),
    Other(Num),
    /// A date, and the numbers added to it, each rounded to milliseconds.
    Date(i64),
}

pub fn add<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let mut sum = RunningSum::Ints(0);
    for (at, arg) in call.args.iter().enumerate() {
        let value = arg.eval_in(env)?;
        let value = value.as_ref();
        if value.is_nullish() {
            return Ok(Val::NULL);
        }
        sum = match sum.plus(value) {
            Err(_) if null_follows(call, at, env)? => return Ok(Val::NULL),
            sum => sum?,
        };
    }
    match sum {
        RunningSum::Ints(long) => num_val(i32::try_from(long).map_or(Num::Int64(long), Num::Int32)),
        RunningSum::Other(num) => num_val(num),
        RunningSum::Date(millis) => Ok(Val::Own(Value::date(millis))),
    }
}

/// Returns a number as milliseconds that are added to a date.
pub fn millis(num: Num) -> Option<i64> {
    match num {
        Num::Double(value) => Num::Double(value.round()).to_i64_exact(),
        Num::Decimal(value) => value.to_i64_round(),
        integer => integer.to_i64_exact(),
    }
}

pub fn date_overflow() -> Error {
    Error::new(Code::Overflow, "date overflow")
}

// === impl RunningSum ===

impl RunningSum {
    fn plus(self, value: ValueRef<'_>) -> Result<Self> {
        let before = match self {
            Self::Ints(long) => Num::Int64(long),
            Self::Other(num) => num,
            Self::Date(date) => {
                if value.as_date().is_some() {
                    let words = "only one date allowed in an $add expression";
                    return Err(Error::location(16612, words));
                }
                let num = value.as_num().ok_or_else(|| refuse(value))?;
                return Self::date(date, num);
            }
        };
        if let Some(date) = value.as_date() {
            return Self::date(date, before);
        }
        match (self, value.as_num().ok_or_else(|| refuse(value))?) {
            (Self::Ints(long), Num::Int32(int)) => Ok(match long.checked_add(int.into()) {
                Some(long) => Self::Ints(long),
                None => Self::Other(Num::Double(long as f64 + f64::from(int))),
            }),
            (_, num) => Ok(Self::Other(before.add(num))),
        }
    }

    fn date(date: i64, num: Num) -> Result<Self> {
        millis(num)
            .and_then(|millis| date.checked_add(millis))
            .map(Self::Date)
            .ok_or_else(date_overflow)
    }
}

fn refuse(value: ValueRef<'_>) -> Error {
    Error::type_mismatch(format!(
        "$add only supports numeric or date types, not {}",
        value.ty().alias()
    ))
}
