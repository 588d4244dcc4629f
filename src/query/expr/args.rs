//! Helpers with which operators read and check their arguments.

use super::Env;
use super::node::Expr;
use super::parse;
use crate::args::{self, ArgumentError, NamedArg};
use crate::error::{Error, Result};
use crate::query::Scope;
use crate::value::{Doc, Val, Value, ValueRef};

/// The argument of an operator with its own syntax: `{$operator: value}`.
#[derive(Clone, Copy)]
pub struct ExprArgument<'a> {
    /// The name of the operator, for error messages, because related operators share a parser.
    pub name: &'static str,
    pub value: ValueRef<'a>,
    pub scope: &'a Scope,
}

/// Returns the code and message for wrong named arguments, as many operators word them. `what` is "argument" or
/// "parameter". The numbers are the codes for a value that is not an object, an unknown argument and a missing one.
pub fn unrecognized(
    what: &str,
    name: &str,
    [not_an_object, unknown]: [i32; 2],
    missing: fn(&str) -> i32,
) -> impl Fn(ArgumentError<'_>) -> (i32, String) + Copy {
    move |wrong| match wrong {
        ArgumentError::NotAnObject(_) => {
            let words = format!("{name} only supports an object as its argument");
            (not_an_object, words)
        }
        ArgumentError::Unknown(field) => {
            let words = format!("Unrecognized {what} to {name}: {field}");
            (unknown, words)
        }
        ArgumentError::Missing(field) => {
            let words = format!("Missing '{field}' parameter to {name}");
            (missing(field), words)
        }
    }
}

/// Returns the code and message for wrong named arguments, as the other operators word them.
pub fn found_unknown(
    name: &str,
    [not_an_object, unknown]: [i32; 2],
    missing: fn(&str) -> i32,
) -> impl Fn(ArgumentError<'_>) -> (i32, String) + Copy {
    move |wrong| match wrong {
        ArgumentError::NotAnObject(ty) => {
            let words = format!("{name} requires an object as an argument, found: {ty}");
            (not_an_object, words)
        }
        ArgumentError::Unknown(field) => (
            unknown,
            format!("{name} found an unknown argument: {field}"),
        ),
        ArgumentError::Missing(field) => {
            let words = format!("{name} requires '{field}' to be specified");
            (missing(field), words)
        }
    }
}

/// Reads the arguments of an operator or accumulator that takes the first (or last, or largest) n of its input.
/// `not_an_object` is the code for an argument that is not an object.
pub fn n_and_input(
    arg: ExprArgument<'_>,
    not_an_object: i32,
    parse: fn(ValueRef<'_>, &Scope) -> Result<Expr>,
) -> Result<(Expr, Expr)> {
    let words = |wrong: ArgumentError<'_>| match wrong {
        ArgumentError::NotAnObject(_) => (not_an_object, arg.not_an_object()),
        ArgumentError::Unknown(field) => {
            let words = format!("Unknown argument for 'n' operator: {field}");
            (5787901, words)
        }
        ArgumentError::Missing("n") => (5787906, "Missing value for 'n'".to_owned()),
        ArgumentError::Missing(field) => (5787907, format!("Missing value for '{field}'")),
    };
    let parse = |_, value| parse(value, arg.scope);
    let [n, input] = args::named_as(arg.value, ["n", "input"], words, parse)?;
    Ok((n.required()?, input.required()?))
}

/// Evaluates an operand that may be absent.
pub fn eval_or<'a>(expr: &'a Option<Expr>, env: Env<'a>, otherwise: Val<'a>) -> Result<Val<'a>> {
    match expr {
        Some(expr) => expr.eval_in(env),
        None => Ok(otherwise),
    }
}

/// Returns the value if it is a number that an int32 holds exactly.
pub fn integral_i32(value: ValueRef<'_>) -> Option<i32> {
    i32::try_from(integral_i64(value)?).ok()
}

/// Returns the value if it is a number that an int64 holds exactly.
pub fn integral_i64(value: ValueRef<'_>) -> Option<i64> {
    value.as_num()?.to_i64_exact()
}

pub fn bool_val<'a>(value: bool) -> Result<Val<'a>> {
    Ok(Val::Own(Value::boolean(value)))
}

pub fn int_val<'a>(value: i32) -> Result<Val<'a>> {
    Ok(Val::Own(Value::int32(value)))
}

/// Returns a count as an int32. All sizes within 16 MiB fit.
pub fn count_val<'a>(count: usize) -> Result<Val<'a>> {
    int_val(i32::try_from(count).unwrap_or(i32::MAX))
}

/// Formats a value for a message.
pub fn show(value: ValueRef<'_>) -> String {
    value.to_string()
}

// === impl ExprArgument ===

impl<'a> ExprArgument<'a> {
    /// Reads named arguments from an object.
    pub fn named<const N: usize, W, E>(
        self,
        names: [&'static str; N],
        words: W,
    ) -> Result<[NamedArg<ValueRef<'a>, W>; N]>
    where
        W: Fn(ArgumentError<'_>) -> E + Copy,
        E: Into<Error>,
    {
        args::named(self.value, names, words)
    }

    /// Reads named arguments that are expressions, each parsed where it stands. MongoDB does so for about half of its operators.
    pub fn operands<const N: usize, W, E>(
        self,
        names: [&'static str; N],
        words: W,
    ) -> Result<[NamedArg<Expr, W>; N]>
    where
        W: Fn(ArgumentError<'_>) -> E + Copy,
        E: Into<Error>,
    {
        args::named_as(self.value, names, words, |_, value| self.operand(value))
    }

    /// Returns the message for an argument that must be an object.
    pub fn not_an_object(self) -> String {
        let Self { name, value, .. } = self;
        format!("specification must be an object; found {name}: {value}")
    }

    /// Parses a part of the argument as an expression.
    pub fn operand(self, value: ValueRef<'_>) -> Result<Expr> {
        parse::operand(value, self.scope)
    }

    /// Parses a part of the argument that may be absent.
    pub fn optional(self, value: Option<ValueRef<'_>>) -> Result<Option<Expr>> {
        value.map(|value| self.operand(value)).transpose()
    }

    /// Parses the argument as a list. A value that is not an array is the only element.
    pub fn list(self) -> Result<Vec<Expr>> {
        parse::arguments(self.value, self.scope)
    }

    /// Returns the argument as a document, unless it is an operator. Such a document may hold named arguments.
    pub fn plain_object(self) -> Option<Doc<'a>> {
        let is_operator = |doc: &Doc<'_>| {
            let first = doc.first();
            first.is_some_and(|elem| elem.name().starts_with('$'))
        };
        self.value.as_doc().filter(|doc| !is_operator(doc))
    }
}
