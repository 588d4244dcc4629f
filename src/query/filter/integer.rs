//! Integers as operator arguments: `3`, `NumberLong(3)`, `3.0` and `NumberDecimal("3")` are equivalent. Errors are mongod's.

use crate::{
    error::{Error, Result},
    value::{Num, Type, ValueRef},
};

/// Returns the number as an i64 if that is exact.
pub(super) fn exact(value: ValueRef<'_>) -> Option<i64> {
    value.as_num()?.to_i64_exact()
}

/// Formats the argument as mongod prints it in messages.
pub(super) fn show(value: ValueRef<'_>) -> String {
    value.to_string()
}

/// Formats an operator with its argument as mongod prints it: `$size: -1`.
fn element(name: &str, value: ValueRef<'_>) -> String {
    format!("{name}: {}", show(value))
}

/// Reads an integral argument, or returns FailedToParse.
pub(super) fn long(name: &str, value: ValueRef<'_>) -> Result<i64> {
    let shown = || element(name, value);
    let Some(num) = value.as_num() else {
        return Err(Error::failed_to_parse(format!(
            "Expected a number in: {}",
            shown()
        )));
    };
    if let Some(exact) = num.to_i64_exact() {
        return Ok(exact);
    }
    Err(Error::failed_to_parse(match num {
        Num::Double(x) if x.is_nan() => {
            format!("Expected an integer, but found NaN in: {}", shown())
        }
        Num::Double(x) if (-(2f64.powi(63))..2f64.powi(63)).contains(&x) => {
            format!("Expected an integer: {}", shown())
        }
        _ => format!("Cannot represent as a 64-bit integer: {}", shown()),
    }))
}

/// Reads an integral argument that is not negative, or returns FailedToParse.
pub(super) fn non_negative_long(name: &str, value: ValueRef<'_>) -> Result<i64> {
    let number = long(name, value)?;
    if number < 0 {
        return Err(Error::failed_to_parse(format!(
            "Expected a non-negative number in: {}",
            element(name, value)
        )));
    }
    Ok(number)
}

/// Reads an integral argument that is not negative and fits into an int32, or returns FailedToParse.
pub(super) fn non_negative_int(name: &str, value: ValueRef<'_>) -> Result<i64> {
    let number = non_negative_long(name, value)?;
    if i32::try_from(number).is_err() {
        return Err(Error::failed_to_parse(format!(
            "Cannot represent {} in an int",
            element(name, value)
        )));
    }
    Ok(number)
}

/// Truncates a number to an i64, towards zero, or returns the reason why that is impossible.
pub(super) fn truncated(value: ValueRef<'_>) -> Result<i64, &'static str> {
    const RANGE: &str = "Out of bounds coercing to integral value";
    const INFINITE: &str = "Unable to coerce NaN/Inf to integral type";
    match value.as_num() {
        Some(Num::Int32(n)) => Ok(n.into()),
        Some(Num::Int64(n)) => Ok(n),
        Some(Num::Double(x)) if !x.is_finite() => Err(INFINITE),
        Some(Num::Double(x)) => {
            if (-(2f64.powi(63))..2f64.powi(63)).contains(&x) {
                Ok(x as i64)
            } else {
                Err(RANGE)
            }
        }
        Some(Num::Decimal(decimal)) => {
            if decimal.is_nan() || decimal.is_infinite() {
                Err(INFINITE)
            } else {
                decimal.to_i64_trunc().ok_or(RANGE)
            }
        }
        None => Err("not a number"),
    }
}

/// Returns whether the value has a number type.
pub(super) fn is_number(value: ValueRef<'_>) -> bool {
    matches!(
        value.ty(),
        Type::Int32 | Type::Int64 | Type::Double | Type::Decimal
    )
}
