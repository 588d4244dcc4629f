//! `$dateToParts`, `$dateFromParts`.

use super::super::Env;
use super::super::args::{ExprArgument, integral_i64, show, unrecognized};
use super::super::node::{Expr, ExprOp};
use super::civil::{Civil, MILLIS_PER_DAY, iso_week, iso_weekday, iso_year_start};
use super::{ZoneArg, moment_or_null, operator};
use crate::args::NamedArg;
use crate::error::{Code, Error, Result};
use crate::value::{DocBuf, Val, Value};

#[derive(Debug)]
struct ToParts {
    date: Expr,
    zone: ZoneArg,
    iso: Option<Expr>,
}

#[derive(Debug)]
struct FromParts {
    /// Year, month and day, or the three ISO parts in their place; then hour, minute, second, millisecond.
    fields: [Option<Expr>; 7],
    iso: bool,
    zone: ZoneArg,
}

/// The arguments of `$dateFromParts`. The three ISO parts come after the seven of the ordinary calendar.
const PARTS: [&str; 11] = [
    "year",
    "month",
    "day",
    "hour",
    "minute",
    "second",
    "millisecond",
    "isoWeekYear",
    "isoWeek",
    "isoDayOfWeek",
    "timezone",
];
const YEAR: usize = 0;
const HOUR: usize = 3;
const ISO: usize = 7;
/// Parts that must fit into 16 bits: all but year, second and millisecond.
const BOUNDED: [usize; 4] = [1, 2, HOUR, HOUR + 1];

pub fn date_to_parts(arg: ExprArgument<'_>) -> Result<Expr> {
    let [date, zone, iso] = arg.named(
        ["date", "timezone", "iso8601"],
        unrecognized("argument", arg.name, [40524, 40520], |_| 40522),
    )?;
    let to_parts = ToParts {
        date: arg.operand(date.required()?)?,
        zone: ZoneArg::parse(zone.value(), arg)?,
        iso: arg.optional(iso.value())?,
    };
    Ok(operator(to_parts, |to_parts| to_parts.zone.check()))
}

pub fn date_from_parts(arg: ExprArgument<'_>) -> Result<Expr> {
    let words = unrecognized("argument", arg.name, [40519, 40518], |_| 40516);
    let [
        year,
        month,
        day,
        hour,
        minute,
        second,
        milli,
        iso_year,
        iso_week,
        iso_day,
        zone,
    ] = arg.named(PARTS, words)?.map(NamedArg::value);
    if year.is_none() && iso_year.is_none() {
        return Err(Error::location(
            40516,
            "$dateFromParts requires either 'year' or 'isoWeekYear' to be present",
        ));
    }
    let iso = year.is_none();
    if !iso && [iso_year, iso_week, iso_day].iter().any(Option::is_some) {
        return Err(Error::location(
            40489,
            "$dateFromParts does not allow mixing natural dates with ISO dates",
        ));
    }
    if iso && [month, day].iter().any(Option::is_some) {
        return Err(Error::location(
            40525,
            "$dateFromParts does not allow mixing ISO dates with natural dates",
        ));
    }
    let [first, second_part, third] = if iso {
        [iso_year, iso_week, iso_day]
    } else {
        [year, month, day]
    };
    let from_parts = FromParts {
        fields: [
            arg.optional(first)?,
            arg.optional(second_part)?,
            arg.optional(third)?,
            arg.optional(hour)?,
            arg.optional(minute)?,
            arg.optional(second)?,
            arg.optional(milli)?,
        ],
        iso,
        zone: ZoneArg::parse(zone, arg)?,
    };
    Ok(operator(from_parts, |from_parts| from_parts.zone.check()))
}

// === impl ToParts ===

impl ExprOp for ToParts {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        let date = self.date.eval_in(env)?;
        let Some(zone) = self.zone.eval(env)? else {
            return Ok(Val::NULL);
        };
        let iso = match &self.iso {
            None => false,
            Some(expr) => {
                let value = expr.eval_in(env)?;
                let value = value.as_ref();
                if value.is_nullish() {
                    return Ok(Val::NULL);
                }
                value.as_bool().ok_or_else(|| {
                    Error::location(
                        40521,
                        format!(
                            "iso8601 must evaluate to a bool, found {}",
                            value.ty().alias()
                        ),
                    )
                })?
            }
        };
        let Some(millis) = moment_or_null(date.as_ref())? else {
            return Ok(Val::NULL);
        };
        let local = zone.local(millis);
        let parts = DocBuf::build(|out| {
            if iso {
                let (year, week) = iso_week(local.days);
                out.put_i32("isoWeekYear", year as i32)
                    .put_i32("isoWeek", week as i32)
                    .put_i32("isoDayOfWeek", iso_weekday(local.days) as i32);
            } else {
                out.put_i32("year", local.date.year as i32)
                    .put_i32("month", local.date.month as i32)
                    .put_i32("day", local.date.day as i32);
            }
            out.put_i32("hour", local.hour as i32)
                .put_i32("minute", local.minute as i32)
                .put_i32("second", local.second as i32)
                .put_i32("millisecond", local.milli as i32);
        });
        Ok(Val::Own(Value::document(parts.into_bytes())))
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(&self.date);
        self.zone.each(visit);
        self.iso.iter().for_each(visit);
    }
}

// === impl FromParts ===

impl FromParts {
    fn name(&self, at: usize) -> &'static str {
        let at = if self.iso && at < 3 { ISO + at } else { at };
        PARTS.get(at).copied().unwrap_or_default()
    }

    /// Returns a part as an integer, or its default if it is absent. `None` means null.
    fn field<'a>(&'a self, at: usize, env: Env<'a>) -> Result<Option<i64>> {
        let Some(expr) = self.fields.get(at).and_then(Option::as_ref) else {
            return Ok(Some(i64::from(at < 3)));
        };
        let value = expr.eval_in(env)?;
        let value = value.as_ref();
        if value.is_nullish() {
            return Ok(None);
        }
        let name = self.name(at);
        let number = integral_i64(value).ok_or_else(|| {
            Error::location(
                40515,
                format!(
                    "'{name}' must evaluate to an integer, found {} with value {}",
                    value.ty().alias(),
                    show(value)
                ),
            )
        })?;
        if BOUNDED.contains(&at) && i16::try_from(number).is_err() {
            return Err(Error::location(
                31034,
                format!(
                    "'{name}' must evaluate to a value in the range [-32768, 32767]; value {number} is not in range"
                ),
            ));
        }
        Ok(Some(number))
    }

    /// Returns parts in their order, up to the first one that is null or wrong.
    fn fields<'a, const N: usize>(&'a self, from: usize, env: Env<'a>) -> Result<Option<[i64; N]>> {
        let mut numbers = [0; N];
        for (at, number) in numbers.iter_mut().enumerate() {
            match self.field(from + at, env)? {
                Some(given) => *number = given,
                None => return Ok(None),
            }
        }
        Ok(Some(numbers))
    }

    fn check_year(&self, year: i64) -> Result<()> {
        if (1..=9999).contains(&year) {
            return Ok(());
        }
        Err(Error::location(
            if self.iso { 31095 } else { 40523 },
            format!(
                "'{}' must evaluate to an integer in the range 1 to 9999, found {year}",
                self.name(YEAR)
            ),
        ))
    }
}

impl ExprOp for FromParts {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        // MongoDB looks at the time of day and the zone before the day, and the first null wins over what is wrong behind it.
        let Some([hour, minute, seconds, milli]) = self.fields(HOUR, env)? else {
            return Ok(Val::NULL);
        };
        let Some(zone) = self.zone.eval(env)? else {
            return Ok(Val::NULL);
        };
        let Some([year, second, third]) = self.fields(YEAR, env)? else {
            return Ok(Val::NULL);
        };
        self.check_year(year)?;
        let days = if self.iso {
            iso_year_start(year) + (second - 1) * 7 + (third - 1)
        } else {
            // Months beyond the year carry over into the next year, and days beyond the month into the next month.
            let months = year * 12 + (second - 1);
            Civil {
                year: months.div_euclid(12),
                month: months.rem_euclid(12) + 1,
                day: 1,
            }
            .to_days()
                + (third - 1)
        };
        let local = [
            (days, MILLIS_PER_DAY),
            (hour, 3_600_000),
            (minute, 60_000),
            (seconds, 1000),
            (milli, 1),
        ]
        .into_iter()
        .try_fold(0i64, |sum, (count, unit)| {
            sum.checked_add(count.checked_mul(unit)?)
        });
        // MongoDB counts in microseconds.
        let local = local.filter(|_| milli.checked_mul(1000).is_some());
        let millis = local.and_then(|local| zone.utc(local)).ok_or_else(|| {
            Error::new(
                Code::DurationOverflow,
                "Overflow casting from a lower-precision duration to a higher-precision duration",
            )
        })?;
        Ok(Val::Own(Value::date(millis)))
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        self.fields.iter().flatten().for_each(&mut *visit);
        self.zone.each(visit);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::check;
    use super::super::FRIDAY;
    use bson::{Bson, DateTime, bson};

    #[test]
    fn values() {
        let date = FRIDAY;
        check::values(&[
            (
                bson!({"$dateToParts": {"date": date}}),
                bson!({"year": 2021, "month": 1, "day": 1, "hour": 0, "minute": 30, "second": 15, "millisecond": 123}),
            ),
            (
                bson!({"$dateFromParts": {"year": 2021, "month": 1, "day": 1, "minute": 30, "second": 15, "millisecond": 123}}),
                date.into(),
            ),
            (
                bson!({"$dateFromParts": {"year": 2020, "month": 13, "day": 1, "minute": 30, "second": 15, "millisecond": 123}}),
                date.into(),
            ),
            (
                bson!({"$dateFromParts": {"isoWeekYear": 2020, "isoWeek": 53, "isoDayOfWeek": 5, "hour": 1, "timezone": "+01:00"}}),
                DateTime::from_millis(1_609_459_200_000).into(),
            ),
            (
                bson!({"$dateFromParts": {"year": 2020, "month": Bson::Null}}),
                Bson::Null,
            ),
        ]);
        check::errors(&[
            (bson!({"$dateToParts": 1}), 40524),
            (bson!({"$dateFromParts": {}}), 40516),
            (bson!({"$dateFromParts": {"year": "x"}}), 40515),
            (bson!({"$dateFromParts": {"year": 0}}), 40523),
            (
                bson!({"$dateFromParts": {"year": 2020, "isoWeek": 1}}),
                40489,
            ),
        ]);
    }
}
