//! `$sqrt`, `$pow`, `$exp`, `$ln`, `$log`, `$log10`, `$sigmoid`.

use super::Env;
use super::args::ExprArgument;
use super::arithmetic::{num_val, single};
use super::node::{Expr, ExprCall};
use crate::error::{Error, Result};
use crate::value::{Decimal, Num, Val, ValueRef};

/// Applies a function to a decimal as a decimal, and to any other number as a double.
pub fn unary<'a>(
    num: Num,
    double: impl Fn(f64) -> f64,
    decimal: impl Fn(Decimal) -> Decimal,
) -> Result<Val<'a>> {
    num_val(match num {
        Num::Decimal(value) => Num::Decimal(decimal(value)),
        other => Num::Double(double(other.to_f64())),
    })
}

pub fn sqrt<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let Some(num) = single(call, env)? else {
        return Ok(Val::NULL);
    };
    if num.is_negative() {
        return Err(Error::location(
            28714,
            "$sqrt's argument must be greater than or equal to 0",
        ));
    }
    unary(num, f64::sqrt, Decimal::sqrt)
}

pub fn exp<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    match single(call, env)? {
        Some(num) => unary(num, f64::exp, Decimal::exp),
        None => Ok(Val::NULL),
    }
}

/// Returns a double NaN. Logarithms return it even for a decimal NaN.
fn not_a_number<'a>() -> Result<Val<'a>> {
    num_val(Num::Double(f64::NAN))
}

fn positive(num: Num) -> bool {
    !num.is_zero() && !num.is_negative()
}

/// Computes a logarithm with a fixed base.
fn logarithm<'a>(
    call: &'a ExprCall,
    env: Env<'a>,
    code: i32,
    double: fn(f64) -> f64,
    decimal: fn(Decimal) -> Decimal,
) -> Result<Val<'a>> {
    let Some(num) = single(call, env)? else {
        return Ok(Val::NULL);
    };
    if num.is_nan() {
        return not_a_number();
    }
    if !positive(num) {
        return Err(Error::location(
            code,
            format!(
                "{}'s argument must be a positive number, but is {}",
                call.name,
                num.to_f64()
            ),
        ));
    }
    unary(num, double, decimal)
}

pub fn ln<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    logarithm(call, env, 28766, f64::ln, Decimal::ln)
}

pub fn log10<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    logarithm(call, env, 28761, f64::log10, Decimal::log10)
}

fn part(value: ValueRef<'_>, code: i32, what: &str) -> Result<Num> {
    value.as_num().ok_or_else(|| {
        Error::location(
            code,
            format!("{what} must be numeric, not {}", value.ty().alias()),
        )
    })
}

pub fn log<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let value = call.arg(0, env)?;
    let base = call.arg(1, env)?;
    if value.as_ref().is_nullish() || base.as_ref().is_nullish() {
        return Ok(Val::NULL);
    }
    let value = part(value.as_ref(), 28756, "$log's argument")?;
    let base = part(base.as_ref(), 28757, "$log's base")?;
    if !positive(value) && !value.is_nan() {
        return Err(Error::location(
            28758,
            format!(
                "$log's argument must be a positive number, but is {}",
                value.to_f64()
            ),
        ));
    }
    let is_one = base.compare(Num::Int32(1)).is_eq();
    if !base.is_nan() && (!positive(base) || is_one) {
        return Err(Error::location(
            28759,
            format!(
                "$log's base must be a positive number not equal to 1, but is {}",
                base.to_f64()
            ),
        ));
    }
    if value.is_nan() || base.is_nan() {
        return not_a_number();
    }
    num_val(match (value, base) {
        (Num::Decimal(_), _) | (_, Num::Decimal(_)) => {
            Num::Decimal(value.to_decimal().ln().div(base.to_decimal().ln()))
        }
        _ => Num::Double(value.to_f64().ln() / base.to_f64().ln()),
    })
}

pub fn pow<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let base = call.arg(0, env)?;
    let exponent = call.arg(1, env)?;
    if base.as_ref().is_nullish() || exponent.as_ref().is_nullish() {
        return Ok(Val::NULL);
    }
    let base = part(base.as_ref(), 28762, "$pow's base")?;
    let exponent = part(exponent.as_ref(), 28763, "$pow's exponent")?;
    if base.is_zero() && exponent.is_negative() {
        return Err(Error::location(
            28764,
            "$pow cannot take a base of 0 and a negative exponent",
        ));
    }
    num_val(match (base, exponent) {
        (Num::Decimal(_), _) | (_, Num::Decimal(_)) => {
            // Adding the smallest zero extends the result to all its digits, as mongod does.
            let zero = Decimal::parse("0E-6176").unwrap_or(Decimal::ZERO);
            let power = decimal_power(base.to_decimal(), exponent.to_decimal());
            Num::Decimal(power.add(zero))
        }
        _ => match (base.as_int(), exponent.as_int()) {
            (Some(a), Some(b)) => match whole_power(a, b) {
                Some(result) => match (base, exponent, i32::try_from(result)) {
                    (Num::Int32(_), Num::Int32(_), Ok(small)) => Num::Int32(small),
                    _ => Num::Int64(result),
                },
                None => Num::Double(base.to_f64().powf(exponent.to_f64())),
            },
            _ => Num::Double(base.to_f64().powf(exponent.to_f64())),
        },
    })
}

/// Computes a power as mongod does. mongod calculates in a binary number of 113 bits, where the largest decimals overflow.
fn decimal_power(base: Decimal, exponent: Decimal) -> Decimal {
    let largest = Decimal::from_parts(false, 10_u128.pow(34) - 1, 6111);
    if exponent == Decimal::ONE && largest == Some(base.abs()) {
        return match base.is_negative() {
            true => Decimal::NEG_INFINITY,
            false => Decimal::INFINITY,
        };
    }
    base.pow(exponent)
}

/// Returns the power if it is an integer that fits into an int64.
fn whole_power(base: i64, exponent: i64) -> Option<i64> {
    match base {
        1 => Some(1),
        -1 => Some(if exponent % 2 == 0 { 1 } else { -1 }),
        0 => Some(i64::from(exponent == 0)),
        _ => base.checked_pow(u32::try_from(exponent).ok()?),
    }
}

/// Parses the only argument. An array is not a list of arguments here. `$sigmoid` is not in the stable API.
pub fn sigmoid(arg: ExprArgument<'_>) -> Result<Expr> {
    arg.scope.check_stable(arg.name)?;
    let only = arg.operand(arg.value)?;
    Ok(Expr::call(arg.name, vec![only], logistic))
}

fn logistic<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let value = call.arg(0, env)?;
    let value = value.as_ref();
    if value.is_nullish() {
        return Ok(Val::NULL);
    }
    // MongoDB rewrites `$sigmoid` with `$multiply`, so the error message names `$multiply`.
    let Some(num) = value.as_num() else {
        return Err(Error::type_mismatch(format!(
            "$multiply only supports numeric types, not {}",
            value.ty().alias()
        )));
    };
    let one = Decimal::from_i32(1);
    unary(
        num,
        |x| 1.0 / (1.0 + (-x).exp()),
        |x| one.div(one.add(x.mul(Decimal::from_i32(-1)).exp())),
    )
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Bson, bson};

    #[test]
    fn values() {
        check::values(&[
            (bson!({"$sqrt": 25}), bson!(5.0)),
            (bson!({"$pow": [2, 10]}), bson!(1024)),
            (bson!({"$pow": [2, 40]}), bson!(1_099_511_627_776i64)),
            (bson!({"$pow": [2, -1]}), bson!(0.5)),
            (bson!({"$pow": [2i64, 3]}), bson!(8i64)),
            (bson!({"$pow": [10, 30]}), bson!(1e30)),
            (bson!({"$pow": [-1, -3]}), bson!(-1)),
            (bson!({"$exp": 0}), bson!(1.0)),
            (bson!({"$ln": 1}), bson!(0.0)),
            (bson!({"$log": [8, 2]}), bson!(3.0)),
            (bson!({"$log10": 1000}), bson!(3.0)),
            (bson!({"$log": [Bson::Null, 2]}), Bson::Null),
        ]);
        check::errors(&[
            (bson!({"$sqrt": -1}), 28714),
            (bson!({"$pow": [0, -1]}), 28764),
            (bson!({"$pow": ["a", 1]}), 28762),
            (bson!({"$ln": 0}), 28766),
            (bson!({"$log": [1, 1]}), 28759),
            (bson!({"$log": [0, 2]}), 28758),
            (bson!({"$log10": -1}), 28761),
        ]);
    }
}
