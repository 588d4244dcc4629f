//! Arrays in order: `$sortArray`, and the first, last, largest and smallest n elements (`$firstN`, `$lastN`, `$maxN`,
//! `$minN`).

use super::Env;
use super::args::{ExprArgument, found_unknown, integral_i64, n_and_input, show};
use super::array::{build, items};
use super::node::{Expr, ExprOp, OperatorFolding};
use super::parse::operand;
use crate::args::named_as;
use crate::error::{Error, Result};
use crate::query::Survey;
use crate::query::direction::SortDirection;
use crate::query::element_order::ElementOrder;
use crate::value::{Doc, Num, Path, Val, ValueRef, compare};

#[derive(Debug)]
struct SortArray {
    input: Expr,
    order: ElementOrder,
}

#[derive(Debug)]
struct TakeN {
    take: Take,
    n: Expr,
    input: Expr,
}

/// A function that picks n elements of an array.
type Take = fn(usize, Doc<'_>) -> Result<Val<'static>>;

pub fn sort_array(arg: ExprArgument<'_>) -> Result<Expr> {
    let mut order = None;
    let [input, by] = named_as(
        arg.value,
        ["input", "sortBy"],
        found_unknown("$sortArray", [2942500, 2942501], |field| match field {
            "input" => 2942502,
            _ => 2942503,
        }),
        |name, value| match name {
            "input" => arg.operand(value),
            _ => {
                order = Some(parse_order(value)?);
                Ok(Expr::Const(value.to_value()))
            }
        },
    )?;
    let input = input.required()?;
    match order {
        Some(order) => Ok(Expr::op(SortArray { input, order })),
        None => by.required(),
    }
}

fn parse_order(by: ValueRef<'_>) -> Result<ElementOrder> {
    let Some(fields) = by.as_doc() else {
        if !by.ty().is_number() {
            return Err(Error::location(
                2942507,
                "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort embedded fields",
            ));
        }
        let direction = by.as_num().and_then(SortDirection::of_elements);
        return direction.map(ElementOrder::Whole).ok_or_else(|| {
            Error::location(2942506, "The $sort element value must be either 1 or -1")
        });
    };
    if fields.is_empty() {
        return Err(Error::location(
            2942505,
            "BadValue: The sort pattern is empty when it should be a set of fields.",
        ));
    }
    let mut keys = Vec::new();
    for elem in fields {
        let direction = elem.value.as_num().and_then(SortDirection::of_elements);
        let direction = direction.ok_or_else(|| {
            Error::location(
                2942505,
                "The $sortArray sort key ordering must be 1 (for ascending) or -1 (for descending)",
            )
        })?;
        keys.push((Path::parse(elem.name()), direction));
    }
    Ok(ElementOrder::Fields(keys))
}

pub fn first_n(arg: ExprArgument<'_>) -> Result<Expr> {
    take_n(arg, 5787801, |n, array| build(items(array).take(n)))
}

pub fn last_n(arg: ExprArgument<'_>) -> Result<Expr> {
    take_n(arg, 5787801, |n, array| {
        build(items(array).skip(array.count().saturating_sub(n)))
    })
}

pub fn max_n(arg: ExprArgument<'_>) -> Result<Expr> {
    take_n(arg, 5787900, |n, array| build(largest(n, array)))
}

pub fn min_n(arg: ExprArgument<'_>) -> Result<Expr> {
    take_n(arg, 5787900, |n, array| {
        build(in_order(array).into_iter().take(n))
    })
}

fn take_n(arg: ExprArgument<'_>, not_an_object: i32, take: Take) -> Result<Expr> {
    let (n, input) = n_and_input(arg, not_an_object, operand)?;
    Ok(Expr::op(TakeN { take, n, input }))
}

fn not_null(array: Doc<'_>) -> impl Iterator<Item = ValueRef<'_>> {
    items(array).filter(|item| !item.is_nullish())
}

/// Returns the elements that are not null, smallest first.
fn in_order(array: Doc<'_>) -> Vec<ValueRef<'_>> {
    let mut all: Vec<_> = not_null(array).collect();
    all.sort_by(|a, b| compare(*a, *b));
    all
}

/// Returns the largest elements, largest first. Of equal elements the later one comes first.
///
/// Which of equal elements are left out shows, because they may have different types. MongoDB takes the elements one by one.
/// When it has enough, an element must be larger than the smallest of them, and replaces the earliest of those.
fn largest(n: usize, array: Doc<'_>) -> Vec<ValueRef<'_>> {
    let mut all = in_order(array);
    let Some(least) = all.len().checked_sub(n).map(|at| all[at]) else {
        all.reverse();
        return all;
    };
    let mut larger = all.split_off(all.partition_point(|item| compare(*item, least).is_le()));
    let taken = not_null(array).filter(|item| compare(*item, least).is_ge());
    let mut equal: Vec<_> = taken.take(n).collect();
    equal.retain(|item| compare(*item, least).is_eq());
    larger.reverse();
    let missing = n - larger.len();
    larger.extend(equal.into_iter().rev().take(missing));
    larger
}

/// The doubles that have a place among 64-bit integers. NaN is none of them.
const I64_RANGE: std::ops::Range<f64> = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;

/// Checks the `n` of `$firstN` and its relatives: positive and integral.
pub fn check_n(value: ValueRef<'_>) -> Result<usize> {
    if !value.ty().is_number() {
        return Err(Error::location(
            5787902,
            format!(
                "Value for 'n' must be of integral type, but found {}",
                show(value)
            ),
        ));
    }
    if let Some(Num::Double(n)) = value.as_num()
        && !I64_RANGE.contains(&n)
    {
        return Err(Error::location(
            31109,
            format!("Can't coerce out of range value {} to long", show(value)),
        ));
    }
    let n = integral_i64(value).ok_or_else(|| {
        Error::location(
            5787903,
            format!(
                "Value for 'n' must be of integral type, but found {}",
                show(value)
            ),
        )
    })?;
    match usize::try_from(n) {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(Error::location(
            5787908,
            format!("'n' must be greater than 0, found {n}"),
        )),
    }
}

// === impl SortArray ===

impl ExprOp for SortArray {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        let input = self.input.eval_in(env)?;
        let input = input.as_ref();
        if input.is_nullish() {
            return Ok(Val::NULL);
        }
        let array = input.as_array().ok_or_else(|| {
            Error::location(
                2942504,
                format!(
                    "The input argument to $sortArray must be an array, but was of type: {}",
                    input.ty().alias()
                ),
            )
        })?;
        let mut all: Vec<_> = items(array).collect();
        all.sort_by(|a, b| self.order.compare(*a, *b));
        build(all)
    }

    fn optimised(&self) -> OperatorFolding {
        OperatorFolding::Parts
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(&self.input);
    }

    fn survey(&self, survey: &mut Survey<'_>) {
        if let ElementOrder::Fields(fields) = &self.order {
            fields.iter().for_each(|(path, _)| survey.path_below(path));
        }
    }
}

// === impl TakeN ===

impl ExprOp for TakeN {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        let n = self.n.eval_in(env)?;
        let n = check_n(n.as_ref())?;
        let input = self.input.eval_in(env)?;
        let input = input.as_ref();
        let Some(array) = input.as_array() else {
            return Err(Error::location(5788200, "Input must be an array"));
        };
        (self.take)(n, array)
    }

    fn optimised(&self) -> OperatorFolding {
        OperatorFolding::Nothing
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(&self.n);
        visit(&self.input);
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Bson, bson};

    #[test]
    fn values() {
        check::values(&[
            (
                bson!({"$sortArray": {"input": [3, 1, 2], "sortBy": 1}}),
                bson!([1, 2, 3]),
            ),
            (
                bson!({"$sortArray": {"input": [{"a": 1, "b": 1}, {"a": 2}, {"a": 1, "b": 0}], "sortBy": {"a": -1, "b": 1}}}),
                bson!([{"a": 2}, {"a": 1, "b": 0}, {"a": 1, "b": 1}]),
            ),
            (
                bson!({"$firstN": {"n": 2, "input": [5, 6, 7]}}),
                bson!([5, 6]),
            ),
            (
                bson!({"$lastN": {"n": 2, "input": [5, 6, 7]}}),
                bson!([6, 7]),
            ),
            (
                bson!({"$maxN": {"n": 2, "input": [5, Bson::Null, 7, 6]}}),
                bson!([7, 6]),
            ),
            (
                bson!({"$minN": {"n": 9, "input": [5, 7, 6]}}),
                bson!([5, 6, 7]),
            ),
        ]);
        check::errors(&[
            (bson!({"$sortArray": {"input": 1, "sortBy": 1}}), 2942504),
            (bson!({"$firstN": {"n": 0, "input": [1]}}), 5787908),
        ]);
    }
}
