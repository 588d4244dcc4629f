//! What operators ask of their arguments.

use super::Env;
use super::node::Expr;
use super::parse;
use crate::args::{self, NamedArg, Wrong};
use crate::error::{Error, Result};
use crate::query::Scope;
use crate::value::{Doc, Val, Value, ValueRef};

/// `{$operator: value}`: what an operator with a syntax of its own parses.
#[derive(Clone, Copy)]
pub struct Argument<'a> {
    /// The operator. Messages need it: siblings share a parser.
    pub name: &'static str,
    pub value: ValueRef<'a>,
    pub scope: &'a Scope,
}

/// The words of many operators with named arguments, which they call arguments or parameters. The numbers are for what is no
/// object, for an unknown argument and for one that is missing.
pub fn unrecognized(
    what: &str,
    name: &str,
    [not_an_object, unknown]: [i32; 2],
    missing: fn(&str) -> i32,
) -> impl Fn(Wrong<'_>) -> (i32, String) + Copy {
    move |wrong| match wrong {
        Wrong::NotAnObject(_) => {
            let words = format!("{name} only supports an object as its argument");
            (not_an_object, words)
        }
        Wrong::Unknown(field) => {
            let words = format!("Unrecognized {what} to {name}: {field}");
            (unknown, words)
        }
        Wrong::Missing(field) => {
            let words = format!("Missing '{field}' parameter to {name}");
            (missing(field), words)
        }
    }
}

/// The words of the other operators with named arguments.
pub fn found_unknown(
    name: &str,
    [not_an_object, unknown]: [i32; 2],
    missing: fn(&str) -> i32,
) -> impl Fn(Wrong<'_>) -> (i32, String) + Copy {
    move |wrong| match wrong {
        Wrong::NotAnObject(ty) => {
            let words = format!("{name} requires an object as an argument, found: {ty}");
            (not_an_object, words)
        }
        Wrong::Unknown(field) => (
            unknown,
            format!("{name} found an unknown argument: {field}"),
        ),
        Wrong::Missing(field) => {
            let words = format!("{name} requires '{field}' to be specified");
            (missing(field), words)
        }
    }
}

/// The arguments of an operator that takes the first (or last, or largest) n of its input. `not_an_object` is the number of what
/// is refused as such.
pub fn n_and_input<'a>(
    arg: Argument<'a>,
    not_an_object: i32,
) -> Result<(ValueRef<'a>, ValueRef<'a>)> {
    let [n, input] = arg.named(["n", "input"], |wrong| match wrong {
        Wrong::NotAnObject(_) => (not_an_object, arg.not_an_object()),
        Wrong::Unknown(field) => {
            let words = format!("Unknown argument for 'n' operator: {field}");
            (5787901, words)
        }
        Wrong::Missing("n") => (5787906, "Missing value for 'n'".to_owned()),
        Wrong::Missing(field) => (5787907, format!("Missing value for '{field}'")),
    })?;
    Ok((n.required()?, input.required()?))
}

/// What an operand that may be left out comes to.
pub fn eval_or<'a>(expr: &'a Option<Expr>, env: Env<'a>, otherwise: Val<'a>) -> Result<Val<'a>> {
    match expr {
        Some(expr) => expr.eval_in(env),
        None => Ok(otherwise),
    }
}

/// The value, if it is a number that an int32 holds exactly.
pub fn integral_i32(value: ValueRef<'_>) -> Option<i32> {
    i32::try_from(integral_i64(value)?).ok()
}

/// The value, if it is a number that an int64 holds exactly.
pub fn integral_i64(value: ValueRef<'_>) -> Option<i64> {
    value.as_num()?.to_i64_exact()
}

pub fn bool_val<'a>(value: bool) -> Result<Val<'a>> {
    Ok(Val::Own(Value::boolean(value)))
}

pub fn int_val<'a>(value: i32) -> Result<Val<'a>> {
    Ok(Val::Own(Value::int32(value)))
}

/// A count that fits an int32, as all sizes within 16 MiB do.
pub fn count_val<'a>(count: usize) -> Result<Val<'a>> {
    int_val(i32::try_from(count).unwrap_or(i32::MAX))
}

/// A value as messages print it.
pub fn show(value: ValueRef<'_>) -> String {
    value.to_string()
}

// === impl Argument ===

impl<'a> Argument<'a> {
    /// The named arguments, where they are given in an object.
    pub fn named<const N: usize, W, E>(
        self,
        names: [&'static str; N],
        words: W,
    ) -> Result<[NamedArg<'a, W>; N]>
    where
        W: Fn(Wrong<'_>) -> E + Copy,
        E: Into<Error>,
    {
        args::named(self.value, names, words)
    }

    /// The words for an argument that has to be an object.
    pub fn not_an_object(self) -> String {
        let Self { name, value, .. } = self;
        format!("specification must be an object; found {name}: {value}")
    }

    /// A part of the argument as an expression.
    pub fn operand(self, value: ValueRef<'_>) -> Result<Expr> {
        parse::operand(value, self.scope)
    }

    /// The same for a part that may be left out.
    pub fn optional(self, value: Option<ValueRef<'_>>) -> Result<Option<Expr>> {
        value.map(|value| self.operand(value)).transpose()
    }

    /// An array is the list of arguments; anything else is the only one.
    pub fn list(self) -> Result<Vec<Expr>> {
        parse::arguments(self.value, self.scope)
    }

    /// A document that is no operator, so that it may hold named arguments.
    pub fn plain_object(self) -> Option<Doc<'a>> {
        let is_operator = |doc: &Doc<'_>| {
            let first = doc.first();
            first.is_some_and(|elem| elem.name().starts_with('$'))
        };
        self.value.as_doc().filter(|doc| !is_operator(doc))
    }
}
