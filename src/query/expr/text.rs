//! Whole strings: `$concat`, `$toLower`, `$toUpper`, `$strcasecmp`, `$strLenBytes`, `$strLenCP`.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::args::{count_val, int_val};
use super::date::{civil, zone::Zone};
use super::{Env, ExprCall};
use crate::error::{Error, Result};
use crate::value::{MAX_DOCUMENT, Type, Val, Value, ValueRef};

pub fn string_val<'a>(text: &str) -> Result<Val<'a>> {
    check_length(text.len())?;
    Ok(Val::Own(Value::string(text)))
}

/// Returns an error for a string of 16 MiB or more.
pub fn check_length(length: usize) -> Result<()> {
    if length >= MAX_DOCUMENT {
        return Err(Error::location(
            16493,
            "Tried to create string longer than 16MB",
        ));
    }
    Ok(())
}

/// Converts a value to text, for operators that also accept numbers and dates as strings. Null becomes "".
pub fn coerce(value: ValueRef<'_>) -> Result<Cow<'_, str>> {
    Ok(match value.ty() {
        Type::Missing | Type::Null | Type::Undefined => Cow::Borrowed(""),
        Type::String | Type::Symbol | Type::Code => {
            Cow::Borrowed(std::str::from_utf8(value.text_bytes().unwrap_or_default()).unwrap_or(""))
        }
        Type::Int32 => value.as_i32().unwrap_or_default().to_string().into(),
        Type::Int64 => value.as_i64().unwrap_or_default().to_string().into(),
        Type::Double => general(value.as_f64().unwrap_or_default(), 6).into(),
        Type::Decimal => value
            .as_decimal()
            .map(|decimal| decimal.to_string())
            .unwrap_or_default()
            .into(),
        Type::Date => civil::checked_iso_string(value.as_date().unwrap_or_default())
            .map_err(|error| error.caused("failed while coercing date to string"))?
            .into(),
        Type::Timestamp => {
            // The format is that of C's `ctime`, without weekday and year.
            let (seconds, increment) = value.as_timestamp().unwrap_or_default();
            let local = Zone::UTC.local(i64::from(seconds) * 1000);
            format!(
                "{} {:2} {:02}:{:02}:{:02}:{increment}",
                local.date.month_name().get(..3).unwrap_or_default(),
                local.date.day,
                local.hour,
                local.minute,
                local.second
            )
            .into()
        }
        ty => {
            return Err(Error::location(
                16007,
                format!("can't convert from BSON type {} to String", ty.alias()),
            ));
        }
    })
}

/// Formats a double like C's `%.{digits}g`.
pub fn general(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let scientific = format!("{value:.*e}", digits.saturating_sub(1));
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim(mantissa), exponent.abs());
    }
    let places = usize::try_from(digits as i32 - 1 - exponent).unwrap_or(0);
    trim(&format!("{value:.places$}"))
}

/// Joins strings. Returns null at the first null argument.
pub fn concat<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let mut text = String::new();
    for arg in &call.args {
        let value = arg.eval_in(env)?;
        let value = value.as_ref();
        if value.is_nullish() {
            return Ok(Val::NULL);
        }
        let Some(part) = value.as_str() else {
            return Err(Error::location(
                16702,
                format!("$concat only supports strings, not {}", value.ty().alias()),
            ));
        };
        check_length(text.len() + part.len())?;
        text.push_str(part);
    }
    string_val(&text)
}

/// Converts to lower case. Only ASCII letters change.
pub fn to_lower<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let value = call.arg(0, env)?;
    string_val(&coerce(value.as_ref())?.to_ascii_lowercase())
}

/// Converts to upper case. Only ASCII letters change.
pub fn to_upper<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let value = call.arg(0, env)?;
    string_val(&coerce(value.as_ref())?.to_ascii_uppercase())
}

pub fn strcasecmp<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let left = call.arg(0, env)?;
    let right = call.arg(1, env)?;
    let left = coerce(left.as_ref())?;
    let right = coerce(right.as_ref())?;
    let upper = |byte: u8| byte.to_ascii_uppercase();
    let order: Ordering = left.bytes().map(upper).cmp(right.bytes().map(upper));
    int_val(order as i32)
}

pub fn str_len_bytes<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    length(call, env, 34473, str::len)
}

pub fn str_len_cp<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    length(call, env, 34471, |text| text.chars().count())
}

fn length<'a>(
    call: &'a ExprCall,
    env: Env<'a>,
    code: i32,
    measure: impl Fn(&str) -> usize,
) -> Result<Val<'a>> {
    let value = call.arg(0, env)?;
    let value = value.as_ref();
    match value.as_str() {
        Some(text) => count_val(measure(text)),
        None => Err(Error::location(
            code,
            format!(
                "{} requires a string argument, found: {}",
                call.name,
                value.ty().alias()
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;
    use bson::{Bson, bson};

    #[test]
    fn doubles_as_c_prints_them() {
        for (value, expected) in [
            (0.0, "0"),
            (1.5, "1.5"),
            (123_456_789.0, "1.23457e+08"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (-2.0, "-2"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(general(value, 6), expected);
        }
    }

    #[test]
    fn values() {
        check::values(&[
            (bson!({"$concat": []}), bson!("")),
            (bson!({"$concat": ["a", "b"]}), bson!("ab")),
            (bson!({"$concat": ["a", Bson::Null, 1]}), Bson::Null),
            (bson!({"$toLower": "ÀBC"}), bson!("Àbc")),
            (bson!({"$toUpper": 1.5}), bson!("1.5")),
            (bson!({"$toUpper": Bson::Null}), bson!("")),
            (bson!({"$strcasecmp": ["ABC", "abd"]}), bson!(-1)),
            (bson!({"$strLenBytes": "é"}), bson!(2)),
            (bson!({"$strLenCP": "é"}), bson!(1)),
        ]);
        check::errors(&[
            (bson!({"$concat": ["a", 1]}), 16702),
            (bson!({"$strLenBytes": Bson::Null}), 34473),
            (bson!({"$strLenCP": 1}), 34471),
            (bson!({"$toLower": [[1]]}), 16007),
        ]);
    }
}
