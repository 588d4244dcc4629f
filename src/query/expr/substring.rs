//! Parts of strings: `$substrBytes` (and its old name `$substr`), `$substrCP`, `$indexOfBytes`, `$indexOfCP`, `$split`.

use super::args::{ExprArgument, count_val, int_val, integral_i32, show};
use super::text::{coerce, string_val};
use super::{Arity, Env, Expr, ExprCall};
use crate::error::{Error, Result};
use crate::value::{ArrayBuilder, Num, Type, Val, Value, ValueRef, check_computed};

/// Returns whether a character begins at this byte, or the byte is at or past the end.
fn begins(text: &str, at: usize) -> bool {
    at >= text.len() || text.is_char_boundary(at)
}

/// MongoDB tells `$substr` by this name, too.
const SUBSTR_BYTES: &str = "$substrBytes";

pub fn substr(argument: ExprArgument<'_>) -> Result<Expr> {
    let args = argument.list()?;
    Arity::Exactly(3).check(SUBSTR_BYTES, args.len())?;
    Ok(Expr::call(SUBSTR_BYTES, args, substr_bytes))
}

pub fn substr_bytes<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let text = call.arg(0, env)?;
    let start = call.arg(1, env)?;
    let length = call.arg(2, env)?;
    let text = coerce(text.as_ref())?;
    let number = |value: ValueRef<'_>, code, what: &str| {
        value.as_num().ok_or_else(|| {
            Error::location(
                code,
                format!(
                    "{}:  {what} must be a numeric type (is BSON type {})",
                    SUBSTR_BYTES,
                    value.ty().alias()
                ),
            )
        })
    };
    let integer = |num: Num| {
        let integer = match num {
            // A decimal is rounded, and a double is truncated.
            Num::Decimal(decimal) => decimal.to_i64_round(),
            other => other.to_i64_trunc(),
        };
        match (integer, num) {
            (Some(integer), _) => Ok(integer),
            // A decimal that does not fit becomes the smallest long.
            (None, Num::Decimal(_)) => Ok(i64::MIN),
            (None, _) => Err(Error::location(
                31109,
                format!(
                    "Can't coerce out of range value {} to long",
                    show(num.to_value().as_ref())
                ),
            )),
        }
    };
    let start = number(start.as_ref(), 16034, "starting index")?;
    let length = number(length.as_ref(), 16035, "length")?;
    let start = integer(start)?;
    let Ok(start) = usize::try_from(start) else {
        return Err(Error::location(
            50752,
            format!(
                "{}:  starting index must be non-negative (got: {start})",
                SUBSTR_BYTES
            ),
        ));
    };
    // A negative length means the rest of the string.
    let end = match usize::try_from(integer(length)?) {
        Ok(length) => start.saturating_add(length),
        Err(_) => usize::MAX,
    };
    if !begins(&text, start) {
        return Err(Error::location(
            28656,
            format!(
                "{}:  Invalid range, starting index is a UTF-8 continuation byte.",
                SUBSTR_BYTES
            ),
        ));
    }
    if !begins(&text, end) {
        return Err(Error::location(
            28657,
            format!(
                "{}:  Invalid range, ending index is in the middle of a UTF-8 character.",
                SUBSTR_BYTES
            ),
        ));
    }
    string_val(text.get(start..end.min(text.len())).unwrap_or(""))
}

pub fn substr_cp<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let text = call.arg(0, env)?;
    let start = call.arg(1, env)?;
    let length = call.arg(2, env)?;
    let text = coerce(text.as_ref())?;
    let integer = |value: ValueRef<'_>, codes: [i32; 2], what: &str| {
        if !value.ty().is_number() {
            return Err(Error::location(
                codes[0],
                format!(
                    "{}: {what} must be a numeric type (is BSON type {})",
                    call.name,
                    value.ty().alias()
                ),
            ));
        }
        integral_i32(value).ok_or_else(|| {
            Error::location(
                codes[1],
                format!(
                    "{}: {what} cannot be represented as a 32-bit integral value: {}",
                    call.name,
                    show(value)
                ),
            )
        })
    };
    let start = integer(start.as_ref(), [34450, 34451], "starting index")?;
    let length = integer(length.as_ref(), [34452, 34453], "length")?;
    let Ok(length) = usize::try_from(length) else {
        return Err(Error::location(
            34454,
            format!("{}: length must be a nonnegative integer.", call.name),
        ));
    };
    let Ok(start) = usize::try_from(start) else {
        return Err(Error::location(
            34455,
            format!(
                "{}: the starting index must be nonnegative integer.",
                call.name
            ),
        ));
    };
    let mut letters = text.char_indices().map(|(at, _)| at);
    let from = letters.by_ref().nth(start).unwrap_or(text.len());
    let to = match length.checked_sub(1) {
        None => from,
        Some(more) => letters.nth(more).unwrap_or(text.len()),
    };
    string_val(text.get(from..to).unwrap_or(""))
}

/// Returns the range to search, from the optional third and fourth arguments. The range may be empty or lie outside the text.
pub fn range(call: &ExprCall, first: ValueRef<'_>, last: ValueRef<'_>) -> Result<(usize, usize)> {
    let bound = |value: ValueRef<'_>, which: &str, otherwise: usize| {
        if value.is_missing() {
            return Ok(otherwise);
        }
        let integer = integral_i32(value).ok_or_else(|| {
            Error::location(
                40096,
                format!(
                    "{} requires an integral {which} index, found a value of type: {}, with value: {}",
                    call.name,
                    value.ty().alias(),
                    show(value)
                ),
            )
        })?;
        usize::try_from(integer).map_err(|_| {
            Error::location(
                40097,
                format!(
                    "{} requires a nonnegative {which} index, found: {integer}",
                    call.name
                ),
            )
        })
    };
    Ok((
        bound(first, "starting", 0)?,
        bound(last, "ending", usize::MAX)?,
    ))
}

/// Evaluates an optional argument. It is missing if it was not given, and null if it was given but has no value.
pub fn optional<'a>(call: &'a ExprCall, at: usize, env: Env<'a>) -> Result<Val<'a>> {
    let value = call.arg(at, env)?;
    if call.args.len() > at && value.ty() == Type::Missing {
        return Ok(Val::NULL);
    }
    Ok(value)
}

pub fn index_of_bytes<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    index_of(call, env, [40091, 40092], |text, wanted, start, end| {
        let end = end.min(text.len());
        if start > text.len() || end < start {
            return None;
        }
        if wanted.is_empty() {
            return Some(start);
        }
        // A match begins and ends at character boundaries, so a bound inside a character can move to the next boundary inside
        // the range.
        let from = (start..end).find(|&at| begins(text, at))?;
        let to = (from..=end).rev().find(|&at| begins(text, at))?;
        text.get(from..to)?.find(wanted).map(|at| at + from)
    })
}

pub fn index_of_cp<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    index_of(call, env, [40093, 40094], |text, wanted, start, end| {
        if text.is_empty() && wanted.is_empty() && start == 0 {
            return Some(0);
        }
        let (from, _) = text.char_indices().nth(start)?;
        let (before, _) = text.get(from..)?.split_once(wanted)?;
        // A match must begin before the end of the range, but may reach past it.
        Some(start + before.chars().count()).filter(|&at| at < end)
    })
}

fn index_of<'a>(
    call: &'a ExprCall,
    env: Env<'a>,
    codes: [i32; 2],
    search: impl Fn(&str, &str, usize, usize) -> Option<usize>,
) -> Result<Val<'a>> {
    let text = call.arg(0, env)?;
    let text = text.as_ref();
    if text.is_nullish() {
        return Ok(Val::NULL);
    }
    let refuse = |code, which: &str, ty: Type| {
        Error::location(
            code,
            format!(
                "{} requires a string as the {which} argument, found: {}",
                call.name,
                ty.alias()
            ),
        )
    };
    let body = text
        .as_str()
        .ok_or_else(|| refuse(codes[0], "first", text.ty()))?;
    let wanted = call.arg(1, env)?;
    let wanted = wanted.as_ref();
    let part = wanted
        .as_str()
        .ok_or_else(|| refuse(codes[1], "second", wanted.ty()))?;
    let first = optional(call, 2, env)?;
    let last = optional(call, 3, env)?;
    let (start, end) = range(call, first.as_ref(), last.as_ref())?;
    match search(body, part, start, end) {
        Some(at) => count_val(at),
        None => int_val(-1),
    }
}

pub fn split<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let text = call.arg(0, env)?;
    let separator = call.arg(1, env)?;
    let (text, separator) = (text.as_ref(), separator.as_ref());
    if text.is_nullish() || separator.is_nullish() {
        return Ok(Val::NULL);
    }
    let string = |value: ValueRef<'_>, code, which: &str| {
        Error::location(
            code,
            format!(
                "$split requires an expression that evaluates to a string as a {which} argument, found: {}",
                value.ty().alias()
            ),
        )
    };
    let body = text.as_str().ok_or_else(|| string(text, 40085, "first"))?;
    let separator = separator
        .as_str()
        .ok_or_else(|| string(separator, 10503900, "second"))?;
    if separator.is_empty() {
        return Err(Error::location(
            40087,
            "$split requires a non-empty separator",
        ));
    }
    let mut bytes = Vec::new();
    let mut out = ArrayBuilder::begin(&mut bytes);
    for part in body.split(separator) {
        out.push_str(part);
        check_computed(out.len())?;
    }
    out.end();
    Ok(Val::Own(Value::array(bytes)))
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Bson, bson};

    #[test]
    fn values() {
        check::values(&[
            (bson!({"$substrBytes": ["hello", 1, 3]}), bson!("ell")),
            (bson!({"$substr": ["hello", 1, -1]}), bson!("ello")),
            (bson!({"$substrBytes": ["hello", 9, 3]}), bson!("")),
            (bson!({"$substrBytes": [Bson::Null, 0, 1]}), bson!("")),
            (bson!({"$substrCP": ["éàü", 1, 1]}), bson!("à")),
            (bson!({"$substrCP": ["éàü", 1, 9]}), bson!("àü")),
            (bson!({"$substrCP": ["abc", 1, 0]}), bson!("")),
            (bson!({"$indexOfBytes": ["cafétéria", "é"]}), bson!(3)),
            (bson!({"$indexOfCP": ["cafétéria", "é", 4]}), bson!(5)),
            (bson!({"$indexOfCP": ["abc", "c", 0, 2]}), bson!(-1)),
            (bson!({"$indexOfCP": ["abc", "", 3]}), bson!(-1)),
            (bson!({"$indexOfBytes": [Bson::Null, 1]}), Bson::Null),
            (bson!({"$split": ["a-b-", "-"]}), bson!(["a", "b", ""])),
            (bson!({"$split": [Bson::Null, "-"]}), Bson::Null),
        ]);
        check::errors(&[
            (bson!({"$substrBytes": ["é", 1, 1]}), 28656),
            (bson!({"$substrBytes": ["é", 0, 1]}), 28657),
            (bson!({"$substrBytes": ["a", -1, 1]}), 50752),
            (bson!({"$substrCP": ["a", 0, -1]}), 34454),
            (bson!({"$substrCP": ["a", 0.5, 1]}), 34451),
            (bson!({"$indexOfBytes": [1, "a"]}), 40091),
            (bson!({"$indexOfCP": ["a", "a", -1]}), 40097),
            (bson!({"$split": ["a", ""]}), 40087),
        ]);
    }
}
