//! `$top`, `$bottom`, `$topN`, `$bottomN`: the first or last by an order of one's own.

use super::many::Many;
use super::rule::{Accumulator, Rule};

use crate::error::{Error, Result};
use crate::query::expr::{args::named, array_of};
use crate::query::{Expr, Scope, Vars, sort::Sort};
use crate::value::{Doc, Value, ValueRef};

#[derive(Debug, Clone)]
pub struct Top {
    order: Sort,
    n: Many,
    /// The last ones, not the first ones.
    bottom: bool,
    /// One value, not an array.
    single: bool,
}

/// The documents that are first (or last) so far, in order.
#[derive(Debug)]
pub struct Best {
    n: usize,
    kept: Vec<Kept>,
    held: usize,
}

#[derive(Debug)]
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
        (true, None) => Many::Known(1),
        (true, Some(_)) => {
            return Err(Error::location(
                5788002,
                format!("Unknown argument to {name} 'n'"),
            ));
        }
        (false, Some(n)) => Many::parse(n, scope)?,
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
        Rule::Top(spec),
        Expr::parse(output, scope)?,
    ))
}

// === impl Top ===

impl Top {
    pub fn start(&self, id: ValueRef<'_>, vars: &Vars) -> Result<Best> {
        Ok(Best {
            n: self.n.of(id, vars)?,
            kept: Vec::new(),
            held: 0,
        })
    }
}

// === impl Best ===

impl Best {
    pub fn feed(&mut self, spec: &Top, doc: Doc<'_>, output: ValueRef<'_>) -> Result<()> {
        let mut key = Vec::new();
        spec.order.key(doc, &mut key)?;
        let at = self.kept.partition_point(|before| before.key <= key);
        let full = self.kept.len() >= self.n;
        // Beyond the worst that is kept.
        if full
            && (if spec.bottom {
                at == 0
            } else {
                at == self.kept.len()
            })
        {
            return Ok(());
        }
        let output = if output.is_missing() {
            Value::null()
        } else {
            output.to_value()
        };
        let new = Kept { key, output };
        self.held += new.cost();
        self.kept.insert(at, new);
        if full {
            let worst = if spec.bottom { 0 } else { self.kept.len() - 1 };
            self.held -= self.kept.remove(worst).cost();
        }
        Ok(())
    }

    pub fn finish(&self, spec: &Top) -> Result<Value> {
        if spec.single {
            return Ok(self
                .kept
                .first()
                .map_or_else(Value::null, |one| one.output.clone()));
        }
        array_of(self.kept.iter().map(|one| one.output.as_ref()))
    }

    pub fn held(&self) -> usize {
        self.held
    }
}

// === impl Kept ===

impl Kept {
    fn cost(&self) -> usize {
        self.output.as_ref().data().len() + self.key.len() + size_of::<Self>()
    }
}
