//! The units in which dates are counted and truncated.

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
    ("sunday", 7),
];

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
