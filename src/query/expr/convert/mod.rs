//! `$convert` and its short forms `$toInt`, `$toString`, ...
//!
//! [`parse`](parse()) reads the arguments. [`target`] decides which conversion applies, and [`number`] and [`binary`] carry
//! it out. An error becomes the value of `onError`, if the client gave one.

pub(in crate::query) mod binary;
mod number;
mod target;

use target::{ConvertOptions, convert};

use super::Env;
use super::args::{ExprArgument, eval_or, integral_i64};
use super::node::{Expr, ExprOp};
use crate::args::{ArgumentError, named_as};
use crate::error::{Code, Error, Result};
use crate::value::{Type, Val, ValueRef};

#[derive(Debug)]
struct Convert {
    input: Expr,
    to: Expr,
    subtype: Option<Expr>,
    format: Option<Expr>,
    byte_order: Option<Expr>,
    on_error: Option<Expr>,
    on_null: Option<Expr>,
}

/// A short form: `$toInt: x` is `$convert: {input: x, to: "int"}`.
#[derive(Debug)]
struct ToType {
    target: Type,
    options: ConvertOptions,
    input: Expr,
}

pub fn parse(arg: ExprArgument<'_>) -> Result<Expr> {
    let mut subtype = None;
    let [input, to, format, byte_order, on_error, on_null] = named_as(
        arg.value,
        ["input", "to", "format", "byteOrder", "onError", "onNull"],
        |wrong| {
            Error::failed_to_parse(match wrong {
                ArgumentError::NotAnObject(ty) => {
                    format!("$convert expects an object of named arguments but found: {ty}")
                }
                ArgumentError::Unknown(field) => {
                    format!("$convert found an unknown argument: {field}")
                }
                ArgumentError::Missing(field) => format!("Missing '{field}' parameter to $convert"),
            })
        },
        |name, value| match name {
            "to" => {
                let (ty, given) = type_and_subtype(value)?;
                let ty = arg.operand(ty)?;
                subtype = arg.optional(given)?;
                Ok(ty)
            }
            _ => arg.operand(value),
        },
    )?;
    let (input, to) = (input.required()?, to.required()?);
    Ok(Expr::op(Convert {
        input,
        to,
        subtype,
        format: format.value(),
        byte_order: byte_order.value(),
        on_error: on_error.value(),
        on_null: on_null.value(),
    }))
}

/// Returns the parts of `to`, which may be an object with a type and a subtype.
fn type_and_subtype(to: ValueRef<'_>) -> Result<(ValueRef<'_>, Option<ValueRef<'_>>)> {
    let parts = to
        .as_doc()
        .filter(|doc| !doc.first().is_some_and(|elem| elem.name().starts_with('$')));
    let Some(doc) = parts else {
        return Ok((to, None));
    };
    // All fields except these two are ignored.
    let field = |name: &str| Some(doc.get(name)).filter(|value| !value.is_missing());
    let ty = field("type")
        .filter(|value| !value.is_nullish())
        .ok_or_else(|| Error::failed_to_parse("Missing 'type' parameter to $convert"))?;
    Ok((ty, field("subtype")))
}

/// Parses a short form. `$toUUID` is the one that returns binary data. An array is a list of one argument.
pub fn to(arg: ExprArgument<'_>, target: Type) -> Result<Expr> {
    let mut args = arg.list()?;
    if args.len() != 1 {
        return Err(Error::location(
            50723,
            format!(
                "{} requires a single argument, got {}",
                arg.name,
                args.len()
            ),
        ));
    }
    Ok(Expr::op(ToType {
        target,
        options: match target {
            Type::Binary => ConvertOptions::uuid(),
            Type::String => ConvertOptions::auto(),
            _ => ConvertOptions::default(),
        },
        input: args.remove(0),
    }))
}

/// Returns the type that `to` names, by alias or number.
fn type_of(value: ValueRef<'_>) -> Result<Type> {
    if let Some(name) = value.as_str() {
        return Type::from_alias(name)
            .or((name == "missing").then_some(Type::Missing))
            .ok_or_else(|| Error::bad_value(format!("Unknown type name: {name}")));
    }
    if !value.ty().is_number() {
        return Err(Error::failed_to_parse(format!(
            "$convert's 'to' argument must be a string or number, but is {}",
            value.ty().alias()
        )));
    }
    let number = integral_i64(value).ok_or_else(|| {
        Error::failed_to_parse("In $convert, numeric 'to' argument is not an integer")
    })?;
    let tag = match number {
        -1 => Some(255),
        0 => return Ok(Type::Missing),
        _ => u8::try_from(number).ok().filter(|&tag| tag != 255),
    };
    tag.and_then(Type::from_tag).ok_or_else(|| {
        Error::failed_to_parse(format!(
            "In $convert, numeric value for 'to' does not correspond to a BSON type: {number}"
        ))
    })
}

// === impl Convert ===

impl Convert {
    fn options<'a>(&'a self, env: Env<'a>) -> Result<ConvertOptions> {
        let subtype = eval_or(&self.subtype, env, Val::MISSING)?;
        let format = eval_or(&self.format, env, Val::MISSING)?;
        let byte_order = eval_or(&self.byte_order, env, Val::MISSING)?;
        ConvertOptions::new(subtype.as_ref(), format.as_ref(), byte_order.as_ref())
    }
}

impl ExprOp for Convert {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        // A type that does not exist is wrong even if there is nothing to convert.
        let to = self.to.eval_in(env)?;
        let input = self.input.eval_in(env)?;
        let target = match to.as_ref().is_nullish() {
            true => None,
            false => Some(type_of(to.as_ref())?),
        };
        if input.as_ref().is_nullish() {
            return eval_or(&self.on_null, env, Val::NULL);
        }
        let Some(target) = target else {
            return Ok(Val::NULL);
        };
        let options = self.options(env)?;
        match (convert(input.as_ref(), target, options), &self.on_error) {
            (Ok(value), _) => Ok(Val::Own(value)),
            (Err(error), Some(instead)) if error.code() == Code::ConversionFailure => {
                instead.eval_in(env)
            }
            (Err(error), _) => Err(error),
        }
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(&self.input);
        visit(&self.to);
        let more = [
            &self.subtype,
            &self.format,
            &self.byte_order,
            &self.on_error,
            &self.on_null,
        ];
        more.into_iter().flatten().for_each(visit);
    }
}

// === impl ToType ===

impl ExprOp for ToType {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        let input = self.input.eval_in(env)?;
        if input.as_ref().is_nullish() {
            return Ok(Val::NULL);
        }
        Ok(Val::Own(convert(
            input.as_ref(),
            self.target,
            self.options,
        )?))
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(&self.input);
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Bson, DateTime, bson, oid::ObjectId};

    #[test]
    fn values() {
        let oid = ObjectId::from_bytes([0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
        check::values(&[
            (bson!({"$toInt": "42"}), bson!(42)),
            (bson!({"$toInt": 42.9}), bson!(42)),
            (bson!({"$toInt": true}), bson!(1)),
            (bson!({"$toLong": DateTime::from_millis(5)}), bson!(5i64)),
            (bson!({"$toDouble": "1.5e3"}), bson!(1500.0)),
            (bson!({"$toString": 1e20}), bson!("1e+20")),
            (bson!({"$toString": 0.1}), bson!("0.1")),
            (
                bson!({"$toString": DateTime::from_millis(0)}),
                bson!("1970-01-01T00:00:00.000Z"),
            ),
            (bson!({"$toString": oid}), bson!("000000070000000000000000")),
            (bson!({"$toBool": "false"}), bson!(true)),
            (bson!({"$toBool": 0.0}), bson!(false)),
            (bson!({"$toDate": oid}), DateTime::from_millis(7000).into()),
            (
                bson!({"$toDate": "2024-02-29T12:00:00Z"}),
                DateTime::from_millis(1_709_208_000_000).into(),
            ),
            (
                bson!({"$toObjectId": "000000070000000000000000"}),
                oid.into(),
            ),
            (bson!({"$toInt": Bson::Null}), Bson::Null),
            (
                bson!({"$convert": {"input": "x", "to": "int", "onError": "bad"}}),
                bson!("bad"),
            ),
            (
                bson!({"$convert": {"input": Bson::Null, "to": 16, "onNull": 0}}),
                bson!(0),
            ),
            (bson!({"$convert": {"input": 7, "to": 2}}), bson!("7")),
        ]);
        check::errors(&[
            (bson!({"$toInt": "x"}), 241),
            (bson!({"$toInt": 1e10}), 241),
            (bson!({"$toInt": [1, 2]}), 50723),
            (bson!({"$convert": {"input": 1, "to": "nope"}}), 2),
            (bson!({"$convert": {"input": 1}}), 9),
            (bson!({"$toInt": {"a": 1}}), 241),
        ]);
    }
}
