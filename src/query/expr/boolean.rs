//! `$and`, `$or`, `$not`.

use super::Env;
use super::args::{ExprArgument, bool_val};
use super::node::{Eval, Expr, ExprCall};
use crate::error::Result;
use crate::value::{Val, Value, is_true};

/// Parses `$and` or `$or`. A constant that decides the result replaces the whole expression, at any position, as in
/// MongoDB's optimizer.
fn parse(arg: ExprArgument<'_>, decides: bool, eval: Eval) -> Result<Expr> {
    let args = arg.list()?;
    let decided = !arg.scope.keeps_failures()
        && args.iter().any(|arg| {
            arg.as_const()
                .is_some_and(|value| is_true(value) == decides)
        });
    if decided && args.iter().all(|arg| arg.failure().is_none()) {
        return Ok(Expr::Const(Value::boolean(decides)));
    }
    Ok(Expr::call(arg.name, args, eval))
}

pub fn and(arg: ExprArgument<'_>) -> Result<Expr> {
    parse(arg, false, all)
}

pub fn or(arg: ExprArgument<'_>) -> Result<Expr> {
    parse(arg, true, any)
}

/// Returns false at the first false argument. Without arguments the result is true.
fn all<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    for arg in &call.args {
        if !is_true(arg.eval_in(env)?.as_ref()) {
            return bool_val(false);
        }
    }
    bool_val(true)
}

/// Returns true at the first true argument. Without arguments the result is false.
fn any<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    for arg in &call.args {
        if is_true(arg.eval_in(env)?.as_ref()) {
            return bool_val(true);
        }
    }
    bool_val(false)
}

pub fn not<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    bool_val(!is_true(call.arg(0, env)?.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Bson, bson};

    #[test]
    fn truth_tables() {
        check::values(&[
            (bson!({"$and": []}), bson!(true)),
            (bson!({"$and": [1, "", [0]]}), bson!(true)),
            (bson!({"$and": [1, 0]}), bson!(false)),
            (bson!({"$or": []}), bson!(false)),
            (bson!({"$or": [0, "$none", 2]}), bson!(true)),
            (bson!({"$or": [0, Bson::Null]}), bson!(false)),
            (bson!({"$not": [[]]}), bson!(false)),
            (bson!({"$not": ["$none"]}), bson!(true)),
            // Arguments after the deciding one are not evaluated.
            (bson!({"$or": ["$$ROOT", {"$size": "$none"}]}), bson!(true)),
            (bson!({"$or": [{"$size": "$none"}, true]}), bson!(true)),
        ]);
        check::errors(&[(bson!({"$not": [1, 2]}), 16020)]);
    }
}
