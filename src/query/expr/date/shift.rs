//! `$dateAdd`, `$dateSubtract`.

use super::super::Env;
use super::super::args::{ExprArgument, integral_i64, show};
use super::super::node::{Expr, ExprOp};
use super::civil::{Civil, MILLIS_PER_DAY, days_in_month};
use super::unit::Unit;
use super::zone::Zone;
use super::{ZoneArg, check_const, moment, operator};
use crate::args::ArgumentError;
use crate::error::{Code, Error, Result};
use crate::value::{Val, Value};

#[derive(Debug)]
struct Shift {
    name: &'static str,
    /// Whether the amount is subtracted.
    back: bool,
    start: Expr,
    unit: Expr,
    amount: Expr,
    zone: ZoneArg,
}

pub fn date_add(arg: ExprArgument<'_>) -> Result<Expr> {
    parse(arg, false)
}

pub fn date_subtract(arg: ExprArgument<'_>) -> Result<Expr> {
    parse(arg, true)
}

fn parse(arg: ExprArgument<'_>, back: bool) -> Result<Expr> {
    let name = arg.name;
    let [start, unit, amount, zone] = arg.operands(
        ["startDate", "unit", "amount", "timezone"],
        |wrong| match wrong {
            ArgumentError::NotAnObject(_) => {
                (5166400, format!("{name} expects an object as its argument"))
            }
            ArgumentError::Unknown(field) => {
                (5166401, format!("Unrecognized argument to {name}: {field}"))
            }
            ArgumentError::Missing(_) => {
                let words = format!("{name} requires startDate, unit, and amount to be present");
                (5166402, words)
            }
        },
    )?;
    let (start, unit, amount) = (start.required()?, unit.required()?, amount.required()?);
    let shift = Shift {
        name,
        back,
        start,
        unit,
        amount,
        zone: ZoneArg::of(zone.value()),
    };
    Ok(operator(shift, |shift| {
        check_const(Some(&shift.unit), |unit| Unit::of(name, unit).map(drop))?;
        shift.zone.check()
    }))
}

/// From where on MongoDB refuses an amount: roughly what its dates span. Milliseconds just overflow.
fn too_many(unit: Unit) -> Option<u64> {
    const DAYS: u64 = u64::MAX / MILLIS_PER_DAY.unsigned_abs() + 1;
    const YEARS: u64 = DAYS / 365 + 1;
    Some(match unit {
        Unit::Year => YEARS,
        Unit::Quarter => YEARS * 4,
        Unit::Month => YEARS * 12,
        Unit::Week => DAYS / 7,
        Unit::Day => DAYS,
        Unit::Hour => DAYS * 24,
        Unit::Minute => DAYS * 24 * 60,
        Unit::Second => DAYS * 24 * 60 * 60,
        Unit::Millisecond => return None,
    })
}

/// Returns the moment that many units later. Months, weeks and days follow the local calendar; shorter units have a fixed
/// length.
pub fn shifted(millis: i64, unit: Unit, amount: i64, zone: &Zone) -> Option<i64> {
    if let Some(months) = unit.months() {
        let local = zone.local(millis);
        let total = (local.date.year * 12 + local.date.month - 1)
            .checked_add(amount.checked_mul(months)?)?;
        let (year, month) = (total.div_euclid(12), total.rem_euclid(12) + 1);
        // For years beyond this the number of days could overflow.
        if year.abs() > 300_000_000 {
            return None;
        }
        let days = Civil {
            year,
            month,
            day: local.date.day.min(days_in_month(year, month)),
        }
        .to_days();
        return at_days(days, &local, zone);
    }
    if matches!(unit, Unit::Week | Unit::Day) {
        let local = zone.local(millis);
        let days = amount.checked_mul(unit.millis() / MILLIS_PER_DAY)?;
        return at_days(local.days.checked_add(days)?, &local, zone);
    }
    millis.checked_add(amount.checked_mul(unit.millis())?)
}

/// Returns the moment on another day at the same local time.
fn at_days(days: i64, local: &super::zone::Local, zone: &Zone) -> Option<i64> {
    let time = ((local.hour * 60 + local.minute) * 60 + local.second) * 1000 + local.milli;
    zone.utc(days.checked_mul(MILLIS_PER_DAY)?.checked_add(time)?)
}

// === impl Shift ===

impl ExprOp for Shift {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        let start = self.start.eval_in(env)?;
        let start = start.as_ref();
        if start.is_nullish() {
            return Ok(Val::NULL);
        }
        let Some(unit) = Unit::eval(self.name, &self.unit, env)? else {
            return Ok(Val::NULL);
        };
        let amount = self.amount.eval_in(env)?;
        let amount = amount.as_ref();
        if amount.is_nullish() {
            return Ok(Val::NULL);
        }
        let Some(zone) = self.zone.eval(env)? else {
            return Ok(Val::NULL);
        };
        let millis = moment(start).ok_or_else(|| {
            Error::location(
                5166403,
                format!(
                    "{} requires startDate to be convertible to a date",
                    self.name
                ),
            )
        })?;
        let given = integral_i64(amount).ok_or_else(|| {
            Error::location(
                5166405,
                format!("{} expects integer amount of time units", self.name),
            )
        })?;
        let steps = if self.back {
            given.checked_neg().ok_or_else(|| {
                Error::location(
                    6045000,
                    format!(
                        "invalid {} 'amount' parameter value: {}",
                        self.name,
                        show(amount)
                    ),
                )
            })?
        } else {
            given
        };
        if too_many(unit).is_some_and(|limit| steps.unsigned_abs() >= limit) {
            return Err(Error::location(
                5976500,
                format!(
                    "invalid dateAdd 'amount' parameter value: {steps} {}",
                    unit.name()
                ),
            ));
        }
        match shifted(millis, unit, steps, &zone) {
            Some(millis) => Ok(Val::Own(Value::date(millis))),
            None if matches!(unit, Unit::Millisecond) => Err(Error::new(
                Code::DurationOverflow,
                format!("Overflow while adding {steps}ms to {millis}ms"),
            )),
            None => Err(Error::location(5166406, "dateAdd overflowed")),
        }
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(&self.start);
        visit(&self.unit);
        visit(&self.amount);
        self.zone.each(visit);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::check;
    use bson::{Bson, DateTime, bson};

    #[test]
    fn values() {
        // 2024-01-31T12:00Z
        let date = DateTime::from_millis(1_706_702_400_000);
        let shift = |unit: &str, amount: i32| bson!({"$dateAdd": {"startDate": date, "unit": unit, "amount": amount}});
        let days = |count: i64| {
            Bson::from(DateTime::from_millis(
                1_706_702_400_000 + count * 86_400_000,
            ))
        };
        check::values(&[
            (shift("month", 1), days(29)),
            (shift("year", 1), days(366)),
            (shift("week", -1), days(-7)),
            (shift("hour", 48), days(2)),
            (
                bson!({"$dateSubtract": {"startDate": date, "unit": "day", "amount": 1}}),
                days(-1),
            ),
            (
                bson!({"$dateAdd": {"startDate": Bson::Null, "unit": "day", "amount": 1}}),
                Bson::Null,
            ),
        ]);
        check::errors(&[
            (bson!({"$dateAdd": 1}), 5166400),
            (bson!({"$dateAdd": {"startDate": date}}), 5166402),
            (
                bson!({"$dateAdd": {"startDate": 1, "unit": "day", "amount": 1}}),
                5166403,
            ),
            (
                bson!({"$dateAdd": {"startDate": date, "unit": "eon", "amount": 1}}),
                9,
            ),
            (
                bson!({"$dateAdd": {"startDate": date, "unit": "day", "amount": 1.5}}),
                5166405,
            ),
        ]);
    }
}
