//! `$bitAnd`, `$bitOr`, `$bitXor`, `$bitNot` over ints and longs.

use super::arithmetic::num_val;
use super::{Env, ExprCall};
use crate::error::{Code, Error, Result};
use crate::value::{Num, Val};

fn fold<'a>(
    call: &'a ExprCall,
    env: Env<'a>,
    start: i32,
    combine: fn(i64, i64) -> i64,
) -> Result<Val<'a>> {
    let mut result = i64::from(start);
    let mut long = false;
    for arg in &call.args {
        let value = arg.eval_in(env)?;
        let value = value.as_ref();
        match value.as_num() {
            Some(Num::Int32(bits)) => result = combine(result, bits.into()),
            Some(Num::Int64(bits)) => {
                long = true;
                result = combine(result, bits);
            }
            _ if value.is_nullish() => return Ok(Val::NULL),
            _ => {
                return Err(Error::new(
                    Code::TypeMismatch,
                    format!("{} only supports int and long operands.", call.name),
                ));
            }
        }
    }
    // Int32 values are sign-extended, so the low half is the int32 result.
    num_val(if long {
        Num::Int64(result)
    } else {
        Num::Int32(result as i32)
    })
}

pub fn and<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    fold(call, env, -1, |a, b| a & b)
}

pub fn or<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    fold(call, env, 0, |a, b| a | b)
}

pub fn xor<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    fold(call, env, 0, |a, b| a ^ b)
}

pub fn not<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let value = call.arg(0, env)?;
    let value = value.as_ref();
    match value.as_num() {
        Some(Num::Int32(bits)) => num_val(Num::Int32(!bits)),
        Some(Num::Int64(bits)) => num_val(Num::Int64(!bits)),
        _ if value.is_nullish() => Ok(Val::NULL),
        _ => Err(Error::location(
            28765,
            format!(
                "$bitNot only supports int and long, not: {}.",
                value.ty().alias()
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Bson, bson};

    #[test]
    fn values() {
        check::values(&[
            (bson!({"$bitAnd": []}), bson!(-1)),
            (bson!({"$bitAnd": [6, 3]}), bson!(2)),
            (bson!({"$bitOr": [6, 1i64]}), bson!(7i64)),
            (bson!({"$bitXor": [-1, 1]}), bson!(-2)),
            (bson!({"$bitNot": 0}), bson!(-1)),
            (bson!({"$bitOr": [1, Bson::Null]}), Bson::Null),
        ]);
        check::errors(&[(bson!({"$bitAnd": [1.5]}), 14)]);
    }
}
