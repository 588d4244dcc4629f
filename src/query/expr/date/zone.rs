//! Time zones: how far the local clock is from UTC.

use jiff::tz::TimeZone;
use jiff::{Timestamp, civil::DateTime};

use super::civil::{Civil, MILLIS_PER_DAY};
use crate::error::{Error, Result};

#[derive(Debug, Clone)]
pub enum Zone {
    /// A constant offset, in milliseconds ahead of UTC.
    Fixed(i64),
    Named(TimeZone),
}

/// A moment in the local time and calendar of a zone.
#[derive(Debug, Clone, Copy)]
pub struct Local {
    pub days: i64,
    pub date: Civil,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub milli: i64,
    /// Milliseconds ahead of UTC.
    pub offset: i64,
}

// === impl Zone ===

impl Zone {
    pub const UTC: Self = Self::Fixed(0);

    pub fn parse(text: &str) -> Result<Self> {
        let refuse = || {
            Error::location(
                40485,
                format!("unrecognized time zone identifier: \"{text}\""),
            )
        };
        match text.as_bytes().first() {
            Some(b'+' | b'-') => offset(text).map(Self::Fixed).ok_or_else(refuse),
            None => Err(refuse()),
            _ if text == "UTC" => Ok(Self::UTC),
            _ => {
                let zone = TimeZone::get(text).map_err(|_| refuse())?;
                // The lookup ignores case, but mongod does not.
                match zone.iana_name() {
                    Some(name) if name != text => Err(refuse()),
                    _ => Ok(Self::Named(zone)),
                }
            }
        }
    }

    /// Returns the offset at a moment, in milliseconds ahead of UTC. Before the range of the time zone library, the offset at
    /// its beginning applies.
    pub fn offset_at(&self, millis: i64) -> i64 {
        match self {
            Self::Fixed(offset) => *offset,
            Self::Named(zone) => {
                let known = millis - cycles_behind(millis);
                let known = known.max(Timestamp::MIN.as_millisecond() + MILLIS_PER_DAY);
                Timestamp::from_millisecond(known)
                    .map_or(0, |at| i64::from(zone.to_offset(at).seconds()) * 1000)
            }
        }
    }

    pub fn local(&self, millis: i64) -> Local {
        let offset = self.offset_at(millis);
        let shifted = millis.saturating_add(offset);
        let days = shifted.div_euclid(MILLIS_PER_DAY);
        let rest = shifted.rem_euclid(MILLIS_PER_DAY);
        Local {
            days,
            date: Civil::from_days(days),
            hour: rest / 3_600_000,
            minute: rest / 60_000 % 60,
            second: rest / 1000 % 60,
            milli: rest % 1000,
            offset,
        }
    }

    /// Returns the moment with this local time. If there are two, it is the earlier one. If there is none (a gap), the offset
    /// before the gap applies.
    pub fn utc(&self, local_millis: i64) -> Option<i64> {
        match self {
            Self::Fixed(offset) => local_millis.checked_sub(*offset),
            Self::Named(zone) => {
                let cycles = cycles_behind(local_millis);
                let exact = civil(local_millis - cycles)
                    .and_then(|local| zone.to_ambiguous_timestamp(local).compatible().ok());
                match exact {
                    Some(at) => at.as_millisecond().checked_add(cycles),
                    None => local_millis.checked_sub(self.offset_at(local_millis)),
                }
            }
        }
    }

    pub fn is_utc(&self) -> bool {
        matches!(self, Self::Fixed(0))
    }
}

/// The calendar repeats itself after 400 years, with the days of the week, and so do the rules of a time zone for the future.
const CYCLE: i64 = 146_097 * MILLIS_PER_DAY;

/// Returns the length of the cycles that lead back from a moment into the range of the time zone library.
fn cycles_behind(millis: i64) -> i64 {
    let latest = Timestamp::MAX.as_millisecond() - 2 * MILLIS_PER_DAY;
    match millis > latest {
        true => ((millis - latest) / CYCLE + 1) * CYCLE,
        false => 0,
    }
}

fn civil(local_millis: i64) -> Option<DateTime> {
    let at = Zone::UTC.local(local_millis);
    DateTime::new(
        i16::try_from(at.date.year).ok()?,
        at.date.month as i8,
        at.date.day as i8,
        at.hour as i8,
        at.minute as i8,
        at.second as i8,
        at.milli as i32 * 1_000_000,
    )
    .ok()
}

/// Parses `+hh`, `+hhmm` or `+hh:mm`.
fn offset(text: &str) -> Option<i64> {
    let (sign, digits) = text.split_at_checked(1)?;
    let sign = if sign == "-" { -1 } else { 1 };
    let number = |part: &str| -> Option<i64> {
        part.bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| part.parse().ok())?
    };
    let (hours, minutes) = match digits.len() {
        2 => (number(digits)?, 0),
        4 => (number(digits.get(..2)?)?, number(digits.get(2..)?)?),
        5 => {
            let (hours, minutes) = digits.split_once(':')?;
            if hours.len() != 2 {
                return None;
            }
            (number(hours)?, number(minutes)?)
        }
        _ => return None,
    };
    Some(sign * (hours * 60 + minutes) * 60_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets() {
        for (text, minutes) in [
            ("+05:30", Some(330)),
            ("-0800", Some(-480)),
            ("+01", Some(60)),
            ("+1", None),
            ("+a1", None),
            ("+01:0", None),
            ("UTC", Some(0)),
            ("Nowhere/Else", None),
            ("", None),
        ] {
            let offset = Zone::parse(text)
                .ok()
                .map(|zone| zone.offset_at(0) / 60_000);
            assert_eq!(offset, minutes, "{text}");
        }
    }

    #[test]
    fn places() {
        let zone = Zone::parse("America/New_York").unwrap();
        // 2024-07-01T00:00Z and 2024-01-01T00:00Z.
        assert_eq!(zone.offset_at(1_719_792_000_000), -4 * 3_600_000);
        assert_eq!(zone.offset_at(1_704_067_200_000), -5 * 3_600_000);
        // 2024-03-10T02:30 does not exist there, so it becomes 03:30 summer time.
        let gap = 1_710_037_800_000;
        assert_eq!(zone.utc(gap), Some(gap + 5 * 3_600_000));
        assert_eq!(zone.local(i64::MAX).date.month, 8);
        // Summer and winter of the year 11146, and of one 400,000 years later.
        for later in [0, 1_000 * CYCLE] {
            let [summer, winter] = [289_586_500_000_000, 289_571_500_000_000].map(|at| at + later);
            for (at, hours) in [(summer, 4), (winter, 5)] {
                assert_eq!(zone.offset_at(at), -hours * 3_600_000, "{at}");
                assert_eq!(zone.utc(at - hours * 3_600_000), Some(at));
            }
        }
    }
}
