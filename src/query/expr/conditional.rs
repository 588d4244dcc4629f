//! `$cond`, `$ifNull`, `$switch`: only the chosen part is evaluated.

use super::args::{ExprArgument, found_unknown, unrecognized};
use super::node::{Expr, ExprCall, ExprOp};
use super::{Arity, Env};
use crate::args::{ArgumentError, named, named_as};
use crate::error::{Error, Result};
use crate::query::Scope;
use crate::value::{Val, ValueRef, is_true};

#[derive(Debug)]
struct Cond {
    test: Expr,
    then: Expr,
    otherwise: Expr,
}

#[derive(Debug)]
struct Switch {
    /// The condition and the result of each branch.
    branches: Vec<(Expr, Expr)>,
    default: Option<Expr>,
}

/// Parses `[if, then, else]` or `{if, then, else}`.
pub fn cond(arg: ExprArgument<'_>) -> Result<Expr> {
    let parts = if arg.value.as_doc().is_some() {
        let [test, then, otherwise] = arg.operands(
            ["if", "then", "else"],
            // A value that is not an object is the list of arguments, so the first code is never used.
            unrecognized("parameter", "$cond", [17083, 17083], |field| match field {
                "if" => 17080,
                "then" => 17081,
                _ => 17082,
            }),
        )?;
        [test.required()?, then.required()?, otherwise.required()?]
    } else {
        let args = arg.list()?;
        Arity::Exactly(3).check(arg.name, args.len())?;
        args.try_into().expect("three arguments were counted")
    };
    let [test, then, otherwise] = parts;
    if let Some(value) = test.as_const()
        && !arg.scope.keeps_failures()
    {
        let taken = is_true(value);
        // MongoDB optimises both results before it chooses one, so a constant that fails is reported in either.
        return Ok(match then.failure().or_else(|| otherwise.failure()) {
            Some(error) => Expr::Fails(error),
            None if taken => then,
            None => otherwise,
        });
    }
    Ok(Expr::op(Cond {
        test,
        then,
        otherwise,
    }))
}

pub fn if_null(arg: ExprArgument<'_>) -> Result<Expr> {
    let args = arg.list()?;
    if args.len() < 2 {
        return Err(Error::location(
            1257300,
            format!("$ifNull needs at least two arguments, had: {}", args.len()),
        ));
    }
    let mut kept = match arg.scope.keeps_failures() {
        true => args,
        false => without_idle(args),
    };
    match kept.len() {
        1 => Ok(kept.remove(0)),
        _ => Ok(Expr::call(arg.name, kept, first_not_null)),
    }
}

/// Removes arguments of `$ifNull` that never decide, as MongoDB's optimiser does: null constants before the last argument, and
/// what follows another constant. A constant that fails stays, because it is reported.
fn without_idle(args: Vec<Expr>) -> Vec<Expr> {
    if args.iter().any(|arg| arg.failure().is_some()) {
        return args;
    }
    let last = args.len() - 1;
    let mut kept = Vec::new();
    for (at, arg) in args.into_iter().enumerate() {
        let is_null = arg.as_const().map(|value| value.is_nullish());
        if is_null != Some(true) || at == last {
            kept.push(arg);
        }
        if is_null == Some(false) {
            break;
        }
    }
    kept
}

/// Returns the first argument that is not null. If all are null, returns the last one, which may be null or missing.
fn first_not_null<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let mut last = Val::MISSING;
    for arg in &call.args {
        last = arg.eval_in(env)?;
        if !last.as_ref().is_nullish() {
            break;
        }
    }
    Ok(last)
}

pub fn switch(arg: ExprArgument<'_>) -> Result<Expr> {
    let mut branches = Vec::new();
    let [_, default] = named_as(
        arg.value,
        ["branches", "default"],
        found_unknown("$switch", [40060, 40067], |_| 40068),
        |name, value| {
            if name == "default" {
                return arg.operand(value).map(Some);
            }
            let list = value.as_array().ok_or_else(|| {
                let words = "$switch expected an array for 'branches', found: {}";
                Error::found(40061, words, value.ty().alias())
            })?;
            let parsed = list.iter().map(|elem| branch(elem.value, arg));
            branches = parsed.collect::<Result<Vec<_>>>()?;
            Ok(None)
        },
    )?;
    let default = default.value().flatten();
    if branches.is_empty() {
        return Err(Error::location(
            40068,
            "$switch requires at least one branch",
        ));
    }
    Ok(prune(branches, default, arg.scope))
}

/// Removes branches that can never be taken, as MongoDB's optimiser does. Errors in them are ignored, but an error in the default
/// is reported.
fn prune(branches: Vec<(Expr, Expr)>, mut default: Option<Expr>, scope: &Scope) -> Expr {
    if scope.keeps_failures() {
        return Expr::op(Switch { branches, default });
    }
    if let Some(error) = default.as_ref().and_then(Expr::failure) {
        return Expr::Fails(error);
    }
    let mut left = Vec::with_capacity(branches.len());
    for (case, then) in branches {
        match case.as_const() {
            Some(value) if is_true(value) => {
                default = Some(then);
                break;
            }
            Some(_) => {}
            None => left.push((case, then)),
        }
    }
    if left.is_empty() {
        return default.unwrap_or_else(|| {
            Expr::Fails(Error::location(
                40069,
                "One cannot execute a switch statement where all the cases evaluate to false without a default.",
            ))
        });
    }
    Expr::op(Switch {
        branches: left,
        default,
    })
}

fn branch(value: ValueRef<'_>, arg: ExprArgument<'_>) -> Result<(Expr, Expr)> {
    let [case, then] = named(value, ["case", "then"], |wrong| match wrong {
        ArgumentError::NotAnObject(ty) => {
            let words = format!("$switch expected each branch to be an object, found: {ty}");
            (40062, words)
        }
        ArgumentError::Unknown(field) => {
            let words = format!("$switch found an unknown argument to a branch: {field}");
            (40063, words)
        }
        ArgumentError::Missing("case") => {
            let words = "$switch requires each branch have a 'case' expression";
            (40064, words.to_owned())
        }
        ArgumentError::Missing(field) => {
            let words = format!("$switch requires each branch have a '{field}' expression.");
            (40065, words)
        }
    })?;
    let (case, then) = (case.required()?, then.required()?);
    Ok((arg.operand(case)?, arg.operand(then)?))
}

// === impl Cond ===

impl ExprOp for Cond {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        if is_true(self.test.eval_in(env)?.as_ref()) {
            self.then.eval_in(env)
        } else {
            self.otherwise.eval_in(env)
        }
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(&self.test);
        visit(&self.then);
        visit(&self.otherwise);
    }
}

// === impl Switch ===

impl ExprOp for Switch {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        for (case, then) in &self.branches {
            if is_true(case.eval_in(env)?.as_ref()) {
                return then.eval_in(env);
            }
        }
        match &self.default {
            Some(default) => default.eval_in(env),
            None => Err(Error::location(
                40066,
                "$switch could not find a matching branch for an input, and no default was specified.",
            )),
        }
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        for (case, then) in &self.branches {
            visit(case);
            visit(then);
        }
        self.default.iter().for_each(visit);
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Bson, bson, doc};

    #[test]
    fn choices() {
        check::values_in(
            &doc! {"a": 1},
            &[
                (bson!({"$cond": ["$a", "yes", "no"]}), bson!("yes")),
                (
                    bson!({"$cond": {"if": "$b", "then": 1, "else": 2}}),
                    bson!(2),
                ),
                // A part that is not chosen may contain an error.
                (bson!({"$cond": [false, {"$size": "$a"}, 3]}), bson!(3)),
                (bson!({"$ifNull": ["$b", Bson::Null, "$a"]}), bson!(1)),
                (bson!({"$ifNull": ["$b", Bson::Null]}), Bson::Null),
                (
                    bson!({"$switch": {"branches": [
                        {"case": {"$eq": ["$a", 2]}, "then": "two"},
                        {"case": {"$eq": ["$a", 1]}, "then": "one"},
                    ]}}),
                    bson!("one"),
                ),
                (
                    bson!({"$switch": {"branches": [{"case": "$b", "then": 1}], "default": 5}}),
                    bson!(5),
                ),
            ],
        );
        check::errors(&[
            (bson!({"$cond": [1, 2]}), 16020),
            (bson!({"$cond": {"then": 1, "else": 1}}), 17080),
            (bson!({"$cond": {"if": 1, "else": 1}}), 17081),
            (bson!({"$cond": {"if": 1, "then": 1}}), 17082),
            (bson!({"$cond": {"x": 1}}), 17083),
            (bson!({"$ifNull": [1]}), 1257300),
            (bson!({"$switch": 1}), 40060),
            (bson!({"$switch": {"branches": 1}}), 40061),
            (bson!({"$switch": {"branches": [1]}}), 40062),
            (bson!({"$switch": {"branches": [{"x": 1}]}}), 40063),
            (bson!({"$switch": {"branches": [{"then": 1}]}}), 40064),
            (bson!({"$switch": {"branches": [{"case": 1}]}}), 40065),
            (bson!({"$switch": {"x": 1}}), 40067),
            (bson!({"$switch": {}}), 40068),
            (
                bson!({"$switch": {"branches": [{"case": 0, "then": 1}]}}),
                40069,
            ),
            (
                bson!({"$switch": {"branches": [{"case": "$a", "then": 1}]}}),
                40066,
            ),
            // A constant part that fails is an error, although it would not be evaluated.
            (bson!({"$ifNull": [1, {"$divide": [1, 0]}]}), 2),
        ]);
    }
}
