//! `$dateDiff`: counts how many times a unit begins between two dates.

use super::super::Env;
use super::super::args::{ExprArgument, unrecognized};
use super::super::node::{Expr, ExprOp};
use super::civil::iso_weekday;
use super::unit::{Unit, first_day, weekday};
use super::zone::Zone;
use super::{ZoneArg, check_const, moment_arg, operator};
use crate::error::{Error, Result};
use crate::value::{Val, Value};

#[derive(Debug)]
struct Diff {
    start: Expr,
    end: Expr,
    unit: Expr,
    zone: ZoneArg,
    week: Option<Expr>,
}

pub fn date_diff(arg: ExprArgument<'_>) -> Result<Expr> {
    let [start, end, unit, zone, week] = arg.named(
        ["startDate", "endDate", "unit", "timezone", "startOfWeek"],
        unrecognized(
            "argument",
            arg.name,
            [5166301, 5166302],
            |field| match field {
                "startDate" => 5166303,
                "endDate" => 5166304,
                _ => 5166305,
            },
        ),
    )?;
    let (start, end, unit) = (start.required()?, end.required()?, unit.required()?);
    let name = arg.name;
    let diff = Diff {
        start: arg.operand(start)?,
        end: arg.operand(end)?,
        unit: arg.operand(unit)?,
        zone: ZoneArg::parse(zone.value(), arg)?,
        week: arg.optional(week.value())?,
    };
    Ok(operator(diff, |diff| {
        check_const(Some(&diff.unit), |unit| Unit::of(name, unit).map(drop))?;
        check_const(diff.week.as_ref(), |day| weekday(name, day).map(drop))?;
        diff.zone.check_for(name)
    }))
}

pub fn between(start: i64, end: i64, unit: Unit, zone: &Zone, first_day: i64) -> Option<i64> {
    let (a, b) = (zone.local(start), zone.local(end));
    let months = |local: &super::zone::Local| local.date.year * 12 + local.date.month - 1;
    Some(match unit {
        Unit::Year => b.date.year - a.date.year,
        Unit::Quarter => months(&b).div_euclid(3) - months(&a).div_euclid(3),
        Unit::Month => months(&b) - months(&a),
        Unit::Week => {
            let begin = |days: i64| days - (iso_weekday(days) - first_day).rem_euclid(7);
            (begin(b.days) - begin(a.days)) / 7
        }
        Unit::Day => b.days - a.days,
        Unit::Hour => {
            // Hours begin at full hours of the local clock. A change of the local offset does not count as an hour.
            let hours =
                |millis: i64, offset: i64| (millis.saturating_add(offset)).div_euclid(3_600_000);
            hours(end, b.offset) - hours(start, a.offset) - (b.offset - a.offset) / 3_600_000
        }
        Unit::Minute | Unit::Second => {
            end.div_euclid(unit.millis()) - start.div_euclid(unit.millis())
        }
        Unit::Millisecond => end.checked_sub(start)?,
    })
}

// === impl Diff ===

impl ExprOp for Diff {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        let start = self.start.eval_in(env)?;
        let start = start.as_ref();
        if start.is_nullish() {
            return Ok(Val::NULL);
        }
        let end = self.end.eval_in(env)?;
        let end = end.as_ref();
        if end.is_nullish() {
            return Ok(Val::NULL);
        }
        let Some(unit) = Unit::eval("$dateDiff", &self.unit, env)? else {
            return Ok(Val::NULL);
        };
        let week = self.week.as_ref();
        let Some(first_day) = first_day("$dateDiff", unit, week, &self.start, env)? else {
            return Ok(Val::NULL);
        };
        let Some(zone) = self.zone.eval_for("$dateDiff", env)? else {
            return Ok(Val::NULL);
        };
        let start = moment_arg(start, "$dateDiff", "startDate")?;
        let end = moment_arg(end, "$dateDiff", "endDate")?;
        match between(start, end, unit, &zone, first_day) {
            Some(count) => Ok(Val::Own(Value::int64(count))),
            None => Err(Error::location(5166308, "dateDiff overflowed")),
        }
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(&self.start);
        visit(&self.end);
        visit(&self.unit);
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
        // 2020-12-31T23:59Z (Thursday) to 2021-01-03T00:00Z (Sunday)
        let (start, end) = (
            DateTime::from_millis(1_609_459_140_000),
            DateTime::from_millis(1_609_632_000_000),
        );
        let diff =
            |unit: &str| bson!({"$dateDiff": {"startDate": start, "endDate": end, "unit": unit}});
        check::values(&[
            (diff("year"), bson!(1i64)),
            (diff("quarter"), bson!(1i64)),
            (diff("month"), bson!(1i64)),
            (diff("week"), bson!(1i64)),
            (diff("day"), bson!(3i64)),
            (diff("hour"), bson!(49i64)),
            (diff("minute"), bson!(2881i64)),
            (diff("millisecond"), bson!(172_860_000i64)),
            (
                bson!({"$dateDiff": {"startDate": start, "endDate": end, "unit": "week", "startOfWeek": "mon"}}),
                bson!(0i64),
            ),
            (
                bson!({"$dateDiff": {"startDate": start, "endDate": Bson::Null, "unit": "week"}}),
                Bson::Null,
            ),
        ]);
        check::errors(&[
            (diff("eon"), 9),
            (
                bson!({"$dateDiff": {"startDate": 1, "endDate": end, "unit": "day"}}),
                5166307,
            ),
        ]);
    }
}
