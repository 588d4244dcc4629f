//! `$dateTrunc`: the beginning of the bin that contains a date. Bins are counted from 2000-01-01.

use super::super::Env;
use super::super::args::{ExprArgument, integral_i64, show, unrecognized};
use super::super::node::{Expr, ExprOp};
use super::civil::{Civil, MILLIS_PER_DAY, iso_weekday};
use super::unit::{Unit, first_day, weekday};
use super::zone::Zone;
use super::{ZoneArg, check_const, moment_arg, operator};
use crate::error::{Error, Result};
use crate::value::{Val, Value, ValueRef};

#[derive(Debug)]
struct Trunc {
    date: Expr,
    unit: Expr,
    bin: Option<Expr>,
    zone: ZoneArg,
    week: Option<Expr>,
}

/// The largest bin of calendar units that MongoDB counts with.
const MAX_BIN: i64 = 100_000_000_000;

/// 2000-01-01, a Saturday, in days since 1970-01-01.
const REFERENCE: i64 = 10_957;

pub fn date_trunc(arg: ExprArgument<'_>) -> Result<Expr> {
    let [date, unit, bin, zone, week] = arg.named(
        ["date", "unit", "binSize", "timezone", "startOfWeek"],
        unrecognized(
            "argument",
            arg.name,
            [5439007, 5439008],
            |field| match field {
                "date" => 5439009,
                _ => 5439010,
            },
        ),
    )?;
    let (date, unit) = (date.required()?, unit.required()?);
    let name = arg.name;
    let trunc = Trunc {
        date: arg.operand(date)?,
        unit: arg.operand(unit)?,
        bin: arg.optional(bin.value())?,
        zone: ZoneArg::parse(zone.value(), arg)?,
        week: arg.optional(week.value())?,
    };
    Ok(operator(trunc, |trunc| {
        check_const(Some(&trunc.unit), |unit| Unit::of(name, unit).map(drop))?;
        check_const(trunc.week.as_ref(), |day| weekday(name, day).map(drop))?;
        trunc.zone.check_for(name)?;
        check_const(trunc.bin.as_ref(), |bin| bin_size(bin).map(drop))
    }))
}

/// Returns the beginning of the bin, or `None` if the bin is too large or the result is out of range.
fn truncated(millis: i64, unit: Unit, bin: i64, zone: &Zone, first_day: i64) -> Option<i64> {
    let floor = |value: i64, from: i64, step: i64| -> Option<i64> {
        from.checked_add(
            value
                .checked_sub(from)?
                .div_euclid(step)
                .checked_mul(step)?,
        )
    };
    let calendar = unit.months().is_some() || matches!(unit, Unit::Week | Unit::Day);
    if calendar && bin > MAX_BIN {
        return None;
    }
    let local = zone.local(millis);
    if let Some(months) = unit.months() {
        let step = bin.checked_mul(months)?;
        let month = floor(local.date.year * 12 + local.date.month - 1, 2000 * 12, step)?;
        let days = Civil {
            year: month.div_euclid(12),
            month: month.rem_euclid(12) + 1,
            day: 1,
        }
        .to_days();
        return zone.utc(days.checked_mul(MILLIS_PER_DAY)?);
    }
    match unit {
        Unit::Week | Unit::Day => {
            let (from, step) = if unit == Unit::Week {
                let shift = (first_day - iso_weekday(REFERENCE)).rem_euclid(7);
                (REFERENCE + shift, bin.checked_mul(7)?)
            } else {
                (REFERENCE, bin)
            };
            let days = floor(local.days, from, step)?;
            zone.utc(days.checked_mul(MILLIS_PER_DAY)?)
        }
        _ => {
            let from = zone.utc(REFERENCE * MILLIS_PER_DAY)?;
            let step = bin.checked_mul(unit.millis())?;
            if unit == Unit::Hour {
                // Hours follow the local clock, whose offset may have changed since 2000.
                let moved = local.offset - zone.offset_at(from);
                return floor(millis.checked_add(moved)?, from, step)?.checked_sub(moved);
            }
            floor(millis, from, step)
        }
    }
}

/// Parses the `binSize` argument.
fn bin_size(bin: ValueRef<'_>) -> Result<i64> {
    let size = integral_i64(bin).ok_or_else(|| {
        Error::location(
            5439017,
            format!(
                "$dateTrunc requires 'binSize' to be a 64-bit integer, but got value '{}' of type {}",
                show(bin),
                bin.ty().alias()
            ),
        )
    })?;
    match size > 0 {
        true => Ok(size),
        false => Err(Error::location(
            5439018,
            format!("$dateTrunc requires 'binSize' to be greater than 0, but got value {size}"),
        )),
    }
}

// === impl Trunc ===

impl ExprOp for Trunc {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        let date = self.date.eval_in(env)?;
        let date = date.as_ref();
        if date.is_nullish() {
            return Ok(Val::NULL);
        }
        let size = match &self.bin {
            None => 1,
            Some(bin) => {
                let bin = bin.eval_in(env)?;
                if bin.as_ref().is_nullish() {
                    return Ok(Val::NULL);
                }
                bin_size(bin.as_ref())?
            }
        };
        let Some(unit) = Unit::eval("$dateTrunc", &self.unit, env)? else {
            return Ok(Val::NULL);
        };
        let week = self.week.as_ref();
        let Some(first_day) = first_day("$dateTrunc", unit, week, &self.date, env)? else {
            return Ok(Val::NULL);
        };
        let Some(zone) = self.zone.eval_for("$dateTrunc", env)? else {
            return Ok(Val::NULL);
        };
        let millis = moment_arg(date, "$dateTrunc", "date")?;
        match truncated(millis, unit, size, &zone, first_day) {
            Some(millis) => Ok(Val::Own(Value::date(millis))),
            None => {
                let (code, words) = match unit {
                    Unit::Year | Unit::Quarter | Unit::Month | Unit::Week | Unit::Day => {
                        (5439006, "dateTrunc unsupported binSize value")
                    }
                    _ => (5439002, "dateTrunc overflowed"),
                };
                Err(Error::location(code, words))
            }
        }
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(&self.date);
        visit(&self.unit);
        self.bin.iter().for_each(&mut *visit);
        self.zone.each(visit);
        self.week.iter().for_each(visit);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::check;
    use bson::{Bson, DateTime, bson};

    #[test]
    fn values() {
        // 2021-03-20T11:30:05Z, a Saturday.
        let date = DateTime::from_millis(1_616_239_805_000);
        let trunc = |unit: &str, bin: i32| bson!({"$dateTrunc": {"date": date, "unit": unit, "binSize": bin}});
        let text = |text: &str| Bson::from(DateTime::parse_rfc3339_str(text).unwrap());
        check::values(&[
            (trunc("hour", 1), text("2021-03-20T11:00:00Z")),
            (trunc("hour", 2), text("2021-03-20T10:00:00Z")),
            (trunc("day", 1), text("2021-03-20T00:00:00Z")),
            (trunc("week", 1), text("2021-03-14T00:00:00Z")),
            (trunc("month", 2), text("2021-03-01T00:00:00Z")),
            (trunc("quarter", 1), text("2021-01-01T00:00:00Z")),
            (trunc("year", 10), text("2020-01-01T00:00:00Z")),
            (
                bson!({"$dateTrunc": {"date": date, "unit": "week", "startOfWeek": "monday"}}),
                text("2021-03-15T00:00:00Z"),
            ),
            (
                bson!({"$dateTrunc": {"date": date, "unit": "day", "timezone": "Asia/Kolkata"}}),
                text("2021-03-19T18:30:00Z"),
            ),
        ]);
        check::errors(&[
            (trunc("day", 0), 5439018),
            (trunc("eon", 1), 9),
            (bson!({"$dateTrunc": {"date": date}}), 5439010),
        ]);
    }
}
