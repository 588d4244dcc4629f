//! `$cmp` and the six comparisons. They use the order over all types, without type brackets.

use std::cmp::Ordering;

use super::args::{bool_val, int_val};
use super::{Env, ExprCall};
use crate::error::Result;
use crate::value::{Val, compare};

fn order<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Ordering> {
    let left = call.arg(0, env)?;
    let right = call.arg(1, env)?;
    Ok(compare(left.as_ref(), right.as_ref()))
}

pub fn cmp<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    int_val(order(call, env)? as i32)
}

pub fn eq<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    bool_val(order(call, env)?.is_eq())
}

pub fn ne<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    bool_val(order(call, env)?.is_ne())
}

pub fn gt<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    bool_val(order(call, env)?.is_gt())
}

pub fn gte<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    bool_val(order(call, env)?.is_ge())
}

pub fn lt<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    bool_val(order(call, env)?.is_lt())
}

pub fn lte<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    bool_val(order(call, env)?.is_le())
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Bson, bson};

    #[test]
    fn across_types() {
        check::values(&[
            (bson!({"$cmp": [1, 2]}), bson!(-1)),
            (bson!({"$cmp": ["a", 2]}), bson!(1)),
            (bson!({"$eq": [1, 1.0]}), bson!(true)),
            (bson!({"$eq": ["$none", Bson::Null]}), bson!(false)),
            (bson!({"$lt": ["$none", Bson::Null]}), bson!(true)),
            (bson!({"$ne": [[1], [1i64]]}), bson!(false)),
            (bson!({"$gte": [{"a": 1}, {"a": 0}]}), bson!(true)),
        ]);
        check::errors(&[(bson!({"$eq": [1]}), 16020)]);
    }
}
