//! What the tokens of a text have told so far.

use super::super::civil::{Civil, MILLIS_PER_DAY, days_in_month};
use super::super::zone::Zone;
use super::failure;
use super::relative::RelativeTime;
use crate::error::{Code, Error, Result};

/// The mark of a missing part in timelib. It shows where mongod adds it up: `2020-01-01 1030` has no fraction.
const UNSET: i64 = -9_999_999;

#[derive(Debug, Default)]
pub struct ParsedTime {
    pub year: Option<i64>,
    pub month: Option<i64>,
    pub day: Option<i64>,
    pub hour: Option<i64>,
    pub minute: Option<i64>,
    pub second: Option<i64>,
    pub micro: Option<i64>,
    pub zone: ParsedZone,
    pub relative: RelativeTime,
    /// A token told a date. A second one is an error.
    pub has_date: bool,
    /// How many tokens told a time. Four digits may be a time, and then a year.
    pub times: u32,
    pub zones: u32,
    errors: Vec<Problem>,
    warnings: Vec<Problem>,
}

/// The zone that a text tells, in seconds ahead of UTC.
#[derive(Debug, Default)]
pub enum ParsedZone {
    #[default]
    Absent,
    Offset(i64),
    Abbreviation(i64, String),
}

#[derive(Debug)]
struct Problem {
    at: usize,
    byte: u8,
    message: &'static str,
}

/// A date and a time of day that are told completely.
pub struct CompleteTime {
    pub year: i64,
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub micro: i64,
    zone: ParsedZone,
    relative: RelativeTime,
}

// === impl ParsedTime ===

impl ParsedTime {
    pub fn error(&mut self, at: usize, byte: u8, message: &'static str) {
        self.errors.push(Problem { at, byte, message });
    }

    pub fn warn(&mut self, at: usize, byte: u8, message: &'static str) {
        self.warnings.push(Problem { at, byte, message });
    }

    pub fn zone_not_found(&mut self, at: usize, byte: u8) {
        let message = "passing a time zone identifier as part of the string is not allowed";
        self.error(at, byte, message);
    }

    pub fn set_midnight(&mut self) {
        self.hour = Some(0);
        self.minute = Some(0);
        self.second = Some(0);
        self.micro = Some(0);
    }

    pub fn is_valid_time(&self) -> bool {
        let within = |part: Option<i64>, end| part.is_some_and(|part| (0..end).contains(&part));
        within(self.hour, 24) && within(self.minute, 60) && within(self.second, 60)
    }

    pub fn is_valid_date(&self) -> bool {
        let (Some(month), Some(day)) = (self.month, self.day) else {
            return false;
        };
        (1..=12).contains(&month)
            && (1..=days_in_month(self.year.unwrap_or(UNSET), month)).contains(&day)
    }

    /// Returns the time, if nothing is wrong and nothing is missing.
    pub fn complete(mut self, text: &str) -> Result<CompleteTime> {
        if !self.errors.is_empty() || !self.warnings.is_empty() {
            let mut message = format!("Error parsing date string '{text}'");
            for problem in self.errors.iter().chain(&self.warnings) {
                // A byte of a longer character is no text.
                let shown = match problem.byte.is_ascii() {
                    true => char::from(problem.byte),
                    false => char::REPLACEMENT_CHARACTER,
                };
                message += &format!("; {}: {} '{shown}'", problem.at, problem.message);
            }
            return Err(failure(message));
        }
        if (self.hour, self.minute, self.second) == (None, None, None) {
            self.set_midnight();
        }
        match (
            self.year,
            self.month,
            self.day,
            self.hour,
            self.minute,
            self.second,
        ) {
            (Some(year), Some(month), Some(day), Some(hour), Some(minute), Some(second)) => {
                Ok(CompleteTime {
                    year,
                    month,
                    day,
                    hour,
                    minute,
                    second,
                    micro: self.micro.unwrap_or(UNSET),
                    zone: self.zone,
                    relative: self.relative,
                })
            }
            _ => Err(failure(format!(
                "an incomplete date/time string has been found, with elements missing: \"{text}\""
            ))),
        }
    }
}

// === impl CompleteTime ===

impl CompleteTime {
    /// Returns the moment, in milliseconds since 1970.
    pub fn moment(mut self, zone: &Zone) -> Result<i64> {
        if !zone.is_utc() {
            match &self.zone {
                ParsedZone::Absent => {}
                ParsedZone::Offset(_) => {
                    return Err(failure(
                        "you cannot pass in a date/time string with GMT offset together with a timezone argument",
                    ));
                }
                ParsedZone::Abbreviation(_, name) => {
                    return Err(failure(format!(
                        "you cannot pass in a date/time string with time zone information ('{name}') together with a timezone argument"
                    )));
                }
            }
        }
        let relative = std::mem::take(&mut self.relative);
        relative.apply(&mut self);
        let overflow = || {
            let message =
                "Overflow casting from a lower-precision duration to a higher-precision duration";
            Error::new(Code::DurationOverflow, message)
        };
        let local = self.local_seconds().ok_or_else(overflow)?;
        let seconds = match self.zone {
            ParsedZone::Offset(ahead) | ParsedZone::Abbreviation(ahead, _) => local - ahead,
            ParsedZone::Absent => {
                let millis = local.checked_mul(1000).ok_or_else(overflow)?;
                zone.utc(millis).ok_or_else(overflow)?.div_euclid(1000)
            }
        };
        let micros = seconds
            .checked_mul(1_000_000)
            .and_then(|micros| micros.checked_add(self.micro))
            .ok_or_else(overflow)?;
        Ok(micros / 1000)
    }

    /// Returns the days since 1970 of the date, whose month and day may be out of range.
    pub fn days(&self) -> Option<i64> {
        // Beyond that, no moment can be counted in microseconds.
        const MOST_YEARS: i64 = 1_000_000_000;
        let year = self.year.checked_add((self.month - 1).div_euclid(12))?;
        if year.abs() > MOST_YEARS {
            return None;
        }
        let month = (self.month - 1).rem_euclid(12) + 1;
        let first = Civil {
            year,
            month,
            day: 1,
        };
        first.to_days().checked_add(self.day)?.checked_sub(1)
    }

    /// Brings all parts into their ranges. A date that is too far away stays as it is.
    pub fn normalize(&mut self) {
        if self.micro != UNSET {
            carry(&mut self.micro, 1_000_000, &mut self.second);
        }
        carry(&mut self.second, 60, &mut self.minute);
        carry(&mut self.minute, 60, &mut self.hour);
        carry(&mut self.hour, 24, &mut self.day);
        if let Some(days) = self.days() {
            let date = Civil::from_days(days);
            (self.year, self.month, self.day) = (date.year, date.month, date.day);
        }
    }

    fn local_seconds(&self) -> Option<i64> {
        let seconds = (self.hour * 60 + self.minute) * 60 + self.second;
        self.days()?
            .checked_mul(MILLIS_PER_DAY / 1000)?
            .checked_add(seconds)
    }
}

/// Moves what exceeds the range of a part into the next larger part.
fn carry(part: &mut i64, range: i64, larger: &mut i64) {
    *larger = larger.saturating_add(part.div_euclid(range));
    *part = part.rem_euclid(range);
}
