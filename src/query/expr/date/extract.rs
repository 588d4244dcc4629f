//! One part of a date: `$year`, `$month`, `$dayOfWeek`, `$isoWeek`, ...

use super::super::Env;
use super::super::args::{named, show};
use super::super::node::{Expr, Op};
use super::super::parse::operand;
use super::civil::{iso_week, iso_weekday};
use super::zone::Local;
use super::{ZoneArg, moment_or_null};
use crate::error::{Error, Result};
use crate::query::Scope;
use crate::value::{Val, Value, ValueRef};

#[derive(Debug)]
struct Extract {
    part: fn(&Local) -> i64,
    long: bool,
    date: Expr,
    zone: ZoneArg,
}

/// Weeks that begin on Sunday; days before the first Sunday are in week 0.
pub fn sunday_week(local: &Local) -> i64 {
    let weekday = iso_weekday(local.days) % 7;
    (local.date.day_of_year() + 6 - weekday) / 7
}

fn part(name: &str) -> fn(&Local) -> i64 {
    match name {
        "$year" => |local| local.date.year,
        "$month" => |local| local.date.month,
        "$dayOfMonth" => |local| local.date.day,
        "$dayOfYear" => |local| local.date.day_of_year(),
        "$dayOfWeek" => |local| iso_weekday(local.days) % 7 + 1,
        "$week" => sunday_week,
        "$isoDayOfWeek" => |local| iso_weekday(local.days),
        "$isoWeek" => |local| iso_week(local.days).1,
        "$isoWeekYear" => |local| iso_week(local.days).0,
        "$hour" => |local| local.hour,
        "$minute" => |local| local.minute,
        "$second" => |local| local.second,
        _ => |local| local.milli,
    }
}

/// A date, a list of one date, or `{date, timezone}`.
pub fn extract(name: &'static str, value: ValueRef<'_>, scope: &Scope) -> Result<Expr> {
    let parts = value
        .as_doc()
        .filter(|doc| !doc.first().is_some_and(|elem| elem.name().starts_with('$')));
    let (date, zone) = if let Some(doc) = parts {
        let [date, zone] = named(doc, ["date", "timezone"], |field| {
            Error::location(40535, format!("unrecognized option to {name}: \"{field}\""))
        })?;
        let date = date.ok_or_else(|| {
            Error::location(
                40539,
                format!(
                    "missing 'date' argument to {name}, provided: {name}: {}",
                    show(value)
                ),
            )
        })?;
        (date, zone)
    } else if let Some(list) = value.as_array() {
        let mut items = list.iter();
        match (items.next(), items.next()) {
            (Some(only), None) => (only.value, None),
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
        (value, None)
    };
    Ok(Expr::op(Extract {
        part: part(name),
        long: name == "$isoWeekYear",
        date: operand(date, scope)?,
        zone: ZoneArg::parse(zone, scope)?,
    }))
}

// === impl Extract ===

impl Op for Extract {
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
