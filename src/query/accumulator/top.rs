//! `$top`, `$bottom`, `$topN`, `$bottomN`: the first or last values in an order that the client gives.

use std::sync::Arc;

use super::bounded::ValueCount;
use super::rule::Accumulator;
use super::state::{AccumulatorRule, AccumulatorState, Input};
use crate::args::{ArgumentError, named_as};
use crate::error::{Error, Result};
use crate::query::expr::{ExprArgument, array_of};
use crate::query::{Expr, Vars, sort::Sort};
use crate::value::{Doc, Type, Value, ValueRef};

#[derive(Debug)]
struct Top {
    order: Sort,
    n: ValueCount,
    /// Keeps the last documents instead of the first.
    bottom: bool,
    /// Returns one value instead of an array.
    single: bool,
}

/// The first (or last) documents so far, in order.
struct TopValues {
    spec: Arc<Top>,
    n: usize,
    kept: Vec<TopEntry>,
    size: usize,
}

struct TopEntry {
    key: Vec<u8>,
    output: Value,
}

pub fn top(arg: ExprArgument<'_>) -> Result<Accumulator> {
    single(arg, false)
}

pub fn bottom(arg: ExprArgument<'_>) -> Result<Accumulator> {
    single(arg, true)
}

pub fn top_n(arg: ExprArgument<'_>) -> Result<Accumulator> {
    several(arg, false)
}

pub fn bottom_n(arg: ExprArgument<'_>) -> Result<Accumulator> {
    several(arg, true)
}

fn single(arg: ExprArgument<'_>, bottom: bool) -> Result<Accumulator> {
    let [output, sort_by] = arg.named(["output", "sortBy"], words(arg))?;
    check_object(sort_by.value())?;
    let (output, sort_by) = (output.required()?, sort_by.required()?);
    by_order(arg, output, sort_by, |order| {
        Ok(Top {
            order,
            n: ValueCount::Known(1),
            bottom,
            single: true,
        })
    })
}

fn several(arg: ExprArgument<'_>, bottom: bool) -> Result<Accumulator> {
    // `n` is parsed where it stands, the others behind it.
    let mut count = None;
    let names = ["n", "output", "sortBy"];
    let [n, output, sort_by] = named_as(arg.value, names, words(arg), |name, value| {
        if name == "n" {
            count = Some(ValueCount::of_expr(Expr::parse(value, arg.scope)?));
        }
        Ok(value)
    })?;
    check_object(sort_by.value())?;
    n.required()?;
    let (output, sort_by) = (output.required()?, sort_by.required()?);
    by_order(arg, output, sort_by, |order| {
        Ok(Top {
            order,
            n: count.unwrap_or(ValueCount::Known(1)),
            bottom,
            single: false,
        })
    })
}

fn by_order(
    arg: ExprArgument<'_>,
    output: ValueRef<'_>,
    sort_by: ValueRef<'_>,
    rule: impl FnOnce(Sort) -> Result<Top>,
) -> Result<Accumulator> {
    let sort_by = sort_by.as_doc().or_else(|| sort_by.as_array());
    let rule = rule(Sort::parse(sort_by.unwrap_or(Doc::EMPTY))?)?;
    let output = Expr::parse(output, arg.scope)?;
    Ok(Accumulator::new(Arc::new(rule), output))
}

/// Rejects a `sortBy` that is not an object. mongod checks it while it reads the arguments, before it reports a missing
/// one. An array counts as an object.
fn check_object(sort_by: Option<ValueRef<'_>>) -> Result<()> {
    match sort_by.map(|value| value.ty()) {
        None | Some(Type::Document | Type::Array) => Ok(()),
        Some(_) => Err(Error::location(
            10065,
            "invalid parameter: expected an object (sortBy)",
        )),
    }
}

fn words(arg: ExprArgument<'_>) -> impl Fn(ArgumentError<'_>) -> (i32, String) + Copy {
    move |wrong| match wrong {
        ArgumentError::NotAnObject(_) => (5788001, arg.not_an_object()),
        ArgumentError::Unknown(field) => {
            let words = format!("Unknown argument to {} '{field}'", arg.name);
            (5788002, words)
        }
        ArgumentError::Missing(field) => {
            let number = match field {
                "n" => 5788003,
                "output" => 5788004,
                _ => 5788005,
            };
            (number, format!("Missing value for '{field}'"))
        }
    }
}

// === impl AccumulatorRule ===

impl AccumulatorRule for Top {
    fn start(self: Arc<Self>, id: ValueRef<'_>, vars: &Vars) -> Result<Box<dyn AccumulatorState>> {
        Ok(Box::new(TopValues {
            n: self.n.of(id, vars)?,
            spec: self,
            kept: Vec::new(),
            size: 0,
        }))
    }

    fn sort(&self) -> Option<&Sort> {
        Some(&self.order)
    }

    fn count(&self) -> Option<&Expr> {
        self.n.expr()
    }
}

// === impl TopValues ===

impl AccumulatorState for TopValues {
    fn add(&mut self, input: Input<'_>) -> Result<()> {
        let bottom = self.spec.bottom;
        let mut key = Vec::new();
        self.spec.order.evaluated_key(input.doc, &mut key)?;
        let full = self.kept.len() >= self.n;
        // Of documents with equal keys the earlier one stays.
        let worse = match bottom {
            true => self.kept.first().is_some_and(|worst| key <= worst.key),
            false => self.kept.last().is_some_and(|worst| key >= worst.key),
        };
        if full && worse {
            return Ok(());
        }
        let at = self.kept.partition_point(|before| before.key <= key);
        let output = input.value.or_null().to_value();
        let new = TopEntry { key, output };
        self.size += new.cost();
        self.kept.insert(at, new);
        if full {
            let worst = if bottom { 0 } else { self.kept.len() - 1 };
            self.size -= self.kept.remove(worst).cost();
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Value> {
        if self.spec.single {
            let first = self.kept.first();
            return Ok(first.map_or_else(Value::null, |one| one.output.clone()));
        }
        array_of(self.kept.iter().map(|one| one.output.as_ref()))
    }

    fn size(&self) -> usize {
        self.size
    }
}

// === impl TopEntry ===

impl TopEntry {
    fn cost(&self) -> usize {
        self.output.as_ref().data().len() + self.key.len() + size_of::<Self>()
    }
}
