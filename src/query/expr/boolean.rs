//! `$and`, `$or`, `$not`.

use super::args::bool_val;
use super::{Call, Env, is_true};
use crate::error::Result;
use crate::value::Val;

/// True without arguments; stops at the first that is false.
pub fn and<'a>(call: &'a Call, env: Env<'a>) -> Result<Val<'a>> {
    for arg in &call.args {
        if !is_true(arg.eval_in(env)?.as_ref()) {
            return bool_val(false);
        }
    }
    bool_val(true)
}

/// False without arguments; stops at the first that is true.
pub fn or<'a>(call: &'a Call, env: Env<'a>) -> Result<Val<'a>> {
    for arg in &call.args {
        if is_true(arg.eval_in(env)?.as_ref()) {
            return bool_val(true);
        }
    }
    bool_val(false)
}

pub fn not<'a>(call: &'a Call, env: Env<'a>) -> Result<Val<'a>> {
    bool_val(!is_true(call.arg(0, env)?.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Bson, bson};

    #[test]
    fn truth_tables() {
        check::values(&[
            (bson!({"$and": []}), bson!(true)),
            (bson!({"$and": [1, "", [0]]}), bson!(true)),
            (bson!({"$and": [1, 0]}), bson!(false)),
            (bson!({"$or": []}), bson!(false)),
            (bson!({"$or": [0, "$none", 2]}), bson!(true)),
            (bson!({"$or": [0, Bson::Null]}), bson!(false)),
            (bson!({"$not": [[]]}), bson!(false)),
            (bson!({"$not": ["$none"]}), bson!(true)),
            // What comes behind the answer is not run.
            (bson!({"$or": ["$$ROOT", {"$size": "$none"}]}), bson!(true)),
        ]);
        check::errors(&[(bson!({"$not": [1, 2]}), 16020)]);
    }
}
