//! Converts numbers and text to numbers, and doubles to text.

use super::target::fail;
use crate::error::Result;
use crate::value::{Decimal, DecimalError, Num, Type, Value};

/// Converts a number to another type. A number that does not fit is an error; a fraction is cut off.
pub fn cast(num: Num, target: Type) -> Result<Value> {
    match target {
        Type::Double => {
            let double = num.to_f64();
            let is_too_small = matches!(num, Num::Decimal(_)) && double.abs() < f64::MIN_POSITIVE;
            if (double.is_infinite() && num.is_finite()) || (is_too_small && !num.is_zero()) {
                return Err(overflow(num));
            }
            Ok(Value::double(double))
        }
        Type::Decimal => Ok(Num::Decimal(num.to_decimal()).to_value()),
        _ => {
            if num.is_nan() {
                return Err(fail(
                    "Attempt to convert NaN value to integer type in $convert with no onError value",
                ));
            }
            if num.is_infinite() {
                return Err(fail(
                    "Attempt to convert infinity value to integer type in $convert with no onError value",
                ));
            }
            let integer = num.to_i64_trunc().ok_or_else(|| overflow(num))?;
            if target == Type::Int64 {
                return Ok(Value::int64(integer));
            }
            i32::try_from(integer)
                .map(Value::int32)
                .map_err(|_| overflow(num))
        }
    }
}

fn overflow(num: Num) -> crate::error::Error {
    fail(format_args!(
        "Conversion would overflow target type in $convert with no onError value: {}",
        num.to_value().as_ref()
    ))
}

/// Parses a whole text as a number, without spaces around it. A double may be hexadecimal behind a sign or with a capital
/// `0X`, an oversight of MongoDB; all other numbers are decimal.
pub fn read(text: &str, target: Type) -> Result<Value> {
    if text.starts_with("0x") {
        return Err(fail(format_args!(
            "Illegal hexadecimal input in $convert with no onError value: {text}"
        )));
    }
    let refuse = |why: &str| {
        fail(format_args!(
            "Failed to parse number '{text}' in $convert with no onError value: {why}"
        ))
    };
    let first = text.bytes().next();
    let plain = first.is_some_and(|byte| !byte.is_ascii_whitespace());
    if !plain {
        return Err(refuse(if text.is_empty() {
            "No digits"
        } else {
            "Leading whitespace"
        }));
    }
    match target {
        Type::Int32 => text
            .parse()
            .map(Value::int32)
            .map_err(|_| refuse("Did not consume whole string.")),
        Type::Int64 => text
            .parse()
            .map(Value::int64)
            .map_err(|_| refuse("Did not consume whole string.")),
        Type::Double => {
            let number: f64 = match text.parse() {
                Ok(number) => number,
                Err(_) => {
                    hex_double(text).ok_or_else(|| refuse("Did not consume whole string."))?
                }
            };
            if lost(text, number.is_infinite(), number == 0.0) {
                return Err(refuse("Out of range"));
            }
            Ok(Value::double(number))
        }
        _ => {
            let decimal = Decimal::parse(text).map_err(|why| {
                refuse(match why {
                    DecimalError::NoNumber => "Failed to parse string to decimal",
                    DecimalError::TooLarge => "Conversion from string to decimal would overflow",
                    DecimalError::TooSmall => "Conversion from string to decimal would underflow",
                })
            })?;
            Ok(Num::Decimal(decimal).to_value())
        }
    }
}

/// Returns whether a parsed number was too large or too small for its type: it is infinite or zero, but the text is not.
fn lost(text: &str, infinite: bool, zero: bool) -> bool {
    let digits = text.split(['e', 'E', 'p', 'P']).next().unwrap_or_default();
    let digits = digits
        .trim_start_matches(['+', '-'])
        .trim_start_matches("0x")
        .trim_start_matches("0X");
    let letters = digits.starts_with(['i', 'I']);
    (infinite && !letters) || (zero && digits.chars().any(|c| c.is_ascii_hexdigit() && c != '0'))
}

/// Parses C's hexadecimal form of a double: `0x1.8p3`.
fn hex_double(text: &str) -> Option<f64> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let rest = rest.strip_prefix("0x").or(rest.strip_prefix("0X"))?;
    let (digits, exponent) = match rest.split_once(['p', 'P']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (rest, 0),
    };
    let (integer, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if integer.len() + fraction.len() == 0 {
        return None;
    }
    let mut value = 0f64;
    for letter in integer.chars() {
        value = value * 16.0 + f64::from(letter.to_digit(16)?);
    }
    let mut scale = 1.0 / 16.0;
    for letter in fraction.chars() {
        value += f64::from(letter.to_digit(16)?) * scale;
        scale /= 16.0;
    }
    let value = value * 2f64.powi(exponent);
    Some(if negative { -value } else { value })
}

/// Formats a double with the fewest digits that give the same double, in the style of C's `%g`.
pub fn shortest(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_as_text() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.5, "1.5"),
            (1e15, "1000000000000000"),
            (1e16, "1e+16"),
            (0.0001, "0.0001"),
            (9e-5, "9e-05"),
            (f64::MAX, "1.7976931348623157e+308"),
        ] {
            assert_eq!(shortest(value), expected);
        }
    }
}
