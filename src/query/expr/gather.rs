//! Accumulators as expressions: `$sum`, `$avg`, `$min`, `$max`, `$stdDevPop`, `$stdDevSamp`, `$median`, `$percentile`.
//!
//! A single argument that is an array stands for its elements. Among several arguments, an array is an ordinary value.

use super::Env;
use super::args::ExprArgument;
use super::arithmetic::num_val;
use super::array::items;
use super::node::{Expr, ExprCall, ExprOp, OperatorFolding};
use super::total::Total;
use crate::error::Result;
use crate::query::accumulator::{self, Deviation, Percentile};
use crate::value::{Val, Value, ValueRef};

#[derive(Debug)]
struct Quantile {
    input: Expr,
    spec: Percentile,
}

fn each<'a>(call: &'a ExprCall, env: Env<'a>, mut visit: impl FnMut(ValueRef<'_>)) -> Result<()> {
    if let [only] = &*call.args {
        let value = only.eval_in(env)?;
        match value.as_ref().as_array() {
            Some(array) => items(array).for_each(visit),
            None => visit(value.as_ref()),
        }
        return Ok(());
    }
    for arg in &call.args {
        visit(arg.eval_in(env)?.as_ref());
    }
    Ok(())
}

pub fn sum<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let mut total = Total::default();
    each(call, env, |value| {
        if let Some(num) = value.as_num() {
            total.add(num);
        }
    })?;
    num_val(total.to_num())
}

pub fn avg<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let mut total = Total::default();
    let mut count = 0;
    each(call, env, |value| {
        if let Some(num) = value.as_num() {
            total.add(num);
            count += 1;
        }
    })?;
    Ok(Val::Own(accumulator::average(total, count)))
}

fn extreme<'a>(call: &'a ExprCall, env: Env<'a>, greatest: bool) -> Result<Val<'a>> {
    let mut best: Option<Value> = None;
    each(call, env, |value| {
        accumulator::keep(&mut best, value, greatest);
    })?;
    Ok(best.map_or(Val::NULL, Val::Own))
}

pub fn min<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    extreme(call, env, false)
}

pub fn max<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    extreme(call, env, true)
}

fn deviation<'a>(call: &'a ExprCall, env: Env<'a>, sample: bool) -> Result<Val<'a>> {
    let mut deviation = Deviation::default();
    each(call, env, |value| {
        if let Some(num) = value.as_num() {
            deviation.add(num.to_f64());
        }
    })?;
    Ok(Val::Own(deviation.finish(sample)))
}

pub fn std_dev_pop<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    deviation(call, env, false)
}

pub fn std_dev_samp<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    deviation(call, env, true)
}

pub fn median(arg: ExprArgument<'_>) -> Result<Expr> {
    let (input, spec) = Percentile::median(arg)?;
    Ok(Expr::op(Quantile { input, spec }))
}

pub fn percentile(arg: ExprArgument<'_>) -> Result<Expr> {
    let (input, spec) = Percentile::parse(arg)?;
    Ok(Expr::op(Quantile { input, spec }))
}

// === impl Quantile ===

impl ExprOp for Quantile {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        let input = self.input.eval_in(env)?;
        let mut numbers = Vec::new();
        let mut add = |value: ValueRef<'_>| {
            if let Some(num) = value.as_num()
                && !num.is_nan()
            {
                numbers.push(num.to_f64());
            }
        };
        match input.as_ref().as_array() {
            Some(array) => items(array).for_each(add),
            None => add(input.as_ref()),
        }
        Ok(Val::Own(self.spec.finish(&mut numbers)))
    }

    fn optimised(&self) -> OperatorFolding {
        OperatorFolding::Nothing
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(&self.input);
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Bson, bson, doc};

    #[test]
    fn values() {
        check::values_in(
            &doc! {"a": [1, 2, "x", Bson::Null]},
            &[
                (bson!({"$sum": "$a"}), bson!(3)),
                (bson!({"$sum": ["$a", 5]}), bson!(5)),
                (bson!({"$sum": []}), bson!(0)),
                (bson!({"$avg": "$a"}), bson!(1.5)),
                (bson!({"$avg": "$none"}), Bson::Null),
                (bson!({"$min": "$a"}), bson!(1)),
                (bson!({"$max": "$a"}), bson!("x")),
                (bson!({"$max": [1, [0]]}), bson!([0])),
                (bson!({"$stdDevPop": [1, 3]}), bson!(1.0)),
                (bson!({"$stdDevSamp": [1]}), Bson::Null),
                (
                    bson!({"$percentile": {"input": "$a", "p": [0.5], "method": "approximate"}}),
                    bson!([1.0]),
                ),
            ],
        );
    }
}
