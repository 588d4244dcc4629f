//! `$dateFromString`.

use super::super::Env;
use super::super::args::{ExprArgument, eval_or, show};
use super::super::node::{Expr, ExprOp};
use super::format::format_text;
use super::text::read;
use super::{ZoneArg, operator};
use crate::args::ArgumentError;
use crate::error::{Code, Error, Result};
use crate::value::{Val, Value};

#[derive(Debug)]
struct FromString {
    text: Expr,
    format: Option<Expr>,
    zone: ZoneArg,
    on_error: Option<Expr>,
    on_null: Option<Expr>,
}

/// The allowed letters after a percent sign. Weeks that begin on Sunday, and their days, can be written but not read.
const SPECIFIERS: &str = "bBdGHjLmMSuVYzZ%";

pub fn date_from_string(arg: ExprArgument<'_>) -> Result<Expr> {
    let name = arg.name;
    let [text, format, zone, on_error, on_null] = arg.named(
        ["dateString", "format", "timezone", "onError", "onNull"],
        |wrong| match wrong {
            ArgumentError::NotAnObject(ty) => {
                let words = format!("{name} only supports an object as an argument, found: {ty}");
                (40540, words)
            }
            ArgumentError::Unknown(field) => {
                (40541, format!("Unrecognized argument to {name}: {field}"))
            }
            ArgumentError::Missing(field) => {
                (40542, format!("Missing '{field}' parameter to {name}"))
            }
        },
    )?;
    let from_string = FromString {
        text: arg.operand(text.required()?)?,
        format: arg.optional(format.value())?,
        zone: ZoneArg::parse(zone.value(), arg)?,
        // MongoDB parses them in this order.
        on_null: arg.optional(on_null.value())?,
        on_error: arg.optional(on_error.value())?,
    };
    Ok(operator(from_string, |from_string| {
        from_string.zone.check()
    }))
}

// === impl FromString ===

impl ExprOp for FromString {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        let text = self.text.eval_in(env)?;
        let text = text.as_ref();
        let format = eval_or(&self.format, env, Val::MISSING)?;
        let format = format_text(format.as_ref(), "$dateFromString", 40684, SPECIFIERS)?;
        let zone = self.zone.eval(env)?;
        if text.is_nullish() {
            return eval_or(&self.on_null, env, Val::NULL);
        }
        let result = match text.as_str() {
            Some(body) => {
                let Some(zone) = zone else {
                    return Ok(Val::NULL);
                };
                if self.format.is_some() && format.is_none() {
                    return Ok(Val::NULL);
                }
                read(body, format, &zone)
            }
            None => Err(Error::new(
                Code::ConversionFailure,
                format!(
                    "$dateFromString requires that 'dateString' be a string, found: {} with value {}",
                    text.ty().alias(),
                    show(text)
                ),
            )),
        };
        match (result, &self.on_error) {
            (Ok(millis), _) => Ok(Val::Own(Value::date(millis))),
            (Err(error), Some(instead)) if error.code() == Code::ConversionFailure => {
                instead.eval_in(env)
            }
            (Err(error), _) => Err(error),
        }
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(&self.text);
        self.format.iter().for_each(&mut *visit);
        self.zone.each(visit);
        self.on_error.iter().for_each(&mut *visit);
        self.on_null.iter().for_each(visit);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::check;
    use bson::{Bson, DateTime, bson};

    #[test]
    fn values() {
        let day = Bson::from(DateTime::from_millis(1_486_512_000_000));
        check::values(&[
            (
                bson!({"$dateFromString": {"dateString": "2017-02-08"}}),
                day.clone(),
            ),
            (
                bson!({"$dateFromString": {"dateString": "08/02/2017", "format": "%d/%m/%Y"}}),
                day.clone(),
            ),
            (
                bson!({"$dateFromString": {"dateString": "2017-02-08T01:00", "timezone": "+01:00"}}),
                day,
            ),
            (
                bson!({"$dateFromString": {"dateString": "x", "onError": "bad"}}),
                bson!("bad"),
            ),
            (
                bson!({"$dateFromString": {"dateString": Bson::Null, "onNull": 0}}),
                bson!(0),
            ),
        ]);
        check::errors(&[
            (bson!({"$dateFromString": {"dateString": "x"}}), 241),
            (bson!({"$dateFromString": {"dateString": 1}}), 241),
            (
                bson!({"$dateFromString": {"dateString": "2017-02-08T01:00Z", "timezone": "+01:00"}}),
                241,
            ),
        ]);
    }
}
