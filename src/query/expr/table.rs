//! MongoDB's whole list of expression operators.

use super::node::{Eval, Expr};
use crate::error::Result;
use crate::query::Scope;
use crate::value::ValueRef;

pub struct Operator {
    pub name: &'static str,
    pub status: Status,
}

#[derive(Clone, Copy)]
pub enum Status {
    Ready(Form),
    /// Known, and refused by name.
    Planned,
}

/// How an operator takes its arguments.
#[derive(Clone, Copy)]
pub enum Form {
    /// By position.
    Call(Arity, Eval),
    /// In its own way.
    Own(fn(&'static str, ValueRef<'_>, &Scope) -> Result<Expr>),
}

#[derive(Clone, Copy)]
pub enum Arity {
    Any,
    Exactly(usize),
    Between(usize, usize),
}

const fn own(
    name: &'static str,
    parse: fn(&'static str, ValueRef<'_>, &Scope) -> Result<Expr>,
) -> Operator {
    Operator {
        name,
        status: Status::Ready(Form::Own(parse)),
    }
}

const fn planned(name: &'static str) -> Operator {
    Operator {
        name,
        status: Status::Planned,
    }
}

/// Sorted by name.
pub static EXPRESSIONS: &[Operator] = &[planned("$function"), own("$literal", literal)];

pub fn find(name: &str) -> Option<&'static Operator> {
    EXPRESSIONS
        .binary_search_by(|operator| operator.name.cmp(name))
        .ok()
        .and_then(|at| EXPRESSIONS.get(at))
}

fn literal(_: &'static str, value: ValueRef<'_>, _: &Scope) -> Result<Expr> {
    Ok(Expr::Const(value.to_value()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        for pair in EXPRESSIONS.windows(2) {
            assert!(pair[0].name < pair[1].name, "{}", pair[1].name);
        }
    }
}
