//! What operators ask of their arguments.

use super::Env;
use super::node::Expr;
use crate::error::{Error, Result};
use crate::value::{Doc, Val, Value, ValueRef};

/// The argument of an operator that takes an object.
pub fn object<'a>(name: &str, value: ValueRef<'a>, code: i32) -> Result<Doc<'a>> {
    value.as_doc().ok_or_else(|| {
        Error::location(
            code,
            format!("{name} only supports an object as its argument"),
        )
    })
}

/// A field of it that must be there.
pub fn needed<T>(value: Option<T>, name: &str, field: &str, code: i32) -> Result<T> {
    value.ok_or_else(|| Error::location(code, format!("Missing '{field}' parameter to {name}")))
}

/// Picks the named fields of an operator that takes an object; `unknown` words the complaint about any other.
pub fn named<'a, const N: usize>(
    doc: Doc<'a>,
    names: [&str; N],
    unknown: impl Fn(&str) -> Error,
) -> Result<[Option<ValueRef<'a>>; N]> {
    let mut found = [None; N];
    for elem in doc {
        let slot = names
            .iter()
            .position(|name| name.as_bytes() == elem.name_bytes())
            .and_then(|at| found.get_mut(at));
        match slot {
            Some(slot) => *slot = Some(elem.value),
            None => return Err(unknown(elem.name())),
        }
    }
    Ok(found)
}

/// The two fields of an operator that takes the first (or last, or largest) n of its input.
pub fn n_and_input<'a>(name: &str, value: ValueRef<'a>) -> Result<(ValueRef<'a>, ValueRef<'a>)> {
    let Some(doc) = value.as_doc() else {
        // The operator decides on the code, as an accumulator and as an expression.
        let code = match name {
            "$maxN" | "$minN" => 5787900,
            _ => 5787801,
        };
        let shown = show(value);
        return Err(Error::location(
            code,
            format!("specification must be an object; found {name}: {shown}"),
        ));
    };
    let [n, input] = named(doc, ["n", "input"], |field| {
        Error::location(
            5787901,
            format!("Unknown argument for 'n' operator: {field}"),
        )
    })?;
    let n = n.ok_or_else(|| Error::location(5787906, "Missing value for 'n'"))?;
    let input = input.ok_or_else(|| Error::location(5787907, "Missing value for 'input'"))?;
    Ok((n, input))
}

/// What an operand that may be left out comes to.
pub fn eval_or<'a>(expr: &'a Option<Expr>, env: Env<'a>, otherwise: Val<'a>) -> Result<Val<'a>> {
    match expr {
        Some(expr) => expr.eval_in(env),
        None => Ok(otherwise),
    }
}

/// The value, if it is a number that an int32 holds exactly.
pub fn integral_i32(value: ValueRef<'_>) -> Option<i32> {
    i32::try_from(integral_i64(value)?).ok()
}

/// The value, if it is a number that an int64 holds exactly.
pub fn integral_i64(value: ValueRef<'_>) -> Option<i64> {
    value.as_num()?.to_i64_exact()
}

pub fn bool_val<'a>(value: bool) -> Result<Val<'a>> {
    Ok(Val::Own(Value::boolean(value)))
}

pub fn int_val<'a>(value: i32) -> Result<Val<'a>> {
    Ok(Val::Own(Value::int32(value)))
}

/// A count that fits an int32, as all sizes within 16 MiB do.
pub fn count_val<'a>(count: usize) -> Result<Val<'a>> {
    int_val(i32::try_from(count).unwrap_or(i32::MAX))
}

/// A value as messages print it.
pub fn show(value: ValueRef<'_>) -> String {
    value.to_string()
}
