//! `$literal`, `$meta`, `$rand`, `$binarySize`, `$bsonSize`, `$type`, `$isNumber`, `$tsSecond`, `$tsIncrement`.

use std::hash::{BuildHasher, Hasher, RandomState};

use super::Env;
use super::args::{ExprArgument, bool_val, count_val};
use super::node::{Expr, ExprCall, ExprOp};
use super::text::string_val;
use crate::error::{Error, Result};
use crate::value::{Val, Value};

#[derive(Debug)]
struct Rand;

/// Returns the value unchanged, even if it looks like an expression.
pub fn literal(arg: ExprArgument<'_>) -> Result<Expr> {
    Ok(Expr::Const(arg.value.to_value()))
}

/// Parses `$meta`. No stage here performs a search, so the metadata of a search is missing or unavailable. Metadata that
/// MongoDB has without a search is refused by name as not implemented.
pub fn meta(arg: ExprArgument<'_>) -> Result<Expr> {
    let unavailable = |what: &str| {
        Err(Error::location(
            40218,
            format!("query requires {what} metadata, but it is not available"),
        ))
    };
    match arg.value.as_str() {
        None => Err(Error::location(
            17307,
            "$meta only supports string arguments",
        )),
        Some("textScore") => unavailable("text score"),
        Some("geoNearDistance") => unavailable("$geoNear distance"),
        Some("geoNearPoint") => unavailable("$geoNear point"),
        Some(
            "randVal"
            | "score"
            | "scoreDetails"
            | "searchHighlights"
            | "searchScore"
            | "searchScoreDetails"
            | "searchSequenceToken"
            | "vectorSearchScore",
        ) => Ok(Expr::Const(Value::missing())),
        Some(name @ ("indexKey" | "recordId" | "sortKey")) => {
            Err(Error::not_implemented(format!("{{$meta: \"{name}\"}}")))
        }
        Some(other) => Err(Error::location(
            17308,
            format!("Unsupported argument to $meta: {other}"),
        )),
    }
}

pub fn rand(arg: ExprArgument<'_>) -> Result<Expr> {
    let Some(arguments) = arg.value.as_doc().or(arg.value.as_array()) else {
        return Err(Error::location(
            10065,
            "invalid parameter: expected an object ($rand)",
        ));
    };
    if !arguments.is_empty() {
        return Err(Error::location(
            3040501,
            "$rand does not currently accept arguments",
        ));
    }
    Ok(Expr::op(Rand))
}

/// Returns the number of bytes in a string or in binary data.
pub fn binary_size<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let value = call.arg(0, env)?;
    let value = value.as_ref();
    if value.is_nullish() {
        return Ok(Val::NULL);
    }
    let size = value
        .as_str()
        .map(str::len)
        .or(value.as_binary().map(|(_, bytes)| bytes.len()));
    match size {
        Some(size) => count_val(size),
        None => Err(Error::location(
            51276,
            format!(
                "$binarySize requires a string or BinData argument, found: {}",
                value.ty().alias()
            ),
        )),
    }
}

pub fn bson_size<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let value = call.arg(0, env)?;
    let value = value.as_ref();
    if value.is_nullish() {
        return Ok(Val::NULL);
    }
    match value.as_doc() {
        Some(doc) => count_val(doc.bytes().len()),
        None => Err(Error::location(
            31393,
            format!(
                "$bsonSize requires a document input, found: {}",
                value.ty().alias()
            ),
        )),
    }
}

pub fn type_<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    string_val(call.arg(0, env)?.ty().alias())
}

pub fn is_number<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    bool_val(call.arg(0, env)?.ty().is_number())
}

pub fn ts_second<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    timestamp(call, env, 5687301, |(seconds, _)| seconds)
}

pub fn ts_increment<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    timestamp(call, env, 5687302, |(_, increment)| increment)
}

fn timestamp<'a>(
    call: &'a ExprCall,
    env: Env<'a>,
    code: i32,
    part: impl Fn((u32, u32)) -> u32,
) -> Result<Val<'a>> {
    let value = call.arg(0, env)?;
    let value = value.as_ref();
    if value.is_nullish() {
        return Ok(Val::NULL);
    }
    match value.as_timestamp() {
        Some(both) => Ok(Val::Own(Value::int64(part(both).into()))),
        None => Err(Error::location(
            code,
            format!(
                "Argument to {} must be a timestamp, but is {}",
                call.name,
                value.ty().alias()
            ),
        )),
    }
}

/// Returns a random double in [0, 1), from 53 random bits.
pub fn random() -> f64 {
    // Each RandomState has its own keys, so its hash of no input is a new random number.
    let bits = RandomState::new().build_hasher().finish();
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

// === impl Rand ===

impl ExprOp for Rand {
    fn eval<'a>(&'a self, _: Env<'a>) -> Result<Val<'a>> {
        Ok(Val::Own(Value::double(random())))
    }

    fn each(&self, _: &mut dyn FnMut(&Expr)) {}

    fn is_pure(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Bson, Timestamp, bson, doc};

    #[test]
    fn values() {
        let moment = Timestamp {
            time: 7,
            increment: 2,
        };
        check::values(&[
            (bson!({"$binarySize": "é"}), bson!(2)),
            (bson!({"$bsonSize": {}}), bson!(5)),
            (bson!({"$bsonSize": Bson::Null}), Bson::Null),
            (bson!({"$type": "$none"}), bson!("missing")),
            (bson!({"$type": 1i64}), bson!("long")),
            (bson!({"$isNumber": 1.5}), bson!(true)),
            (bson!({"$isNumber": "1"}), bson!(false)),
            (bson!({"$tsSecond": moment}), bson!(7i64)),
            (bson!({"$tsIncrement": moment}), bson!(2i64)),
        ]);
        check::errors(&[
            (bson!({"$rand": {"a": 1}}), 3040501),
            (bson!({"$binarySize": 1}), 51276),
            (bson!({"$bsonSize": 1}), 31393),
        ]);
        let [a, b] = [(); 2].map(|()| {
            check::run(&bson!({"$rand": {}}), &doc! {})
                .get_f64("r")
                .unwrap()
        });
        assert!((0.0..1.0).contains(&a) && a != b);
    }
}
