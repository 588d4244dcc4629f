//! `$top`, `$bottom`, `$topN`, `$bottomN`: the first or last by an order of one's own.

use std::sync::Arc;

use super::few::Count;
use super::rule::Accumulator;
use super::state::{Input, Rule, State};
use crate::error::{Error, Result};
use crate::query::expr::{args::named, array_of};
use crate::query::{Expr, Scope, Vars, sort::Sort};
use crate::value::{Value, ValueRef};

#[derive(Debug)]
struct Top {
    order: Sort,
    n: Count,
    /// The last ones, not the first ones.
    bottom: bool,
    /// One value, not an array.
    single: bool,
}

/// The documents that are first (or last) so far, in order.
struct Best {
    spec: Arc<Top>,
    n: usize,
    kept: Vec<Kept>,
    size: usize,
}

struct Kept {
    key: Vec<u8>,
    output: Value,
}

pub fn parse(name: &'static str, value: ValueRef<'_>, scope: &Scope) -> Result<Accumulator> {
    let doc = value.as_doc().ok_or_else(|| {
        Error::location(
            5788001,
            format!("specification must be an object; found {name}: {value}"),
        )
    })?;
    let [n, output, sort_by] = named(doc, ["n", "output", "sortBy"], |field| {
        Error::location(5788002, format!("Unknown argument to {name} '{field}'"))
    })?;
    let single = !name.ends_with('N');
    let n = match (single, n) {
        (true, None) => Count::Known(1),
        (true, Some(_)) => {
            return Err(Error::location(
                5788002,
                format!("Unknown argument to {name} 'n'"),
            ));
        }
        (false, Some(n)) => Count::parse(n, scope)?,
        (false, None) => return Err(Error::location(5788003, "Missing value for 'n'")),
    };
    let output = output.ok_or_else(|| Error::location(5788004, "Missing value for 'output'"))?;
    let sort_by = sort_by.ok_or_else(|| Error::location(5788005, "Missing value for 'sortBy'"))?;
    let sort_by = sort_by.as_doc().ok_or_else(|| {
        Error::location(
            5788604,
            format!("expected 'sortBy' to already be an object in the arguments to {name}"),
        )
    })?;
    let spec = Top {
        order: Sort::parse(sort_by)?,
        n,
        bottom: name.starts_with("$bottom"),
        single,
    };
    Ok(Accumulator::new(
        Arc::new(spec),
        Expr::parse(output, scope)?,
    ))
}

// === impl Rule ===

impl Rule for Top {
    fn start(self: Arc<Self>, id: ValueRef<'_>, vars: &Vars) -> Result<Box<dyn State>> {
        Ok(Box::new(Best {
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

// === impl Best ===

impl State for Best {
    fn add(&mut self, input: Input<'_>) -> Result<()> {
        let bottom = self.spec.bottom;
        let mut key = Vec::new();
        self.spec.order.key(input.doc, &mut key)?;
        let at = self.kept.partition_point(|before| before.key <= key);
        let full = self.kept.len() >= self.n;
        // Beyond the worst that is kept.
        let beyond = if bottom { 0 } else { self.kept.len() };
        if full && at == beyond {
            return Ok(());
        }
        let output = input.value.or_null().to_value();
        let new = Kept { key, output };
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

// === impl Kept ===

impl Kept {
    fn cost(&self) -> usize {
        self.output.as_ref().data().len() + self.key.len() + size_of::<Self>()
    }
}
