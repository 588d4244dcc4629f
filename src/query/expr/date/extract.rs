//! Operators that return one part of a date: `$year`, `$month`, `$dayOfWeek`, `$isoWeek`, ...

use super::super::Env;
use super::super::args::ExprArgument;
use super::super::node::{Expr, ExprOp};
use super::civil::{iso_week, iso_weekday};
use super::zone::Local;
use super::{ZoneArg, moment_or_null, operator};
use crate::args::ArgumentError;
use crate::error::{Error, Result};
use crate::value::{Val, Value};

#[derive(Debug)]
struct Extract {
    part: fn(&Local) -> i64,
    long: bool,
    date: Expr,
    zone: ZoneArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatePart {
    Year,
    Month,
    DayOfMonth,
    DayOfYear,
    DayOfWeek,
    Week,
    IsoDayOfWeek,
    IsoWeek,
    IsoWeekYear,
    Hour,
    Minute,
    Second,
    Millisecond,
}

/// Returns the week of the year, with weeks that begin on Sunday. Days before the first Sunday are in week 0.
pub fn sunday_week(local: &Local) -> i64 {
    let weekday = iso_weekday(local.days) % 7;
    (local.date.day_of_year() + 6 - weekday) / 7
}

// === impl DatePart ===

impl DatePart {
    fn of(self) -> fn(&Local) -> i64 {
        match self {
            Self::Year => |local| local.date.year,
            Self::Month => |local| local.date.month,
            Self::DayOfMonth => |local| local.date.day,
            Self::DayOfYear => |local| local.date.day_of_year(),
            Self::DayOfWeek => |local| iso_weekday(local.days) % 7 + 1,
            Self::Week => sunday_week,
            Self::IsoDayOfWeek => |local| iso_weekday(local.days),
            Self::IsoWeek => |local| iso_week(local.days).1,
            Self::IsoWeekYear => |local| iso_week(local.days).0,
            Self::Hour => |local| local.hour,
            Self::Minute => |local| local.minute,
            Self::Second => |local| local.second,
            Self::Millisecond => |local| local.milli,
        }
    }
}

/// Parses a date, a list of one date, or `{date, timezone}`.
pub fn extract(arg: ExprArgument<'_>, part: DatePart) -> Result<Expr> {
    let ExprArgument { name, value, .. } = arg;
    let (date, zone) = if arg.plain_object().is_some() {
        let [date, zone] = arg.operands(["date", "timezone"], |wrong| match wrong {
            ArgumentError::Missing(field) => {
                let words =
                    format!("missing '{field}' argument to {name}, provided: {name}: {value}");
                (40539, words)
            }
            // A value that is not an object is the date, so `NotAnObject` does not occur.
            ArgumentError::Unknown(field) | ArgumentError::NotAnObject(field) => {
                (40535, format!("unrecognized option to {name}: \"{field}\""))
            }
        })?;
        (date.required()?, zone.value())
    } else if let Some(list) = value.as_array() {
        let mut items = list.iter();
        match (items.next(), items.next()) {
            (Some(only), None) => (arg.operand(only.value)?, None),
            _ => {
                return Err(Error::location(
                    40536,
                    format!(
                        "{name} accepts exactly one argument if given an array, but was given {}",
                        list.count()
                    ),
                ));
            }
        }
    } else {
        (arg.operand(value)?, None)
    };
    let extract = Extract {
        part: part.of(),
        long: part == DatePart::IsoWeekYear,
        date,
        zone: ZoneArg::of(zone),
    };
    Ok(operator(extract, |extract| extract.zone.check()))
}

// === impl Extract ===

impl ExprOp for Extract {
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Val<'a>> {
        let date = self.date.eval_in(env)?;
        let Some(millis) = moment_or_null(date.as_ref())? else {
            return Ok(Val::NULL);
        };
        let Some(zone) = self.zone.eval(env)? else {
            return Ok(Val::NULL);
        };
        let number = (self.part)(&zone.local(millis));
        Ok(Val::Own(if self.long {
            Value::int64(number)
        } else {
            Value::int32(number as i32)
        }))
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(&self.date);
        self.zone.each(visit);
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
            (bson!({"$year": date}), bson!(2021)),
            (bson!({"$month": [date]}), bson!(1)),
            (bson!({"$dayOfMonth": {"date": date}}), bson!(1)),
            (
                bson!({"$year": {"date": date, "timezone": "-01:00"}}),
                bson!(2020),
            ),
            (bson!({"$dayOfYear": date}), bson!(1)),
            (bson!({"$dayOfWeek": date}), bson!(6)),
            (bson!({"$isoDayOfWeek": date}), bson!(5)),
            (bson!({"$week": date}), bson!(0)),
            (bson!({"$isoWeek": date}), bson!(53)),
            (bson!({"$isoWeekYear": date}), bson!(2020i64)),
            (
                bson!({"$hour": {"date": date, "timezone": "Asia/Kolkata"}}),
                bson!(6),
            ),
            (bson!({"$minute": date}), bson!(30)),
            (bson!({"$second": date}), bson!(15)),
            (bson!({"$millisecond": date}), bson!(123)),
            (bson!({"$year": Bson::Null}), Bson::Null),
        ]);
        check::errors(&[
            (bson!({"$year": "2021"}), 16006),
            (bson!({"$year": [1, 2]}), 40536),
            (bson!({"$year": {"date": date, "x": 1}}), 40535),
            (bson!({"$year": {"timezone": "UTC"}}), 40539),
            (bson!({"$year": {"date": date, "timezone": "X"}}), 40485),
            (bson!({"$year": {"date": date, "timezone": 1}}), 40517),
        ]);
    }
}
