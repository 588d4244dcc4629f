//! `$add`, `$subtract`, `$multiply`, `$divide`, `$mod`, `$abs`.

use super::total::Total;
use super::{Env, ExprCall};
use crate::error::{Code, Error, Result};
use crate::value::{Num, Val, Value};

pub fn num_val<'a>(num: Num) -> Result<Val<'a>> {
    Ok(Val::Own(num.to_value()))
}

/// Adds numbers and at most one date. With a date, the sum is a date.
pub fn add<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let mut total = Total::default();
    // If one of the numbers is a decimal, the numbers are added one by one as decimals.
    let mut running: Option<Num> = None;
    let mut date = false;
    for arg in &call.args {
        let value = arg.eval_in(env)?;
        let value = value.as_ref();
        if let Some(num) = value.as_num() {
            total.add(num);
            running = Some(running.map_or(num, |before| before.add(num)));
        } else if let Some(millis) = value.as_date() {
            if date {
                return Err(Error::location(
                    16612,
                    "only one date allowed in an $add expression",
                ));
            }
            date = true;
            total.add_whole(millis);
        } else if value.is_nullish() {
            return Ok(Val::NULL);
        } else {
            return Err(Error::new(
                Code::TypeMismatch,
                format!(
                    "$add only supports numeric or date types, not {}",
                    value.ty().alias()
                ),
            ));
        }
    }
    if date {
        let millis = total
            .to_millis()
            .ok_or_else(|| Error::new(Code::Overflow, "date overflow in $add"))?;
        return Ok(Val::Own(Value::date(millis)));
    }
    match running {
        Some(sum @ Num::Decimal(_)) => num_val(sum),
        _ => num_val(total.to_num()),
    }
}

/// Subtracts two numbers, two dates (giving the milliseconds between them), or a number from a date.
pub fn subtract<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let left = call.arg(0, env)?;
    let right = call.arg(1, env)?;
    let (left, right) = (left.as_ref(), right.as_ref());
    if left.is_nullish() || right.is_nullish() {
        return Ok(Val::NULL);
    }
    if let (Some(a), Some(b)) = (left.as_num(), right.as_num()) {
        return num_val(a.sub(b));
    }
    let overflow = || Error::new(Code::Overflow, "date overflow in $subtract");
    if let Some(millis) = left.as_date() {
        if let Some(other) = right.as_date() {
            let between = millis.checked_sub(other).ok_or_else(overflow)?;
            return Ok(Val::Own(Value::int64(between)));
        }
        if let Some(num) = right.as_num() {
            let offset = match num {
                Num::Double(value) => Num::Double(value.round()).to_i64_exact(),
                Num::Decimal(value) => value.to_i64_round(),
                integer => integer.to_i64_exact(),
            };
            let moved = offset
                .and_then(|offset| millis.checked_sub(offset))
                .ok_or_else(overflow)?;
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

pub fn multiply<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let mut product = Num::Int32(1);
    for arg in &call.args {
        let value = arg.eval_in(env)?;
        let value = value.as_ref();
        match value.as_num() {
            Some(num) => product = product.mul(num),
            None if value.is_nullish() => return Ok(Val::NULL),
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
    num_val(product)
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
