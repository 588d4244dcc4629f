//! The units in which dates are counted and truncated.

use super::super::Env;
use super::super::node::Expr;
use crate::error::{Error, Result};
use crate::value::ValueRef;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
}

const UNITS: &[(&str, Unit)] = &[
    ("day", Unit::Day),
    ("hour", Unit::Hour),
    ("millisecond", Unit::Millisecond),
    ("minute", Unit::Minute),
    ("month", Unit::Month),
    ("quarter", Unit::Quarter),
    ("second", Unit::Second),
    ("week", Unit::Week),
    ("year", Unit::Year),
];

const WEEKDAYS: &[(&str, i64)] = &[
    ("monday", 1),
    ("tuesday", 2),
    ("wednesday", 3),
    ("thursday", 4),
    ("friday", 5),
    ("saturday", 6),
    ("sunday", SUNDAY),
];
const SUNDAY: i64 = 7;

// === impl Unit ===

impl Unit {
    pub fn parse(text: &str) -> Result<Self> {
        UNITS
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, unit)| *unit)
            .ok_or_else(|| Error::failed_to_parse(format!("unknown time unit value: {text}")))
    }

    pub fn name(self) -> &'static str {
        let named = UNITS.iter().find(|(_, unit)| *unit == self);
        named.map_or("", |(name, _)| name)
    }

    /// The `unit` argument of an operator.
    pub fn of(name: &str, value: ValueRef<'_>) -> Result<Self> {
        let text = value.as_str().ok_or_else(|| {
            Error::location(
                5439013,
                format!(
                    "{name} requires 'unit' to be a string, but got {}",
                    value.ty().alias()
                ),
            )
        })?;
        Self::parse(text)
            .map_err(|error| error.caused(&format!("{name} parameter 'unit' value parsing failed")))
    }

    /// Evaluates the `unit` argument of an operator. `None` means null.
    pub fn eval<'a>(name: &str, unit: &'a Expr, env: Env<'a>) -> Result<Option<Self>> {
        let value = unit.eval_in(env)?;
        match value.as_ref().is_nullish() {
            true => Ok(None),
            false => Self::of(name, value.as_ref()).map(Some),
        }
    }

    /// Returns the number of months in the unit, or `None` for units that are not made of months.
    pub fn months(self) -> Option<i64> {
        match self {
            Self::Year => Some(12),
            Self::Quarter => Some(3),
            Self::Month => Some(1),
            _ => None,
        }
    }

    /// Returns the length in milliseconds of a unit that is not made of months.
    pub fn millis(self) -> i64 {
        match self {
            Self::Week => 7 * 86_400_000,
            Self::Day => 86_400_000,
            Self::Hour => 3_600_000,
            Self::Minute => 60_000,
            Self::Second => 1000,
            _ => 1,
        }
    }
}

/// Evaluates the `startOfWeek` argument, which defaults to Sunday. Only weeks look at it. `None` means null.
///
/// A constant null is the result for all units, unless the date is constant, too: MongoDB then folds the expression first. Its
/// newer engine, which evaluates accumulators, does not look at it.
pub fn first_day<'a>(
    name: &str,
    unit: Unit,
    week: Option<&'a Expr>,
    date: &Expr,
    env: Env<'a>,
) -> Result<Option<i64>> {
    let is_null = |week: &Expr| week.as_const().is_some_and(ValueRef::is_nullish);
    match week {
        Some(week) if unit == Unit::Week => {
            let value = week.eval_in(env)?;
            match value.as_ref().is_nullish() {
                true => Ok(None),
                false => weekday(name, value.as_ref()).map(Some),
            }
        }
        Some(week) if is_null(week) && date.as_const().is_none() && !env.in_group => Ok(None),
        _ => Ok(Some(SUNDAY)),
    }
}

/// Parses the `startOfWeek` argument: the name of a weekday or its first three letters. 1 is Monday, 7 is Sunday.
pub fn weekday(name: &str, value: ValueRef<'_>) -> Result<i64> {
    let text = value.as_str().ok_or_else(|| {
        Error::location(
            5439015,
            format!(
                "{name} requires 'startOfWeek' to be a string, but got {}",
                value.ty().alias()
            ),
        )
    })?;
    let lower = text.to_ascii_lowercase();
    WEEKDAYS
        .iter()
        .find(|(day, _)| *day == lower || day.get(..3) == Some(&*lower))
        .map(|(_, number)| *number)
        .ok_or_else(|| {
            Error::location(
                5439016,
                format!("{name} parameter 'startOfWeek' value cannot be recognized as a day of a week: {text}"),
            )
        })
}
