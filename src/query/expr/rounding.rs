//! `$ceil`, `$floor`, `$round`, `$trunc`. `$round` rounds a half to the even neighbour.

use super::args::show;
use super::arithmetic::{num_val, single};
use super::{Env, ExprCall};
use crate::error::{Error, Result};
use crate::value::{Decimal, Num, Rounding, Val};

pub fn ceil<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let Some(num) = single(call, env)? else {
        return Ok(Val::NULL);
    };
    num_val(match num {
        Num::Double(value) => Num::Double(value.ceil()),
        Num::Decimal(value) => Num::Decimal(value.quantize(0, Rounding::Up)),
        integer => integer,
    })
}

pub fn floor<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let Some(num) = single(call, env)? else {
        return Ok(Val::NULL);
    };
    num_val(match num {
        Num::Double(value) => Num::Double(value.floor()),
        Num::Decimal(value) => Num::Decimal(value.quantize(0, Rounding::Down)),
        integer => integer,
    })
}

pub fn round<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    to_place(call, env, Rounding::HalfEven)
}

pub fn trunc<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    to_place(call, env, Rounding::Zero)
}

/// Rounds to a number of decimal places. A negative number means places before the decimal point.
fn to_place<'a>(call: &'a ExprCall, env: Env<'a>, rounding: Rounding) -> Result<Val<'a>> {
    let value = call.arg(0, env)?;
    let value = value.as_ref();
    if value.is_nullish() {
        return Ok(Val::NULL);
    }
    let Some(num) = value.as_num() else {
        return Err(Error::location(
            51081,
            format!(
                "{} only supports numeric types, not {}",
                call.name,
                value.ty().alias()
            ),
        ));
    };
    let Some(place) = place(call, env)? else {
        return Ok(Val::NULL);
    };
    if !num.is_finite() {
        return num_val(num);
    }
    num_val(match num {
        // If the result would need more digits than a decimal holds, it has as many as it can.
        Num::Decimal(value) => {
            let rounded = value.quantize(-place, rounding);
            Num::Decimal(match rounded.is_nan() {
                true => value.lengthened(),
                false => rounded,
            })
        }
        Num::Double(value) if place == 0 => Num::Double(match rounding {
            Rounding::Zero => value.trunc(),
            _ => value.round_ties_even(),
        }),
        Num::Double(value) => {
            let rounded = Decimal::from_f64_full(value).quantize(-place, rounding);
            Num::Double(if rounded.is_nan() {
                value
            } else {
                rounded.to_f64()
            })
        }
        integer if place >= 0 => integer,
        integer => {
            let rounded = integer.to_decimal().quantize(-place, rounding);
            let result = rounded.to_i64_exact().ok_or_else(|| {
                Error::location(
                    51080,
                    format!(
                        "invalid conversion from Decimal128 result in {} resulting from arguments: [{},{place}]",
                        call.name,
                        integer.to_i64_saturating()
                    ),
                )
            })?;
            match (integer, i32::try_from(result)) {
                (Num::Int32(_), Ok(small)) => Num::Int32(small),
                _ => Num::Int64(result),
            }
        }
    })
}

/// Evaluates the second argument, which is 0 by default. `None` means null.
fn place<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Option<i32>> {
    if call.args.len() < 2 {
        return Ok(Some(0));
    }
    let given = call.arg(1, env)?;
    let given = given.as_ref();
    if given.is_nullish() {
        return Ok(None);
    }
    let number = given.as_num().ok_or_else(|| {
        Error::location(
            16004,
            format!(
                "can't convert from BSON type {} to long",
                given.ty().alias()
            ),
        )
    })?;
    // mongod looks at the range of doubles only: a decimal out of range is one that is not integral.
    if matches!(number, Num::Double(_)) && number.to_i64_trunc().is_none() {
        return Err(Error::location(
            31109,
            format!("Can't coerce out of range value {} to long", show(given)),
        ));
    }
    // What 32 bits do not hold is not integral to mongod.
    let integer = number.to_i64_exact();
    let place = integer.and_then(|integer| i32::try_from(integer).ok());
    let place = place.ok_or_else(|| {
        Error::location(
            51082,
            format!(
                "precision argument to  {} must be a integral value",
                call.name
            ),
        )
    })?;
    if !(-20..=100).contains(&place) {
        return Err(Error::location(
            51083,
            format!(
                "cannot apply {} with precision value {place} value must be in [-20, 100]",
                call.name
            ),
        ));
    }
    Ok(Some(place))
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Bson, bson};

    #[test]
    fn values() {
        check::values(&[
            (bson!({"$ceil": 1.2}), bson!(2.0)),
            (bson!({"$floor": -1.2}), bson!(-2.0)),
            (bson!({"$ceil": 7i64}), bson!(7i64)),
            (bson!({"$round": 2.5}), bson!(2.0)),
            (bson!({"$round": [3.75, 1]}), bson!(3.8)),
            (bson!({"$round": [1250, -2]}), bson!(1200)),
            (bson!({"$round": [1350, -2]}), bson!(1400)),
            (bson!({"$trunc": [19.99, 1]}), bson!(19.9)),
            (bson!({"$trunc": -1.7}), bson!(-1.0)),
            (bson!({"$round": [1.5, Bson::Null]}), Bson::Null),
        ]);
        check::errors(&[
            (bson!({"$round": "a"}), 51081),
            (bson!({"$round": [1, 1.5]}), 51082),
            (bson!({"$round": [1, 101]}), 51083),
            (bson!({"$round": [1, 1_i64 << 40]}), 51082),
            (bson!({"$round": [1, 2, 3]}), 28667),
            (bson!({"$floor": "a"}), 28765),
        ]);
    }
}
