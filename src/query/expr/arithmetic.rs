//! `$subtract`, `$multiply`, `$divide`, `$mod`, `$abs`.

use super::addition::date_overflow;
use super::{Env, ExprCall};
use crate::error::{Code, Error, Result};
use crate::value::{Decimal, Num, Type, Val, Value};

pub fn num_val<'a>(num: Num) -> Result<Val<'a>> {
    Ok(Val::Own(num.to_value()))
}

/// Subtracts two numbers, two dates (giving the milliseconds between them), or a number from a date.
pub fn subtract<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    // MongoDB computes the right operand first, so its error wins.
    let right = call.arg(1, env)?;
    let left = call.arg(0, env)?;
    let (left, right) = (left.as_ref(), right.as_ref());
    if left.is_nullish() || right.is_nullish() {
        return Ok(Val::NULL);
    }
    if let (Some(a), Some(b)) = (left.as_num(), right.as_num()) {
        return num_val(a.sub(b));
    }
    if let Some(millis) = left.as_date() {
        if let Some(other) = right.as_date() {
            let between = millis.checked_sub(other).ok_or_else(date_overflow)?;
            return Ok(Val::Own(Value::int64(between)));
        }
        if let Some(num) = right.as_num() {
            let moved = super::addition::millis(num)
                .and_then(|offset| millis.checked_sub(offset))
                .ok_or_else(date_overflow)?;
            return Ok(Val::Own(Value::date(moved)));
        }
    }
    Err(Error::new(
        Code::TypeMismatch,
        format!(
            "can't $subtract {} from {}",
            right.ty().alias(),
            left.ty().alias()
        ),
    ))
}

/// A product that grows from left to right, as a long and as a double side by side.
struct RunningProduct {
    /// The widest type so far. It is double if the long has overflowed.
    ty: Type,
    long: i64,
    double: f64,
    decimal: Decimal,
}

pub fn multiply<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let mut product = RunningProduct {
        ty: Type::Int32,
        long: 1,
        double: 1.0,
        decimal: Decimal::ONE,
    };
    for (at, arg) in call.args.iter().enumerate() {
        let value = arg.eval_in(env)?;
        let value = value.as_ref();
        match value.as_num() {
            Some(num) => product.times(num),
            None if value.is_nullish() => return Ok(Val::NULL),
            None if null_follows(call, at, env)? => return Ok(Val::NULL),
            None => {
                return Err(Error::new(
                    Code::TypeMismatch,
                    format!(
                        "$multiply only supports numeric types, not {}",
                        value.ty().alias()
                    ),
                ));
            }
        }
    }
    num_val(product.to_num())
}

/// Returns whether an operand behind one of a wrong type is null, where that matters: in a `$group` MongoDB looks for nulls
/// first (gen_expression.cpp).
pub fn null_follows(call: &ExprCall, at: usize, env: Env<'_>) -> Result<bool> {
    if env.in_group {
        for arg in call.args.iter().skip(at + 1) {
            if arg.eval_in(env)?.as_ref().is_nullish() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Evaluates the two numbers of an operator. `None` means that one is null.
fn pair<'a>(call: &'a ExprCall, env: Env<'a>, refused: Code) -> Result<Option<(Num, Num)>> {
    let left = call.arg(0, env)?;
    let right = call.arg(1, env)?;
    let (left, right) = (left.as_ref(), right.as_ref());
    match (left.as_num(), right.as_num()) {
        (Some(a), Some(b)) => Ok(Some((a, b))),
        _ if left.is_nullish() || right.is_nullish() => Ok(None),
        _ => Err(Error::new(
            refused,
            format!(
                "{} only supports numeric types, not {} and {}",
                call.name,
                left.ty().alias(),
                right.ty().alias()
            ),
        )),
    }
}

/// Divides to a double, or to a decimal if one of the two is a decimal.
pub fn divide<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let Some((a, b)) = pair(call, env, Code::TypeMismatch)? else {
        return Ok(Val::NULL);
    };
    if b.is_zero() {
        let code = match env.in_group {
            true => Code::Location(4848401),
            false => Code::BadValue,
        };
        return Err(Error::new(code, "can't $divide by zero"));
    }
    num_val(match (a, b) {
        (Num::Decimal(_), _) | (_, Num::Decimal(_)) => {
            Num::Decimal(a.to_decimal().div(b.to_decimal()))
        }
        _ => Num::Double(a.to_f64() / b.to_f64()),
    })
}

/// Returns the remainder, with the sign of the dividend.
pub fn modulo<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let Some((a, b)) = pair(call, env, Code::Location(16611))? else {
        return Ok(Val::NULL);
    };
    if b.is_zero() {
        let decimal = matches!((a, b), (Num::Decimal(_), _) | (_, Num::Decimal(_)));
        let code = match (decimal, env.in_group) {
            (true, _) => 5733415,
            (false, true) => 4848403,
            (false, false) => 16610,
        };
        return Err(Error::location(code, "can't $mod by zero"));
    }
    num_val(match (a, b) {
        (Num::Decimal(_), _) | (_, Num::Decimal(_)) => {
            Num::Decimal(a.to_decimal().rem(b.to_decimal()))
        }
        (Num::Int32(a), Num::Int32(b)) => Num::Int32(a.wrapping_rem(b)),
        (a, b) => match (a.as_int(), b.as_int()) {
            (Some(a), Some(b)) => Num::Int64(a.wrapping_rem(b)),
            _ => Num::Double(a.to_f64() % b.to_f64()),
        },
    })
}

/// Evaluates the only number of an operator. `None` means null.
pub fn single<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Option<Num>> {
    let value = call.arg(0, env)?;
    let value = value.as_ref();
    match value.as_num() {
        Some(num) => Ok(Some(num)),
        None if value.is_nullish() => Ok(None),
        None => Err(Error::location(
            28765,
            format!(
                "{} only supports numeric types, not {}",
                call.name,
                value.ty().alias()
            ),
        )),
    }
}

pub fn abs<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let Some(num) = single(call, env)? else {
        return Ok(Val::NULL);
    };
    num_val(match num {
        Num::Int32(value) => match value.checked_abs() {
            Some(value) => Num::Int32(value),
            None => Num::Int64(i64::from(value).abs()),
        },
        Num::Int64(value) => Num::Int64(
            value
                .checked_abs()
                .ok_or_else(|| Error::location(28680, "can't take $abs of long long min"))?,
        ),
        Num::Double(value) => Num::Double(value.abs()),
        Num::Decimal(value) => Num::Decimal(value.abs()),
    })
}

// === impl RunningProduct ===

impl RunningProduct {
    fn times(&mut self, num: Num) {
        match (self.ty, num) {
            (Type::Decimal, _) => self.decimal = self.decimal.mul(num.to_decimal()),
            (_, Num::Decimal(decimal)) => {
                self.decimal = self.to_num().to_decimal().mul(decimal);
                self.ty = Type::Decimal;
            }
            _ => {
                self.double *= num.to_f64();
                let long = match self.ty {
                    Type::Double => None,
                    _ => num.as_int().and_then(|int| self.long.checked_mul(int)),
                };
                match (long, num) {
                    (Some(long), Num::Int32(_)) => self.long = long,
                    (Some(long), _) => (self.long, self.ty) = (long, Type::Int64),
                    (None, _) => self.ty = Type::Double,
                }
            }
        }
    }

    fn to_num(&self) -> Num {
        match self.ty {
            Type::Decimal => Num::Decimal(self.decimal),
            Type::Double => Num::Double(self.double),
            Type::Int64 => Num::Int64(self.long),
            _ => i32::try_from(self.long).map_or(Num::Int64(self.long), Num::Int32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Bson, DateTime, bson};

    #[test]
    fn values() {
        check::values(&[
            (bson!({"$add": []}), bson!(0)),
            (bson!({"$add": [1, 2i64]}), bson!(3i64)),
            (bson!({"$add": [1, 2.5]}), bson!(3.5)),
            (bson!({"$add": [i32::MAX, 1]}), bson!(2_147_483_648i64)),
            (bson!({"$add": [1, "$none"]}), Bson::Null),
            (
                bson!({"$add": [DateTime::from_millis(5), 2]}),
                DateTime::from_millis(7).into(),
            ),
            (bson!({"$subtract": [1, 2]}), bson!(-1)),
            (
                bson!({"$subtract": [DateTime::from_millis(5), DateTime::from_millis(2)]}),
                bson!(3i64),
            ),
            (
                bson!({"$subtract": [DateTime::from_millis(5), 2.5]}),
                DateTime::from_millis(2).into(),
            ),
            (bson!({"$multiply": [2, 3.5]}), bson!(7.0)),
            (bson!({"$multiply": 2}), bson!(2)),
            (bson!({"$divide": [6, 4]}), bson!(1.5)),
            (bson!({"$mod": [-7, 3]}), bson!(-1)),
            (bson!({"$mod": [7.5, 2]}), bson!(1.5)),
            (bson!({"$mod": [i32::MIN, -1]}), bson!(0)),
            (bson!({"$abs": i32::MIN}), bson!(2_147_483_648i64)),
            (bson!({"$abs": Bson::Null}), Bson::Null),
        ]);
        check::errors(&[
            (bson!({"$add": [1, "a"]}), 14),
            (bson!({"$subtract": [1, "a"]}), 14),
            (bson!({"$multiply": ["a"]}), 14),
            (bson!({"$divide": [1, 0]}), 2),
            (bson!({"$mod": [1, 0]}), 16610),
            (bson!({"$abs": i64::MIN}), 28680),
            (bson!({"$abs": "a"}), 28765),
            (bson!({"$subtract": [1]}), 16020),
        ]);
    }
}
