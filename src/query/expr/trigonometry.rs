//! Trigonometric and hyperbolic functions, in radians.

use super::arithmetic::{num_val, single};
use super::power::unary;
use super::{Env, ExprCall};
use crate::error::{Error, Result};
use crate::value::{Decimal, Num, Val, display};

/// The numbers for which a function is defined.
enum Domain {
    Everywhere,
    Finite,
    /// From -1 to 1.
    Unit,
    /// From 1 upwards.
    FromOne,
}

fn apply<'a>(
    call: &'a ExprCall,
    env: Env<'a>,
    domain: Domain,
    double: fn(f64) -> f64,
    decimal: fn(Decimal) -> Decimal,
) -> Result<Val<'a>> {
    let Some(num) = single(call, env)? else {
        return Ok(Val::NULL);
    };
    if num.is_nan() {
        return num_val(match num {
            Num::Decimal(_) => num,
            _ => Num::Double(f64::NAN),
        });
    }
    let one = Num::Int32(1);
    let (inside, range) = match domain {
        Domain::Everywhere => (true, ""),
        Domain::Finite => (!num.is_infinite(), "(-inf,inf)"),
        Domain::Unit => (
            num.compare(one).is_le() && num.compare(Num::Int32(-1)).is_ge(),
            "[-1,1]",
        ),
        Domain::FromOne => (num.compare(one).is_ge(), "[1,inf]"),
    };
    if !inside {
        let shown = match num {
            Num::Decimal(number) => number.to_string(),
            _ => display::general(num.to_f64()),
        };
        return Err(Error::location(
            50989,
            format!(
                "cannot apply {} to {shown}, value must be in {range}",
                call.name
            ),
        ));
    }
    unary(num, double, decimal)
}

pub fn sin<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    apply(call, env, Domain::Finite, f64::sin, Decimal::sin)
}

pub fn cos<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    apply(call, env, Domain::Finite, f64::cos, Decimal::cos)
}

pub fn tan<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    apply(call, env, Domain::Finite, f64::tan, Decimal::tan)
}

pub fn asin<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    apply(call, env, Domain::Unit, f64::asin, Decimal::asin)
}

pub fn acos<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    apply(call, env, Domain::Unit, f64::acos, Decimal::acos)
}

pub fn atan<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    apply(call, env, Domain::Everywhere, f64::atan, Decimal::atan)
}

pub fn sinh<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    apply(call, env, Domain::Everywhere, f64::sinh, Decimal::sinh)
}

pub fn cosh<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    apply(call, env, Domain::Everywhere, f64::cosh, Decimal::cosh)
}

pub fn tanh<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    apply(call, env, Domain::Everywhere, f64::tanh, Decimal::tanh)
}

/// From here on (2^28) 1 is nothing beside the square.
const LARGE: f64 = 268_435_456.0;

// These three take the steps of the C library's functions, so that the last digit comes out as mongod's.

fn asinh_f64(x: f64) -> f64 {
    let size = x.abs();
    let square = size * size;
    let result = if size > LARGE {
        size.ln() + std::f64::consts::LN_2
    } else if size > 2.0 {
        (2.0 * size + 1.0 / ((square + 1.0).sqrt() + size)).ln()
    } else {
        (size + square / (1.0 + (1.0 + square).sqrt())).ln_1p()
    };
    result.copysign(x)
}

fn acosh_f64(x: f64) -> f64 {
    if x > LARGE {
        x.ln() + std::f64::consts::LN_2
    } else if x > 2.0 {
        (2.0 * x - 1.0 / (x + (x * x - 1.0).sqrt())).ln()
    } else {
        let beyond = x - 1.0;
        (beyond + (2.0 * beyond + beyond * beyond).sqrt()).ln_1p()
    }
}

fn atanh_f64(x: f64) -> f64 {
    let size = x.abs();
    let twice = size + size;
    let inner = match size < 0.5 {
        true => twice + twice * size / (1.0 - size),
        false => twice / (1.0 - size),
    };
    (0.5 * inner.ln_1p()).copysign(x)
}

pub fn asinh<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    apply(call, env, Domain::Everywhere, asinh_f64, Decimal::asinh)
}

pub fn acosh<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    apply(call, env, Domain::FromOne, acosh_f64, Decimal::acosh)
}

pub fn atanh<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    apply(call, env, Domain::Unit, atanh_f64, Decimal::atanh)
}

pub fn atan2<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let need = |value: crate::value::ValueRef<'_>, code| {
        value.as_num().ok_or_else(|| {
            Error::location(
                code,
                format!(
                    "$atan2 only supports numeric types, not {}",
                    value.ty().alias()
                ),
            )
        })
    };
    let y = call.arg(0, env)?;
    if y.as_ref().is_nullish() {
        return Ok(Val::NULL);
    }
    let y = need(y.as_ref(), 51044)?;
    let x = call.arg(1, env)?;
    if x.as_ref().is_nullish() {
        return Ok(Val::NULL);
    }
    let x = need(x.as_ref(), 51045)?;
    num_val(match (y, x) {
        (Num::Decimal(_), _) | (_, Num::Decimal(_)) => {
            Num::Decimal(y.to_decimal().atan2(x.to_decimal()))
        }
        _ => Num::Double(y.to_f64().atan2(x.to_f64())),
    })
}

/// Returns pi with the 34 digits that a decimal holds.
fn pi() -> Decimal {
    Decimal::parse("3.141592653589793238462643383279503").unwrap_or(Decimal::ZERO)
}

pub fn degrees_to_radians<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    apply(
        call,
        env,
        Domain::Everywhere,
        |x| x * (std::f64::consts::PI / 180.0),
        |x| x.mul(pi().div(Decimal::from_i32(180))),
    )
}

pub fn radians_to_degrees<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    apply(
        call,
        env,
        Domain::Everywhere,
        |x| x * (180.0 / std::f64::consts::PI),
        |x| x.mul(Decimal::from_i32(180).div(pi())),
    )
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Bson, bson};

    #[test]
    fn values() {
        check::values(&[
            (bson!({"$sin": 0}), bson!(0.0)),
            (bson!({"$cos": 0i64}), bson!(1.0)),
            (bson!({"$atan2": [0, 1]}), bson!(0.0)),
            (bson!({"$acosh": 1}), bson!(0.0)),
            (bson!({"$tanh": Bson::Null}), Bson::Null),
            (
                bson!({"$degreesToRadians": 180}),
                bson!(std::f64::consts::PI),
            ),
        ]);
        check::errors(&[
            (bson!({"$sin": f64::INFINITY}), 50989),
            (bson!({"$acos": 2}), 50989),
            (bson!({"$acosh": 0}), 50989),
            (bson!({"$sin": "a"}), 28765),
        ]);
    }
}
