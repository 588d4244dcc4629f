//! `$replaceOne`, `$replaceAll`: a string for a string.

use super::args::{named, show};
use super::node::{Expr, Op};
use super::parse::operand;
use super::text::{check_length, string_val};
use super::{Env, fuel};
use crate::error::{Error, Result};
use crate::query::Scope;
use crate::value::{Val, ValueRef};

#[derive(Debug)]
struct Replace {
    name: &'static str,
    input: Expr,
    find: Expr,
    replacement: Expr,
}

pub fn replace(name: &'static str, value: ValueRef<'_>, scope: &Scope) -> Result<Expr> {
    let doc = value.as_doc().ok_or_else(|| {
        Error::location(
            51751,
            format!(
                "{name} requires an object as an argument, found: {}",
                value.ty().alias()
            ),
        )
    })?;
    let [input, find, replacement] = named(doc, ["input", "find", "replacement"], |field| {
        Error::location(51750, format!("{name} found an unknown argument: {field}"))
    })?;
    let need = |value: Option<ValueRef<'_>>, code, field| match value {
        Some(value) => operand(value, scope),
        None => Err(Error::location(
            code,
            format!("{name} requires '{field}' to be specified"),
        )),
    };
    Ok(Expr::op(Replace {
        name,
        input: need(input, 51749, "input")?,
        find: need(find, 51748, "find")?,
        replacement: need(replacement, 51747, "replacement")?,
    }))
}

// === impl Replace ===

impl Op for Replace {
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
        if self.name == "$replaceOne" {
            return string_val(&text.replacen(find, replacement, 1));
        }
        // Counted before it is built.
        let hits = text.matches(find).count();
        check_length(
            (text.len() - hits * find.len()).saturating_add(hits.saturating_mul(replacement.len())),
        )?;
        fuel::spend(hits as u64 / 16)?;
        string_val(&text.replace(find, replacement))
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
