//! MongoDB's whole list of accumulators.

use super::many::Many;
use super::percentile::{self, Percentile};
use super::rule::{Accumulator, Rule};
use super::top;
use crate::error::{Error, Result};
use crate::query::expr::args::n_and_input;
use crate::query::{Expr, Scope};
use crate::value::{Value, ValueRef};

pub struct Row {
    pub name: &'static str,
    pub status: Status,
}

#[derive(Clone, Copy)]
pub enum Status {
    Ready(fn(&'static str, ValueRef<'_>, &Scope) -> Result<Accumulator>),
    /// Known, and refused by name.
    Planned,
}

macro_rules! rows {
    ($($name:literal $parse:expr,)*) => {
        /// Sorted by name.
        pub static ACCUMULATORS: &[Row] = &[$(Row { name: $name, status: $parse },)*];
    };
}

rows! {
    "$accumulator" Status::Planned,
    "$addToSet" Status::Ready(|_, value, scope| plain(Rule::AddToSet, value, scope)),
    "$avg" Status::Ready(|_, value, scope| plain(Rule::Average, value, scope)),
    "$bottom" Status::Ready(top::parse),
    "$bottomN" Status::Ready(top::parse),
    "$concatArrays" Status::Ready(|_, value, scope| plain(Rule::ConcatArrays, value, scope)),
    "$count" Status::Ready(count),
    "$first" Status::Ready(|_, value, scope| plain(Rule::First, value, scope)),
    "$firstN" Status::Ready(|_, value, scope| several(Rule::FirstN, value, scope)),
    "$last" Status::Ready(|_, value, scope| plain(Rule::Last, value, scope)),
    "$lastN" Status::Ready(|_, value, scope| several(Rule::LastN, value, scope)),
    "$max" Status::Ready(|_, value, scope| plain(Rule::Max, value, scope)),
    "$maxN" Status::Ready(|_, value, scope| several(Rule::MaxN, value, scope)),
    "$median" Status::Ready(quantile),
    "$mergeObjects" Status::Ready(|_, value, scope| plain(Rule::Merge, value, scope)),
    "$min" Status::Ready(|_, value, scope| plain(Rule::Min, value, scope)),
    "$minN" Status::Ready(|_, value, scope| several(Rule::MinN, value, scope)),
    "$percentile" Status::Ready(quantile),
    "$push" Status::Ready(|_, value, scope| plain(Rule::Push, value, scope)),
    "$setUnion" Status::Ready(|_, value, scope| plain(Rule::SetUnion, value, scope)),
    "$stdDevPop" Status::Ready(|_, value, scope| plain(Rule::Deviation { sample: false }, value, scope)),
    "$stdDevSamp" Status::Ready(|_, value, scope| plain(Rule::Deviation { sample: true }, value, scope)),
    "$sum" Status::Ready(|_, value, scope| plain(Rule::Sum, value, scope)),
    "$top" Status::Ready(top::parse),
    "$topN" Status::Ready(top::parse),
}

pub fn find(name: &str) -> Option<&'static Row> {
    ACCUMULATORS
        .binary_search_by(|row| row.name.cmp(name))
        .ok()
        .and_then(|at| ACCUMULATORS.get(at))
}

fn plain(rule: Rule, value: ValueRef<'_>, scope: &Scope) -> Result<Accumulator> {
    Ok(Accumulator::new(rule, Expr::parse(value, scope)?))
}

/// `$count: {}` is `$sum: 1`.
fn count(name: &'static str, value: ValueRef<'_>, _: &Scope) -> Result<Accumulator> {
    if !value.as_doc().is_some_and(|doc| doc.is_empty()) {
        return Err(Error::type_mismatch(format!(
            "{name} takes no arguments, i.e. {name}:{{}}"
        )));
    }
    Ok(Accumulator::new(Rule::Sum, Expr::Const(Value::int32(1))))
}

/// `{n, input}`.
fn several(rule: fn(Many) -> Rule, value: ValueRef<'_>, scope: &Scope) -> Result<Accumulator> {
    let doc = value.as_doc().ok_or_else(|| {
        Error::location(
            5787900,
            format!("specification must be an object; found {value}"),
        )
    })?;
    let (n, input) = n_and_input(doc)?;
    let n = Many::parse(n, scope)?;
    Ok(Accumulator::new(rule(n), Expr::parse(input, scope)?))
}

fn quantile(name: &'static str, value: ValueRef<'_>, scope: &Scope) -> Result<Accumulator> {
    let (input, spec): (Expr, Percentile) = percentile::parse(name, value, scope)?;
    Ok(Accumulator::new(Rule::Percentile(spec), input))
}
