//! The `n` of `$firstN`, `$topN` and their like.

use crate::error::{Error, Result};
use crate::query::expr::array_order::check_n;
use crate::query::{Expr, Scope, Vars};
use crate::value::{Doc, ValueRef};

/// How many values a group keeps.
#[derive(Debug, Clone)]
pub enum Many {
    Known(usize),
    /// Each group's own: calculated once, when the group begins, from the group's key.
    OfKey(Expr),
}

// === impl Many ===

impl Many {
    pub fn parse(value: ValueRef<'_>, scope: &Scope) -> Result<Self> {
        let expr = Expr::parse(value, scope)?;
        match expr.as_const() {
            Some(n) => check(n).map(Self::Known),
            None => Ok(Self::OfKey(expr)),
        }
    }

    /// For the group of that `_id`, whose fields the expression sees as those of a document.
    pub fn of(&self, id: ValueRef<'_>, vars: &Vars) -> Result<usize> {
        match self {
            Self::Known(n) => Ok(*n),
            Self::OfKey(expr) => {
                let n = expr.eval(id.as_doc().unwrap_or(Doc::EMPTY), vars)?;
                check(n.as_ref())
            }
        }
    }
}

/// MongoDB runs groups in its newer engine, which has one code for every `n` that is none.
fn check(n: ValueRef<'_>) -> Result<usize> {
    check_n(n).map_err(|error| Error::location(7548606, error.message()))
}
