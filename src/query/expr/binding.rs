//! `$let`, `$map`, `$filter`, `$reduce`: expressions that define variables for a part of themselves.

use super::args::{ExprArgument, found_unknown, integral_i32, show, unrecognized};
use super::node::{Expr, ExprOp, OperatorFolding, check_depth};
use super::parse::operand;
use super::{Env, LiveValues, fuel};
use crate::args::named_as;
use crate::error::{Error, Result};
use crate::query::Survey;
use crate::query::scope::check_definable;
use crate::value::{ArrayBuilder, Doc, Val, Value, ValueRef, check_computed, is_true};

#[derive(Debug)]
struct Let {
    first: usize,
    values: Vec<Expr>,
    body: Expr,
}

#[derive(Debug)]
struct Map {
    slot: usize,
    input: Expr,
    body: Expr,
    /// The cost of one pass, as [`pass`] computes it.
    pass: u64,
}

#[derive(Debug)]
struct FilterArray {
    slot: usize,
    input: Expr,
    test: Expr,
    limit: Option<Expr>,
    pass: u64,
}

/// `$reduce`. `$$this` and `$$value` take two slots, in this order.
#[derive(Debug)]
struct Reduce {
    first: usize,
    input: Expr,
    initial: Expr,
    body: Expr,
    pass: u64,
}

pub fn let_(arg: ExprArgument<'_>) -> Result<Expr> {
    let scope = arg.scope;
    let [vars, body] = arg.named(
        ["vars", "in"],
        unrecognized("parameter", "$let", [16874, 16875], |field| match field {
            "vars" => 16876,
            _ => 16877,
        }),
    )?;
    let (vars, body) = (vars.required()?, body.required()?);
    let vars = vars
        .as_doc()
        .or(vars.as_array())
        .ok_or_else(|| Error::location(10065, "invalid parameter: expected an object (vars)"))?;
    let mut names = Vec::new();
    let mut values = Vec::new();
    for elem in vars {
        check_definable(elem.name())?;
        names.push(elem.name());
        // A variable cannot use the other variables of the same `$let`, so the outer scope applies.
        values.push(operand(elem.value, scope)?);
    }
    let body = operand(body, &scope.with(names))?;
    Ok(Expr::op(Let {
        first: scope.len(),
        values,
        body,
    }))
}

/// Returns the name that `as` gives, or `this`. It must be a string and a name that may be defined.
fn variable(given: Option<ValueRef<'_>>) -> Result<String> {
    let Some(value) = given else {
        return Ok("this".to_owned());
    };
    let name = value.as_str().unwrap_or_default();
    check_definable(name)?;
    Ok(name.to_owned())
}

pub fn map(arg: ExprArgument<'_>) -> Result<Expr> {
    let [input, name, body] = arg.named(
        ["input", "as", "in"],
        unrecognized("parameter", "$map", [16878, 16879], |field| match field {
            "input" => 16880,
            _ => 16882,
        }),
    )?;
    let (input, body) = (input.required()?, body.required()?);
    let input = arg.operand(input)?;
    let name = variable(name.value())?;
    let body = operand(body, &arg.scope.with([name.as_str()]))?;
    Ok(Expr::op(Map {
        slot: arg.scope.len(),
        input,
        pass: pass(&body),
        body,
    }))
}

pub fn filter(arg: ExprArgument<'_>) -> Result<Expr> {
    let [input, name, test, limit] = arg.named(
        ["input", "as", "cond", "limit"],
        unrecognized(
            "parameter",
            "$filter",
            [28646, 28647],
            |field| match field {
                "input" => 28648,
                _ => 28650,
            },
        ),
    )?;
    let (input, test) = (input.required()?, test.required()?);
    let input = arg.operand(input)?;
    let name = variable(name.value())?;
    let test = operand(test, &arg.scope.with([name.as_str()]))?;
    Ok(Expr::op(FilterArray {
        slot: arg.scope.len(),
        input,
        limit: arg.optional(limit.value())?,
        pass: pass(&test),
        test,
    }))
}

pub fn reduce(arg: ExprArgument<'_>) -> Result<Expr> {
    let inner = arg.scope.with(["this", "value"]);
    let [input, initial, body] = named_as(
        arg.value,
        ["input", "initialValue", "in"],
        found_unknown("$reduce", [40075, 40076], |field| match field {
            "input" => 40077,
            "initialValue" => 40078,
            _ => 40079,
        }),
        |name, value| match name {
            "in" => operand(value, &inner),
            _ => arg.operand(value),
        },
    )?;
    let (input, initial) = (input.required()?, initial.required()?);
    let body = body.required()?;
    Ok(Expr::op(Reduce {
        first: arg.scope.len(),
        input,
        initial,
        pass: pass(&body),
        body,
    }))
}

/// Returns the cost of one pass of a loop, without the values it builds and the loops inside it: one unit, and more for a
/// long body.
fn pass(body: &Expr) -> u64 {
    const PARTS_PER_UNIT: u64 = 16;
    /// The limit of the count. Without it, the body of an inner loop would be counted again at every level.
    const COUNTED: u64 = 1 << 16;
    fn count(expr: &Expr, parts: &mut u64) {
        *parts += 1;
        expr.each(&mut |inner| {
            if *parts < COUNTED {
                count(inner, parts);
            }
        });
    }
    let mut parts = 0;
    count(body, &mut parts);
    1 + parts / PARTS_PER_UNIT
}

/// Returns the elements of the input. `None` means null; a value that is not an array is an error.
fn elements<'v>(input: &'v Val<'_>, refuse: impl Fn(&str) -> Error) -> Result<Option<Doc<'v>>> {
    let value = input.as_ref();
    if value.is_nullish() {
        return Ok(None);
    }
    match value.as_array() {
        Some(array) => Ok(Some(array)),
        None => Err(refuse(value.ty().alias())),
    }
}

/// Checks the depth of a value that a variable is bound to. Nested expressions are no deeper than the client wrote them,
/// but each variable stands for another such expression.
pub fn shallow(value: Val<'_>) -> Result<Val<'_>> {
    if let Val::Own(value) = &value {
        check_depth(value.as_ref())?;
    }
    Ok(value)
}

// === impl Let ===

impl ExprOp for Let {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        let mut values = LiveValues::default();
        for expr in &self.values {
            values.push(shallow(expr.eval_in(env)?)?)?;
        }
        let frame = env.frame(self.first, &values);
        // The value may borrow from the frame, which ends here, so it is copied.
        let value = self.body.eval_in(env.within(&frame))?;
        Ok(Val::Own(value.into_value()))
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        self.values.iter().for_each(&mut *visit);
        visit(&self.body);
    }
}

// === impl Map ===

impl ExprOp for Map {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        let input = self.input.eval_in(env)?;
        let Some(array) = elements(&input, |ty| {
            Error::location(16883, format!("input to $map must be an array not {ty}"))
        })?
        else {
            return Ok(Val::NULL);
        };
        let mut bytes = Vec::new();
        let mut out = ArrayBuilder::begin(&mut bytes);
        for elem in array {
            fuel::spend(self.pass)?;
            let this = [Val::Ref(elem.value)];
            let frame = env.frame(self.slot, &this);
            out.push(shallow(self.body.eval_in(env.within(&frame))?)?.as_ref());
            check_computed(out.len())?;
        }
        out.end();
        Ok(Val::Own(Value::array(bytes)))
    }

    fn optimised(&self) -> OperatorFolding {
        OperatorFolding::Parts
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(&self.input);
        visit(&self.body);
    }

    fn survey(&self, survey: &mut Survey<'_>) {
        survey.slow();
    }
}

// === impl FilterArray ===

impl FilterArray {
    fn limit<'a>(&'a self, env: Env<'a>) -> Result<usize> {
        let Some(expr) = &self.limit else {
            return Ok(usize::MAX);
        };
        let value = expr.eval_in(env)?;
        let value = value.as_ref();
        if value.is_nullish() {
            return Ok(usize::MAX);
        }
        let limit = integral_i32(value).ok_or_else(|| {
            Error::location(
                327391,
                format!(
                    "$filter: limit must be represented as a 32-bit integral value: {}",
                    show(value)
                ),
            )
        })?;
        match usize::try_from(limit) {
            Ok(limit) if limit > 0 => Ok(limit),
            _ => Err(Error::location(
                327392,
                format!("$filter: limit must be greater than 0: {limit}"),
            )),
        }
    }
}

impl ExprOp for FilterArray {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        let input = self.input.eval_in(env)?;
        let Some(array) = elements(&input, |ty| {
            Error::location(28651, format!("input to $filter must be an array not {ty}"))
        })?
        else {
            return Ok(Val::NULL);
        };
        // MongoDB does not look at the limit if there is nothing to limit.
        if array.is_empty() {
            return Ok(input);
        }
        let limit = self.limit(env)?;
        let mut bytes = Vec::new();
        let mut out = ArrayBuilder::begin(&mut bytes);
        for elem in array {
            fuel::spend(self.pass)?;
            let this = [Val::Ref(elem.value)];
            let frame = env.frame(self.slot, &this);
            if is_true(self.test.eval_in(env.within(&frame))?.as_ref()) {
                out.push(elem.value);
                if out.count() >= limit {
                    break;
                }
            }
        }
        out.end();
        Ok(Val::Own(Value::array(bytes)))
    }

    fn optimised(&self) -> OperatorFolding {
        OperatorFolding::Parts
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(&self.input);
        visit(&self.test);
        self.limit.iter().for_each(visit);
    }

    fn survey(&self, survey: &mut Survey<'_>) {
        survey.slow();
    }
}

// === impl Reduce ===

impl ExprOp for Reduce {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        let input = self.input.eval_in(env)?;
        let Some(array) = elements(&input, |_| {
            Error::location(
                40080,
                format!(
                    "$reduce requires that 'input' be an array, found: {}",
                    show(input.as_ref())
                ),
            )
        })?
        else {
            return Ok(Val::NULL);
        };
        let mut value = self.initial.eval_in(env)?.into_value();
        for elem in array {
            let next = {
                let both = [Val::Ref(elem.value), Val::Ref(value.as_ref())];
                let frame = env.frame(self.first, &both);
                self.body.eval_in(env.within(&frame))?.into_value()
            };
            // Only this loop can nest a value deeper with each pass.
            check_depth(next.as_ref())?;
            fuel::spend(self.pass)?;
            fuel::spend_bytes(next.as_ref().data().len())?;
            value = next;
        }
        Ok(Val::Own(value))
    }

    fn optimised(&self) -> OperatorFolding {
        OperatorFolding::Parts
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(&self.input);
        visit(&self.initial);
        visit(&self.body);
    }

    fn survey(&self, survey: &mut Survey<'_>) {
        survey.slow();
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Bson, bson, doc};

    #[test]
    fn names_and_values() {
        check::values_in(
            &doc! {"a": [1, 2, 3], "b": 10},
            &[
                (
                    bson!({"$let": {"vars": {"p": "$b", "q": 2}, "in": ["$$p", "$$q", "$$x"]}}),
                    bson!([10, 2, 42]),
                ),
                // Inner names hide outer ones, including CURRENT.
                (
                    bson!({"$let": {"vars": {"p": 1}, "in": {"$let": {"vars": {"p": 2}, "in": "$$p"}}}}),
                    bson!(2),
                ),
                (
                    bson!({"$let": {"vars": {"CURRENT": {"b": 7}}, "in": "$b"}}),
                    bson!(7),
                ),
                (
                    bson!({"$map": {"input": "$a", "in": ["$$this", "$b"]}}),
                    bson!([[1, 10], [2, 10], [3, 10]]),
                ),
                (
                    bson!({"$map": {"input": "$a", "as": "n", "in": "$none"}}),
                    bson!([Bson::Null, Bson::Null, Bson::Null]),
                ),
                (bson!({"$map": {"input": "$none", "in": 1}}), Bson::Null),
                (
                    bson!({"$filter": {"input": "$a", "cond": {"$gt": ["$$this", 1]}}}),
                    bson!([2, 3]),
                ),
                (
                    bson!({"$filter": {"input": "$a", "as": "n", "cond": {"$gt": ["$$n", 1]}, "limit": 1}}),
                    bson!([2]),
                ),
                (
                    bson!({"$reduce": {"input": "$a", "initialValue": [], "in": ["$$this", "$$value"]}}),
                    bson!([3, [2, [1, []]]]),
                ),
                (
                    bson!({"$map": {"input": "$a", "as": "p", "in": {"$map": {"input": "$a", "as": "q", "in": ["$$p", "$$q"]}}}}),
                    bson!([
                        [[1, 1], [1, 2], [1, 3]],
                        [[2, 1], [2, 2], [2, 3]],
                        [[3, 1], [3, 2], [3, 3]]
                    ]),
                ),
            ],
        );
    }

    #[test]
    fn refusals() {
        check::errors(&[
            (bson!({"$let": 1}), 16874),
            (bson!({"$let": {"x": 1}}), 16875),
            (bson!({"$let": {"in": 1}}), 16876),
            (bson!({"$let": {"vars": {}}}), 16877),
            (bson!({"$let": {"vars": {"A": 1}, "in": 1}}), 9),
            (bson!({"$map": 1}), 16878),
            (bson!({"$map": {"input": 1, "in": 1}}), 16883),
            (
                bson!({"$filter": {"input": [1], "cond": 1, "limit": 0}}),
                327392,
            ),
            (
                bson!({"$filter": {"input": [1], "cond": 1, "limit": 1.5}}),
                327391,
            ),
            (
                bson!({"$reduce": {"input": "x", "initialValue": 1, "in": 1}}),
                40080,
            ),
        ]);
        // A value may not become deeper than a document may be.
        let deep = bson!({"$reduce": {
            "input": {"$range": [0, 300]}, "initialValue": {}, "in": {"a": "$$value"}
        }});
        check::errors(&[(deep, 15)]);
    }
}
