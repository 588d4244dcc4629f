//! Whole arrays and their elements by position: `$arrayElemAt`, `$first`, `$last`, `$slice`, `$size`, `$isArray`,
//! `$concatArrays`, `$reverseArray`, `$in`, `$indexOfArray`.

use super::args::{bool_val, count_val, int_val, integral_i32, show};
use super::substring::optional;
use super::{Env, ExprCall};
use crate::error::{Error, Result};
use crate::value::{ArrayBuilder, Doc, Type, Val, Value, ValueRef, check_computed, equal};

/// Builds an array of these values.
pub fn array_of<'v>(items: impl IntoIterator<Item = ValueRef<'v>>) -> Result<Value> {
    let mut bytes = Vec::new();
    let mut out = ArrayBuilder::begin(&mut bytes);
    for item in items {
        out.push(item);
        check_computed(out.len())?;
    }
    out.end();
    Ok(Value::array(bytes))
}

pub fn build<'v, 'a>(items: impl IntoIterator<Item = ValueRef<'v>>) -> Result<Val<'a>> {
    array_of(items).map(Val::Own)
}

pub fn items(array: Doc<'_>) -> impl Iterator<Item = ValueRef<'_>> {
    array.iter().map(|elem| elem.value)
}

/// Returns an element of an array. It is borrowed if the array is borrowed, and copied if the array is a temporary value.
fn pick<'a>(array: Val<'a>, choose: impl Fn(Doc<'_>) -> Option<ValueRef<'_>>) -> Val<'a> {
    match &array {
        Val::Ref(value) => value
            .as_array()
            .and_then(&choose)
            .map_or(Val::MISSING, Val::Ref),
        Val::Own(value) => value
            .as_ref()
            .as_array()
            .and_then(choose)
            .map_or(Val::MISSING, |found| Val::Own(found.to_value())),
    }
}

/// Returns the element at an index. A negative index counts from the end; an index outside the array gives a missing value.
pub fn array_elem_at<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let array = call.arg(0, env)?;
    let index = call.arg(1, env)?;
    let index = index.as_ref();
    if array.as_ref().is_nullish() || index.is_nullish() {
        return Ok(Val::NULL);
    }
    if array.ty() != Type::Array {
        return Err(Error::location(
            28689,
            format!(
                "$arrayElemAt's first argument must be an array, but is {}",
                array.ty().alias()
            ),
        ));
    }
    if !index.ty().is_number() {
        return Err(Error::location(
            28690,
            format!(
                "$arrayElemAt's second argument must be a numeric value, but is {}",
                index.ty().alias()
            ),
        ));
    }
    let at = integral_i32(index).ok_or_else(|| {
        Error::location(
            28691,
            format!(
                "$arrayElemAt's second argument must be representable as a 32-bit integer: {}",
                show(index)
            ),
        )
    })?;
    Ok(pick(array, |array| {
        let at = match usize::try_from(at) {
            Ok(at) => at,
            Err(_) => array
                .count()
                .checked_sub(usize::try_from(at.unsigned_abs()).ok()?)?,
        };
        items(array).nth(at)
    }))
}

/// Evaluates the only argument, which must be an array. `None` means null.
fn only_array<'a>(
    call: &'a ExprCall,
    env: Env<'a>,
    refuse: impl Fn(&str) -> Error,
) -> Result<Option<Val<'a>>> {
    let value = call.arg(0, env)?;
    if value.as_ref().is_nullish() {
        return Ok(None);
    }
    if value.ty() != Type::Array {
        return Err(refuse(value.ty().alias()));
    }
    Ok(Some(value))
}

fn end<'a>(
    call: &'a ExprCall,
    env: Env<'a>,
    choose: impl Fn(Doc<'_>) -> Option<ValueRef<'_>>,
) -> Result<Val<'a>> {
    let array = only_array(call, env, |ty| {
        Error::location(
            28689,
            format!("{}'s argument must be an array, but is {ty}", call.name),
        )
    })?;
    Ok(array.map_or(Val::NULL, |array| pick(array, choose)))
}

pub fn first<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    end(call, env, |array| items(array).next())
}

pub fn last<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    end(call, env, |array| items(array).last())
}

/// Returns a part of an array, from `[array, n]` or `[array, position, n]`.
pub fn slice<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let array = call.arg(0, env)?;
    let second = call.arg(1, env)?;
    let second = second.as_ref();
    if array.as_ref().is_nullish() || second.is_nullish() {
        return Ok(Val::NULL);
    }
    let Some(elements) = array.as_ref().as_array() else {
        return Err(Error::location(
            28724,
            format!(
                "First argument to $slice must be an array, but is of type: {}",
                array.ty().alias()
            ),
        ));
    };
    let integer = |value: ValueRef<'_>, code: i32, which: &str| {
        if !value.ty().is_number() {
            return Err(Error::location(
                code,
                format!(
                    "{which} argument to $slice must be a numeric value, but is of type: {}",
                    value.ty().alias()
                ),
            ));
        }
        integral_i32(value).ok_or_else(|| {
            Error::location(
                code + 1,
                format!(
                    "{which} argument to $slice can't be represented as a 32-bit integer: {}",
                    show(value)
                ),
            )
        })
    };
    let second = i64::from(integer(second, 28725, "Second")?);
    let length = elements.count() as i64;
    let (start, count) = if call.args.len() > 2 {
        let third = call.arg(2, env)?;
        if third.as_ref().is_nullish() {
            return Ok(Val::NULL);
        }
        let count = i64::from(integer(third.as_ref(), 28727, "Third")?);
        if count <= 0 {
            return Err(Error::location(
                28729,
                format!("Third argument to $slice must be positive: {count}"),
            ));
        }
        let start = if second < 0 {
            (length + second).max(0)
        } else {
            second
        };
        (start, count)
    } else if second < 0 {
        ((length + second).max(0), -second)
    } else {
        (0, second)
    };
    let start = usize::try_from(start).unwrap_or(0);
    let count = usize::try_from(count).unwrap_or(0);
    build(items(elements).skip(start).take(count))
}

pub fn size<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let value = call.arg(0, env)?;
    match value.as_ref().as_array() {
        Some(array) => count_val(array.count()),
        None => Err(Error::location(
            17124,
            format!(
                "The argument to $size must be an array, but was of type: {}",
                value.ty().alias()
            ),
        )),
    }
}

pub fn is_array<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    bool_val(call.arg(0, env)?.ty() == Type::Array)
}

pub fn concat_arrays<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let mut bytes = Vec::new();
    let mut out = ArrayBuilder::begin(&mut bytes);
    for arg in &call.args {
        let value = arg.eval_in(env)?;
        let value = value.as_ref();
        if value.is_nullish() {
            return Ok(Val::NULL);
        }
        let Some(array) = value.as_array() else {
            return Err(Error::location(
                28664,
                format!(
                    "$concatArrays only supports arrays, not {}",
                    value.ty().alias()
                ),
            ));
        };
        for item in items(array) {
            out.push(item);
        }
        check_computed(out.len())?;
    }
    out.end();
    Ok(Val::Own(Value::array(bytes)))
}

pub fn reverse_array<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let array = only_array(call, env, |ty| {
        Error::location(
            34435,
            format!("The argument to $reverseArray must be an array, but was of type: {ty}"),
        )
    })?;
    let Some(array) = array else {
        return Ok(Val::NULL);
    };
    let all: Vec<_> = array
        .as_ref()
        .as_array()
        .map(items)
        .into_iter()
        .flatten()
        .collect();
    build(all.into_iter().rev())
}

pub fn in_<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let wanted = call.arg(0, env)?;
    let array = call.arg(1, env)?;
    match array.as_ref().as_array() {
        Some(array) => bool_val(items(array).any(|item| equal(item, wanted.as_ref()))),
        None => Err(Error::location(
            40081,
            format!(
                "$in requires an array as a second argument, found: {}",
                array.ty().alias()
            ),
        )),
    }
}

/// Returns the error of MongoDB's optimiser for an `$indexOfArray` whose first operand is a constant of another type. It
/// comes before any document is read, though other operands are no constants.
pub fn constant_is_no_array(call: &ExprCall) -> Option<Error> {
    let array = call.args.first()?.as_const()?;
    let all_constant = call.args.iter().all(|arg| arg.as_const().is_some());
    if all_constant || array.is_nullish() || array.ty() == Type::Array {
        return None;
    }
    Some(Error::location(
        50809,
        format!(
            "First operand of $indexOfArray must be an array. First argument is of type: {}",
            array.ty().alias()
        ),
    ))
}

pub fn index_of_array<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let array = call.arg(0, env)?;
    if array.as_ref().is_nullish() {
        return Ok(Val::NULL);
    }
    let Some(elements) = array.as_ref().as_array() else {
        return Err(Error::location(
            40090,
            format!(
                "$indexOfArray requires an array as a first argument, found: {}",
                array.ty().alias()
            ),
        ));
    };
    let wanted = call.arg(1, env)?;
    let bound = |at: usize, which: &str, otherwise: usize| -> Result<usize> {
        let value = optional(call, at, env)?;
        let value = value.as_ref();
        if value.is_missing() {
            return Ok(otherwise);
        }
        let integer = integral_i32(value).ok_or_else(|| {
            Error::location(
                9711600,
                format!(
                    "$indexOfArray requires an integral {which} index, found a value of type: {}, with value: {}",
                    value.ty().alias(),
                    show(value)
                ),
            )
        })?;
        usize::try_from(integer).map_err(|_| {
            Error::location(
                9711601,
                format!("$indexOfArray requires a nonnegative {which} index, found: {integer}"),
            )
        })
    };
    let start = bound(2, "starting", 0)?;
    let end = bound(3, "ending", usize::MAX)?;
    let found = items(elements)
        .enumerate()
        .take(end)
        .skip(start)
        .find(|(_, item)| equal(*item, wanted.as_ref()));
    match found {
        Some((at, _)) => count_val(at),
        None => int_val(-1),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Bson, bson, doc};

    #[test]
    fn values() {
        check::values_in(
            &doc! {"a": [1, 2, 3, 4]},
            &[
                (bson!({"$arrayElemAt": ["$a", -1]}), bson!(4)),
                (bson!({"$arrayElemAt": [["x", "y"], 1.0]}), bson!("y")),
                (bson!({"$arrayElemAt": ["$none", 1]}), Bson::Null),
                (bson!({"$first": "$a"}), bson!(1)),
                (bson!({"$last": "$a"}), bson!(4)),
                (bson!({"$slice": ["$a", 2]}), bson!([1, 2])),
                (bson!({"$slice": ["$a", -2]}), bson!([3, 4])),
                (bson!({"$slice": ["$a", 1, 2]}), bson!([2, 3])),
                (bson!({"$slice": ["$a", -9, 2]}), bson!([1, 2])),
                (bson!({"$size": "$a"}), bson!(4)),
                (bson!({"$isArray": "$a"}), bson!(true)),
                (bson!({"$isArray": [5]}), bson!(false)),
                (
                    bson!({"$concatArrays": ["$a", [5]]}),
                    bson!([1, 2, 3, 4, 5]),
                ),
                (bson!({"$concatArrays": ["$a", "$none"]}), Bson::Null),
                (bson!({"$reverseArray": "$a"}), bson!([4, 3, 2, 1])),
                (bson!({"$in": [2.0, "$a"]}), bson!(true)),
                (bson!({"$indexOfArray": ["$a", 3]}), bson!(2)),
                (bson!({"$indexOfArray": ["$a", 3, 0, 2]}), bson!(-1)),
            ],
        );
        check::missing(
            &doc! {"a": [1]},
            &[
                bson!({"$arrayElemAt": ["$a", 5]}),
                bson!({"$arrayElemAt": ["$a", -5]}),
                bson!({"$first": [[]]}),
            ],
        );
        check::errors(&[
            (bson!({"$arrayElemAt": [1, 0]}), 28689),
            (bson!({"$arrayElemAt": [[1], "a"]}), 28690),
            (bson!({"$arrayElemAt": [[1], 0.5]}), 28691),
            (bson!({"$first": 1}), 28689),
            (bson!({"$slice": [[1], 1, 0]}), 28729),
            (bson!({"$size": "$none"}), 17124),
            (bson!({"$concatArrays": [1]}), 28664),
            (bson!({"$in": [1, 1]}), 40081),
            (bson!({"$indexOfArray": [[1], 1, -1]}), 9711601),
        ]);
    }
}
