//! `$trim`, `$ltrim`, `$rtrim`.

use std::collections::BTreeSet;

use super::Env;
use super::args::{ExprArgument, show};
use super::node::{Expr, ExprOp};
use super::text::string_val;
use crate::args::ArgumentError;
use crate::error::{Error, Result};
use crate::value::{Val, ValueRef};

#[derive(Debug)]
struct Trim {
    name: &'static str,
    side: Side,
    input: Expr,
    chars: Option<Expr>,
}

/// The ends of the string from which characters are removed.
#[derive(Debug, Clone, Copy)]
enum Side {
    Start,
    End,
    Both,
}

/// The characters that are removed by default, sorted.
const SPACES: &[char] = &[
    '\0', '\t', '\n', '\u{b}', '\u{c}', '\r', ' ', '\u{a0}', '\u{1680}', '\u{2000}', '\u{2001}',
    '\u{2002}', '\u{2003}', '\u{2004}', '\u{2005}', '\u{2006}', '\u{2007}', '\u{2008}', '\u{2009}',
    '\u{200a}',
];

pub fn trim(arg: ExprArgument<'_>) -> Result<Expr> {
    parse(arg, Side::Both)
}

pub fn ltrim(arg: ExprArgument<'_>) -> Result<Expr> {
    parse(arg, Side::Start)
}

pub fn rtrim(arg: ExprArgument<'_>) -> Result<Expr> {
    parse(arg, Side::End)
}

fn parse(arg: ExprArgument<'_>, side: Side) -> Result<Expr> {
    let name = arg.name;
    let [input, chars] = arg.operands(["input", "chars"], |wrong| match wrong {
        ArgumentError::NotAnObject(ty) => {
            let words = format!("{name} only supports an object as an argument, found {ty}");
            (50696, words)
        }
        ArgumentError::Unknown(field) => {
            (50694, format!("{name} found an unknown argument: {field}"))
        }
        ArgumentError::Missing(field) => (50695, format!("{name} requires an '{field}' field")),
    })?;
    Ok(Expr::op(Trim {
        name,
        side,
        input: input.required()?,
        chars: chars.value(),
    }))
}

// === impl Trim ===

impl Trim {
    fn refuse(&self, code: i32, what: &str, value: ValueRef<'_>) -> Error {
        Error::location(
            code,
            format!(
                "{} requires {what} to be a string, got {} (of type {}) instead.",
                self.name,
                show(value),
                value.ty().alias()
            ),
        )
    }
}

impl ExprOp for Trim {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        let input = self.input.eval_in(env)?;
        let input = input.as_ref();
        if input.is_nullish() {
            return Ok(Val::NULL);
        }
        let text = input
            .as_str()
            .ok_or_else(|| self.refuse(50699, "its input", input))?;
        let given: Vec<char>;
        let set = match &self.chars {
            None => SPACES,
            Some(expr) => {
                let chars = expr.eval_in(env)?;
                let chars = chars.as_ref();
                if chars.is_nullish() {
                    return Ok(Val::NULL);
                }
                let text = chars
                    .as_str()
                    .ok_or_else(|| self.refuse(50700, "'chars'", chars))?;
                given = BTreeSet::from_iter(text.chars()).into_iter().collect();
                &given
            }
        };
        // The set is searched in binary, because it may be as long as the text.
        let is_trimmed = |letter: char| set.binary_search(&letter).is_ok();
        string_val(match self.side {
            Side::Start => text.trim_start_matches(is_trimmed),
            Side::End => text.trim_end_matches(is_trimmed),
            Side::Both => text.trim_matches(is_trimmed),
        })
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(&self.input);
        self.chars.iter().for_each(visit);
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Bson, bson};

    #[test]
    fn values() {
        check::values(&[
            (bson!({"$trim": {"input": " \u{2003}a b\n"}}), bson!("a b")),
            (
                bson!({"$ltrim": {"input": "xxayx", "chars": "yx"}}),
                bson!("ayx"),
            ),
            (
                bson!({"$rtrim": {"input": "xxayx", "chars": "yx"}}),
                bson!("xxa"),
            ),
            (bson!({"$trim": {"input": Bson::Null}}), Bson::Null),
            (
                bson!({"$trim": {"input": "a", "chars": Bson::Null}}),
                Bson::Null,
            ),
        ]);
        check::errors(&[
            (bson!({"$trim": 1}), 50696),
            (bson!({"$trim": {"x": 1}}), 50694),
            (bson!({"$trim": {}}), 50695),
            (bson!({"$trim": {"input": 1}}), 50699),
            (bson!({"$trim": {"input": "a", "chars": 1}}), 50700),
        ]);
    }
}
