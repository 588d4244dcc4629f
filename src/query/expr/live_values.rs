//! Values that an operator keeps while it evaluates more of them: the variables of a `$let`, the arrays of a `$setUnion`.
//!
//! Each value is bounded by the size of a document, but a short expression can request hundreds of them. So the owned values
//! that all nested operators of an expression keep at one time share a limit, which equals that of a `$group`. MongoDB has no
//! such limit.

use std::cell::Cell;
use std::ops::Deref;

use super::{Env, Expr};
use crate::error::{Code, Error, Result};
use crate::value::{Val, ValueRef};

/// The limit in bytes, the same as for a stage.
pub const MAX_LIVE_BYTES: usize = if cfg!(test) { 10 } else { 100 } * 1024 * 1024;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

/// Values that are dropped together, and then no longer count towards the limit.
#[derive(Default)]
pub struct LiveValues<'a> {
    values: Vec<Val<'a>>,
    bytes: usize,
}

// === impl LiveValues ===

impl<'a> LiveValues<'a> {
    /// Evaluates these expressions and keeps their values.
    pub fn eval(exprs: impl IntoIterator<Item = &'a Expr>, env: Env<'a>) -> Result<Self> {
        let mut kept = Self::default();
        for expr in exprs {
            kept.push(expr.eval_in(env)?)?;
        }
        Ok(kept)
    }

    /// Evaluates these expressions up to the first null, after which nothing matters. `None` means that there is one. Each
    /// value before it passes the check.
    pub fn eval_until_null(
        exprs: impl IntoIterator<Item = &'a Expr>,
        env: Env<'a>,
        check: impl Fn(ValueRef<'_>) -> Result<()>,
    ) -> Result<Option<Self>> {
        let mut kept = Self::default();
        for expr in exprs {
            let value = expr.eval_in(env)?;
            if value.as_ref().is_nullish() {
                return Ok(None);
            }
            check(value.as_ref())?;
            kept.push(value)?;
        }
        Ok(Some(kept))
    }

    pub fn push(&mut self, value: Val<'a>) -> Result<()> {
        if let Val::Own(own) = &value {
            let bytes = own.as_ref().data().len();
            let all = BYTES.get() + bytes;
            if all > MAX_LIVE_BYTES {
                return Err(Error::new(
                    Code::ExceededMemoryLimit,
                    format!("the expression keeps more than {MAX_LIVE_BYTES} bytes at a time"),
                ));
            }
            BYTES.set(all);
            self.bytes += bytes;
        }
        self.values.push(value);
        Ok(())
    }
}

impl Drop for LiveValues<'_> {
    fn drop(&mut self) {
        BYTES.set(BYTES.get().saturating_sub(self.bytes));
    }
}

impl<'a> Deref for LiveValues<'a> {
    type Target = [Val<'a>];

    fn deref(&self) -> &[Val<'a>] {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Document, bson};

    #[test]
    fn live_values_are_limited_and_released() {
        let large = bson!({"$range": [0, 300_000]});
        let many = vec![large.clone(); 4];
        let vars: Document = (0..4).map(|n| (format!("v{n}"), large.clone())).collect();
        let half: Document = vars
            .iter()
            .take(2)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let within = bson!({"$let": {"vars": half.clone(), "in": {"$size": "$$v0"}}});
        for _ in 0..2 {
            check::errors(&[
                (bson!({"$let": {"vars": vars.clone(), "in": 1}}), 146),
                (
                    bson!({"$let": {"vars": half.clone(), "in": {"$let": {"vars": half.clone(), "in": 1}}}}),
                    146,
                ),
                (bson!({"$setUnion": many.clone()}), 146),
                (bson!({"$setIntersection": many.clone()}), 146),
                (bson!({"$zip": {"inputs": many.clone()}}), 146),
            ]);
            check::values(&[(within.clone(), bson!(300_000))]);
        }
    }
}
