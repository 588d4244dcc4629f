//! Arrays as sets, where order and duplicates do not matter.

use super::args::{ExprArgument, bool_val};
use super::array::{build, items};
use super::node::{Expr, ExprCall};
use super::{Env, LiveValues, fuel};
use crate::error::{Error, Result};
use crate::value::{Doc, Val, ValueRef, check_computed, compare, is_true};

/// The number of further elements after which a union removes duplicates.
const MANY: usize = 100_000;
/// The least bytes of an array element: its type, the name "0" and the end of the name.
const LEAST: usize = 3;

/// Returns the elements sorted and without duplicates.
fn distinct(value: ValueRef<'_>) -> Option<Vec<ValueRef<'_>>> {
    let mut all: Vec<_> = items(value.as_array()?).collect();
    unite(&mut all);
    Some(all)
}

fn unite(all: &mut Vec<ValueRef<'_>>) {
    all.sort_by(|a, b| compare(*a, *b));
    all.dedup_by(|a, b| compare(*a, *b).is_eq());
}

fn has(sorted: &[ValueRef<'_>], item: ValueRef<'_>) -> bool {
    sorted
        .binary_search_by(|probe| compare(*probe, item))
        .is_ok()
}

fn refuse(code: i32, message: &str, value: ValueRef<'_>) -> Error {
    Error::location(code, format!("{message}{}", value.ty().alias()))
}

fn no_set(code: i32, at: usize, value: ValueRef<'_>) -> Error {
    let nth = at + 1;
    let words =
        format!("All operands of $setEquals must be arrays. {nth}-th argument is of type: ");
    refuse(code, &words, value)
}

pub fn set_equals(arg: ExprArgument<'_>) -> Result<Expr> {
    let args = arg.list()?;
    if args.len() < 2 {
        return Err(Error::location(
            17045,
            format!(
                "$setEquals needs at least two arguments had: {}",
                args.len()
            ),
        ));
    }
    // MongoDB's optimiser looks at the constants from left to right.
    let wrong = args
        .iter()
        .enumerate()
        .take_while(|(_, arg)| arg.failure().is_none())
        .find_map(|(at, arg)| {
            let value = arg.as_const()?;
            value
                .as_array()
                .is_none()
                .then(|| no_set(5887502, at, value))
        });
    match wrong {
        Some(error) if !arg.scope.keeps_failures() => Ok(Expr::Fails(error)),
        _ => Ok(Expr::call(arg.name, args, same_set)),
    }
}

fn same_set<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let mut first: Option<Val<'_>> = None;
    for (at, arg) in call.args.iter().enumerate() {
        let value = arg.eval_in(env)?;
        let other = distinct(value.as_ref()).ok_or_else(|| no_set(17044, at, value.as_ref()))?;
        match &first {
            None => first = Some(value),
            Some(first) => {
                let set = distinct(first.as_ref()).unwrap_or_default();
                let is_same = set.len() == other.len()
                    && set.iter().zip(&other).all(|(a, b)| compare(*a, *b).is_eq());
                // The other arguments do not matter any more, not even if they are wrong.
                if !is_same {
                    return bool_val(false);
                }
            }
        }
    }
    bool_val(true)
}

/// Evaluates the arguments, which must be arrays, up to the first null.
fn arrays<'a>(
    call: &'a ExprCall,
    env: Env<'a>,
    (code, name): (i32, &str),
) -> Result<Option<LiveValues<'a>>> {
    LiveValues::eval_until_null(&call.args, env, |value| {
        if value.as_array().is_some() {
            return Ok(());
        }
        let words = format!("All operands of {name} must be arrays. One argument is of type: ");
        Err(refuse(code, &words, value))
    })
}

pub fn set_intersection<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let Some(values) = arrays(call, env, (17047, "$setIntersection"))? else {
        return Ok(Val::NULL);
    };
    let mut common: Option<Vec<ValueRef<'_>>> = None;
    for value in values.iter() {
        let set = distinct(value.as_ref()).unwrap_or_default();
        common = Some(match common {
            None => set,
            Some(before) => before.into_iter().filter(|item| has(&set, *item)).collect(),
        });
    }
    build(common.unwrap_or_default())
}

pub fn set_union<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let Some(values) = arrays(call, env, (17043, "$setUnion"))? else {
        return Ok(Val::NULL);
    };
    let mut all = Vec::new();
    // The number of elements in `all` that are known to be distinct.
    let mut distinct = 0;
    for value in values.iter() {
        let array = value.as_ref().as_array().unwrap_or(Doc::EMPTY);
        fuel::spend(array.count() as u64)?;
        all.extend(items(array));
        // Duplicates are removed from time to time, so that repeated elements do not take more memory.
        if all.len() > 2 * distinct + MANY {
            unite(&mut all);
            distinct = all.len();
            check_computed(distinct * LEAST)?;
        }
    }
    unite(&mut all);
    build(all)
}

/// Returns the elements of the first array that are not in the second, in the order of the first.
pub fn set_difference<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let left = call.arg(0, env)?;
    let right = call.arg(1, env)?;
    let (left, right) = (left.as_ref(), right.as_ref());
    if left.is_nullish() || right.is_nullish() {
        return Ok(Val::NULL);
    }
    let from = left.as_array().ok_or_else(|| {
        refuse(
            17048,
            "both operands of $setDifference must be arrays. First argument is of type: ",
            left,
        )
    })?;
    let without = distinct(right).ok_or_else(|| {
        refuse(
            17049,
            "both operands of $setDifference must be arrays. Second argument is of type: ",
            right,
        )
    })?;
    let mut kept: Vec<_> = items(from)
        .filter(|item| !has(&without, *item))
        .enumerate()
        .collect();
    fuel::spend(kept.len() as u64)?;
    // Keeps the first of each equal group, then restores the original order.
    kept.sort_by(|(_, a), (_, b)| compare(*a, *b));
    kept.dedup_by(|(_, a), (_, b)| compare(*a, *b).is_eq());
    kept.sort_by_key(|(place, _)| *place);
    build(kept.into_iter().map(|(_, item)| item))
}

/// Returns the error of MongoDB's optimiser for a `$setIsSubset` whose second operand is a constant of another type. It comes
/// before any document is read.
pub fn constant_is_no_array(call: &ExprCall) -> Option<Error> {
    let whole = call.args.get(1)?.as_const()?;
    let words = "both operands of $setIsSubset must be arrays. Second argument is of type: ";
    let is_array = whole.as_array().is_some();
    (!is_array).then(|| refuse(17311, words, whole))
}

pub fn set_is_subset<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let left = call.arg(0, env)?;
    let right = call.arg(1, env)?;
    let (left, right) = (left.as_ref(), right.as_ref());
    let part = left.as_array().ok_or_else(|| {
        refuse(
            17046,
            "both operands of $setIsSubset must be arrays. First argument is of type: ",
            left,
        )
    })?;
    let whole = distinct(right).ok_or_else(|| {
        refuse(
            17042,
            "both operands of $setIsSubset must be arrays. Second argument is of type: ",
            right,
        )
    })?;
    bool_val(items(part).all(|item| has(&whole, item)))
}

pub fn any_element_true<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let value = call.arg(0, env)?;
    let array = value.as_ref().as_array().ok_or_else(|| {
        refuse(
            17041,
            "$anyElementTrue's argument must be an array, but is ",
            value.as_ref(),
        )
    })?;
    bool_val(items(array).any(is_true))
}

pub fn all_elements_true<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let value = call.arg(0, env)?;
    let array = value.as_ref().as_array().ok_or_else(|| {
        refuse(
            17040,
            "$allElementsTrue's argument must be an array, but is ",
            value.as_ref(),
        )
    })?;
    bool_val(items(array).all(is_true))
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Bson, bson};

    #[test]
    fn values() {
        check::values(&[
            (bson!({"$setEquals": [[1, 2, 2], [2, 1.0]]}), bson!(true)),
            (bson!({"$setEquals": [[1], [1, 2]]}), bson!(false)),
            (
                bson!({"$setIntersection": [[3, 1, 2], [2, 3, 4]]}),
                bson!([2, 3]),
            ),
            (bson!({"$setUnion": [[3, 1], [2, 3]]}), bson!([1, 2, 3])),
            (bson!({"$setUnion": [[3, 1], Bson::Null]}), Bson::Null),
            (
                bson!({"$setDifference": [[3, 1, 3, 2], [1]]}),
                bson!([3, 2]),
            ),
            (bson!({"$setIsSubset": [[1], [2, 1]]}), bson!(true)),
            (
                bson!({"$anyElementTrue": [[0, Bson::Null, 1]]}),
                bson!(true),
            ),
            (bson!({"$allElementsTrue": [[]]}), bson!(true)),
        ]);
        check::errors(&[
            (bson!({"$setUnion": [1]}), 17043),
            (bson!({"$setDifference": [1, []]}), 17048),
            (bson!({"$setIsSubset": [[], 1]}), 17042),
        ]);
    }
}
