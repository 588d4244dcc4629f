//! MongoDB's whole list of accumulators.

use std::sync::Arc;

use super::collect::{Distinct, Listed, MergeObjects};
use super::deviation::StdDev;
use super::edge::{Edge, EdgeN};
use super::extreme::{Extreme, ExtremeN};
use super::few::{Count, Few, FewRule};
use super::percentile;
use super::rule::Accumulator;
use super::state::{Plain, State};
use super::sum::{Average, Sum};
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
    "$addToSet" Status::Ready(|_, value, scope| plain(|| Distinct::start(None), value, scope)),
    "$avg" Status::Ready(|_, value, scope| plain(|| Box::new(Average::default()), value, scope)),
    "$bottom" Status::Ready(top::parse),
    "$bottomN" Status::Ready(top::parse),
    "$concatArrays" Status::Ready(|_, value, scope| plain(|| Listed::start(Some("$concatArrays")), value, scope)),
    "$count" Status::Ready(count),
    "$first" Status::Ready(|_, value, scope| plain(|| Edge::start(false), value, scope)),
    "$firstN" Status::Ready(|name, value, scope| several(name, |few| EdgeN::start(few, false), value, scope)),
    "$last" Status::Ready(|_, value, scope| plain(|| Edge::start(true), value, scope)),
    "$lastN" Status::Ready(|name, value, scope| several(name, |few| EdgeN::start(few, true), value, scope)),
    "$max" Status::Ready(|_, value, scope| plain(|| Extreme::start(true), value, scope)),
    "$maxN" Status::Ready(|name, value, scope| several(name, |few| ExtremeN::start(few, true), value, scope)),
    "$median" Status::Ready(quantile),
    "$mergeObjects" Status::Ready(|_, value, scope| plain(|| Box::new(MergeObjects::default()), value, scope)),
    "$min" Status::Ready(|_, value, scope| plain(|| Extreme::start(false), value, scope)),
    "$minN" Status::Ready(|name, value, scope| several(name, |few| ExtremeN::start(few, false), value, scope)),
    "$percentile" Status::Ready(quantile),
    "$push" Status::Ready(|_, value, scope| plain(|| Listed::start(None), value, scope)),
    "$setUnion" Status::Ready(|_, value, scope| plain(|| Distinct::start(Some("$setUnion")), value, scope)),
    "$stdDevPop" Status::Ready(|_, value, scope| plain(|| Box::new(StdDev::<false>::default()), value, scope)),
    "$stdDevSamp" Status::Ready(|_, value, scope| plain(|| Box::new(StdDev::<true>::default()), value, scope)),
    "$sum" Status::Ready(|_, value, scope| plain(|| Box::new(Sum::default()), value, scope)),
    "$top" Status::Ready(top::parse),
    "$topN" Status::Ready(top::parse),
}

pub fn find(name: &str) -> Option<&'static Row> {
    ACCUMULATORS
        .binary_search_by(|row| row.name.cmp(name))
        .ok()
        .and_then(|at| ACCUMULATORS.get(at))
}

fn plain(start: fn() -> Box<dyn State>, value: ValueRef<'_>, scope: &Scope) -> Result<Accumulator> {
    let input = Expr::parse(value, scope)?;
    Ok(Accumulator::new(Arc::new(Plain(start)), input))
}

/// `$count: {}` is `$sum: 1`.
fn count(name: &'static str, value: ValueRef<'_>, _: &Scope) -> Result<Accumulator> {
    if !value.as_doc().is_some_and(|doc| doc.is_empty()) {
        return Err(Error::type_mismatch(format!(
            "{name} takes no arguments, i.e. {name}:{{}}"
        )));
    }
    let sum = Plain(|| Box::new(Sum::default()));
    let one = Expr::Const(Value::int32(1));
    Ok(Accumulator::new(Arc::new(sum), one))
}

/// `{n, input}`.
fn several(
    name: &'static str,
    start: fn(Few) -> Box<dyn State>,
    value: ValueRef<'_>,
    scope: &Scope,
) -> Result<Accumulator> {
    let (n, input) = n_and_input(name, value)?;
    let n = Count::parse(n, scope)?;
    let input = Expr::parse(input, scope)?;
    Ok(Accumulator::new(Arc::new(FewRule { n, start }), input))
}

fn quantile(name: &'static str, value: ValueRef<'_>, scope: &Scope) -> Result<Accumulator> {
    let (input, spec) = percentile::parse(name, value, scope)?;
    Ok(Accumulator::new(Arc::new(spec), input))
}
