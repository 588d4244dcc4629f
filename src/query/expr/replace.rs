//! `$replaceOne`, `$replaceAll`: replace a string with another string.

use super::args::{ExprArgument, found_unknown, show};
use super::node::{Expr, ExprOp, OperatorFolding};
use super::text::{check_length, string_val};
use super::{Env, fuel};
use crate::error::{Error, Result};
use crate::value::Val;

#[derive(Debug)]
struct Replace {
    name: &'static str,
    run: ReplaceFn,
    input: Expr,
    find: Expr,
    replacement: Expr,
}

/// A function that replaces a string inside a text with another string.
type ReplaceFn = fn(&str, &str, &str) -> Result<Val<'static>>;

pub fn replace_one(arg: ExprArgument<'_>) -> Result<Expr> {
    parse(arg, |text, find, replacement| {
        string_val(&text.replacen(find, replacement, 1))
    })
}

pub fn replace_all(arg: ExprArgument<'_>) -> Result<Expr> {
    parse(arg, |text, find, replacement| {
        // The length of the result is checked before the result is built.
        let hits = text.matches(find).count();
        check_length(
            (text.len() - hits * find.len()).saturating_add(hits.saturating_mul(replacement.len())),
        )?;
        fuel::spend(hits as u64 / 16)?;
        string_val(&text.replace(find, replacement))
    })
}

fn parse(arg: ExprArgument<'_>, run: ReplaceFn) -> Result<Expr> {
    let [input, find, replacement] = arg.operands(
        ["input", "find", "replacement"],
        found_unknown(arg.name, [51751, 51750], |field| match field {
            "input" => 51749,
            "find" => 51748,
            _ => 51747,
        }),
    )?;
    Ok(Expr::op(Replace {
        name: arg.name,
        run,
        input: input.required()?,
        find: find.required()?,
        replacement: replacement.required()?,
    }))
}

// === impl Replace ===

impl ExprOp for Replace {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        let input = self.input.eval_in(env)?;
        let find = self.find.eval_in(env)?;
        let replacement = self.replacement.eval_in(env)?;
        let parts = [
            (input.as_ref(), 10503904, "input"),
            (find.as_ref(), 10503901, "find"),
            (replacement.as_ref(), 10503902, "replacement"),
        ];
        for (value, code, field) in parts {
            if !value.is_nullish() && value.as_str().is_none() {
                return Err(Error::location(
                    code,
                    format!(
                        "{} requires that '{field}' be a string, found: {}",
                        self.name,
                        show(value)
                    ),
                ));
            }
        }
        let [Some(text), Some(find), Some(replacement)] = parts.map(|(value, ..)| value.as_str())
        else {
            return Ok(Val::NULL);
        };
        (self.run)(text, find, replacement)
    }

    fn optimised(&self) -> OperatorFolding {
        OperatorFolding::Parts
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(&self.input);
        visit(&self.find);
        visit(&self.replacement);
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Bson, bson};

    #[test]
    fn values() {
        let one = |input: Bson| bson!({"$replaceOne": {"input": input, "find": "a", "replacement": "xy"}});
        let all = |input: Bson| bson!({"$replaceAll": {"input": input, "find": "a", "replacement": "xy"}});
        check::values(&[
            (one(bson!("banana")), bson!("bxynana")),
            (all(bson!("banana")), bson!("bxynxynxy")),
            (all(Bson::Null), Bson::Null),
        ]);
        check::errors(&[
            (one(bson!(1)), 10503904),
            (bson!({"$replaceAll": 1}), 51751),
            (bson!({"$replaceAll": {"x": 1}}), 51750),
            (bson!({"$replaceAll": {}}), 51749),
        ]);
    }
}
