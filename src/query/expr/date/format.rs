//! `$dateToString`.

use std::fmt::Write;

use super::super::Env;
use super::super::args::{ExprArgument, eval_or, show, unrecognized};
use super::super::node::{Expr, ExprOp};
use super::super::text::string_val;
use super::civil::{check_year, iso_week, iso_weekday};
use super::extract::sunday_week;
use super::zone::{Local, Zone};
use super::{ZoneArg, moment_or_null, operator};
use crate::error::{Error, Result};
use crate::value::{Val, ValueRef};

#[derive(Debug)]
struct ToString {
    date: Expr,
    format: Option<Expr>,
    zone: ZoneArg,
    on_null: Option<Expr>,
}

pub fn date_to_string(arg: ExprArgument<'_>) -> Result<Expr> {
    let [date, format, zone, on_null] = arg.named(
        ["date", "format", "timezone", "onNull"],
        unrecognized("argument", arg.name, [18629, 18534], |_| 18628),
    )?;
    let to_string = ToString {
        date: arg.operand(date.required()?)?,
        format: arg.optional(format.value())?,
        zone: ZoneArg::parse(zone.value(), arg)?,
        on_null: arg.optional(on_null.value())?,
    };
    Ok(operator(to_string, |to_string| to_string.zone.check()))
}

const SPECIFIERS: &str = "bBdGHjLmMSuUVwYzZ%";

/// Checks an evaluated `format`. `None` means null.
pub fn format_text<'a>(
    value: ValueRef<'a>,
    name: &str,
    code: i32,
    specifiers: &str,
) -> Result<Option<&'a str>> {
    if value.is_nullish() {
        return Ok(None);
    }
    let text = value.as_str().ok_or_else(|| {
        Error::location(
            code,
            format!(
                "{name} requires that 'format' be a string, found: {} with value {}",
                value.ty().alias(),
                show(value)
            ),
        )
    })?;
    check(text, specifiers)?;
    Ok(Some(text))
}

/// Returns an error for a format with an unknown specifier.
fn check(format: &str, specifiers: &str) -> Result<()> {
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            continue;
        }
        match letters.next() {
            None => {
                return Err(Error::location(
                    18535,
                    "Unmatched '%' at end of format string",
                ));
            }
            Some(spec) if specifiers.contains(spec) => {}
            Some(spec) => {
                return Err(Error::location(
                    18536,
                    format!("Invalid format character '%{spec}' in format string"),
                ));
            }
        }
    }
    Ok(())
}

fn write(format: &str, local: &Local) -> Result<String> {
    let mut out = String::new();
    let mut letters = format.chars();
    let year = |year: i64| check_year(year).map(|()| year);
    let month = local.date.month_name();
    let minutes = local.offset / 60_000;
    let sign = if minutes < 0 { '-' } else { '+' };
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        // Writing to a String cannot fail.
        let _ = match letters.next() {
            Some('b') => write!(out, "{}", month.get(..3).unwrap_or(month)),
            Some('B') => write!(out, "{month}"),
            Some('d') => write!(out, "{:02}", local.date.day),
            Some('G') => write!(out, "{:04}", year(iso_week(local.days).0)?),
            Some('H') => write!(out, "{:02}", local.hour),
            Some('j') => write!(out, "{:03}", local.date.day_of_year()),
            Some('L') => write!(out, "{:03}", local.milli),
            Some('m') => write!(out, "{:02}", local.date.month),
            Some('M') => write!(out, "{:02}", local.minute),
            Some('S') => write!(out, "{:02}", local.second),
            Some('u') => write!(out, "{}", iso_weekday(local.days)),
            Some('U') => write!(out, "{:02}", sunday_week(local)),
            Some('V') => write!(out, "{:02}", iso_week(local.days).1),
            Some('w') => write!(out, "{}", iso_weekday(local.days) % 7 + 1),
            Some('Y') => write!(out, "{:04}", year(local.date.year)?),
            Some('z') => write!(
                out,
                "{sign}{:02}{:02}",
                minutes.abs() / 60,
                minutes.abs() % 60
            ),
            Some('Z') => write!(out, "{minutes}"),
            Some(other) => write!(out, "{other}"),
            None => Ok(()),
        };
    }
    Ok(out)
}

// === impl ToString ===

impl ExprOp for ToString {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        let date = self.date.eval_in(env)?;
        let format = eval_or(&self.format, env, Val::MISSING)?;
        let format = format_text(format.as_ref(), "$dateToString", 18533, SPECIFIERS)?;
        let zone = self.zone.eval(env)?;
        if date.as_ref().is_nullish() {
            return eval_or(&self.on_null, env, Val::NULL);
        }
        let Some(zone) = zone else {
            return Ok(Val::NULL);
        };
        let text = match format {
            Some(text) => text,
            None if self.format.is_some() => return Ok(Val::NULL),
            None => default(&zone),
        };
        // Only now the type of the date counts: null in another argument wins over a wrong one.
        let Some(millis) = moment_or_null(date.as_ref())? else {
            return Ok(Val::NULL);
        };
        string_val(&write(text, &zone.local(millis))?)
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(&self.date);
        self.format.iter().for_each(&mut *visit);
        self.zone.each(visit);
        self.on_null.iter().for_each(visit);
    }
}

fn default(zone: &Zone) -> &'static str {
    if zone.is_utc() {
        "%Y-%m-%dT%H:%M:%S.%LZ"
    } else {
        "%Y-%m-%dT%H:%M:%S.%L"
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::check;
    use super::super::FRIDAY;
    use bson::{Bson, bson};

    #[test]
    fn values() {
        let date = FRIDAY;
        check::values(&[
            (
                bson!({"$dateToString": {"date": date}}),
                bson!("2021-01-01T00:30:15.123Z"),
            ),
            (
                bson!({"$dateToString": {"date": date, "format": "%Y/%m/%d %H:%M:%S:%L %j %u %w %U %G-%V %b %B %z %Z %%", "timezone": "-01:30"}}),
                bson!("2020/12/31 23:00:15:123 366 4 5 52 2020-53 Dec December -0130 -90 %"),
            ),
            (
                bson!({"$dateToString": {"date": Bson::Null, "onNull": "none"}}),
                bson!("none"),
            ),
        ]);
        check::errors(&[
            (
                bson!({"$dateToString": {"date": date, "format": "%q"}}),
                18536,
            ),
            (bson!({"$dateToString": {"date": date, "format": 1}}), 18533),
            (bson!({"$dateToString": {}}), 18628),
        ]);
    }
}
