//! Converts between days and calendar dates for every moment that a BSON date can hold (proleptic Gregorian calendar).

use crate::error::{Error, Result};

pub const MILLIS_PER_DAY: i64 = 86_400_000;

pub const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A calendar date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Civil {
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
}

// === impl Civil ===

impl Civil {
    /// Returns the date that is this many days after 1970-01-01.
    pub fn from_days(days: i64) -> Self {
        // Counts years from March, in eras of 400 years, so that leap days come last.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 {
            shifted_month + 3
        } else {
            shifted_month - 9
        };
        Self {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month,
            day,
        }
    }

    /// Returns the days since 1970-01-01. The day may lie outside its month.
    pub fn to_days(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let shifted_month = (self.month + 9) % 12;
        let day_of_year = (153 * shifted_month + 2) / 5 + self.day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * 146_097 + day_of_era - 719_468
    }

    pub fn month_name(self) -> &'static str {
        usize::try_from(self.month - 1)
            .ok()
            .and_then(|at| MONTHS.get(at))
            .copied()
            .unwrap_or_default()
    }

    /// Returns the day of the year, 1 to 366.
    pub fn day_of_year(self) -> i64 {
        let first = Self {
            month: 1,
            day: 1,
            ..self
        };
        self.to_days() - first.to_days() + 1
    }
}

pub fn is_leap(year: i64) -> bool {
    year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
}

pub fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the ISO weekday: 1 is Monday, 7 is Sunday.
pub fn iso_weekday(days: i64) -> i64 {
    (days + 3).rem_euclid(7) + 1
}

/// Returns the ISO year and week. A week belongs to the year of its Thursday.
pub fn iso_week(days: i64) -> (i64, i64) {
    let thursday = days - (iso_weekday(days) - 4);
    let date = Civil::from_days(thursday);
    (date.year, (date.day_of_year() - 1) / 7 + 1)
}

/// Returns the Monday of the first week of an ISO year, in days since 1970-01-01.
pub fn iso_year_start(year: i64) -> i64 {
    let fourth = Civil {
        year,
        month: 1,
        day: 4,
    }
    .to_days();
    fourth - (iso_weekday(fourth) - 1)
}

/// Checks that a year can be written with four digits.
pub fn check_year(year: i64) -> Result<()> {
    if (0..=9999).contains(&year) {
        return Ok(());
    }
    Err(Error::location(
        18537,
        format!(
            "Could not convert date to string: date component was outside the supported range of 0-9999: {year}"
        ),
    ))
}

/// Formats a moment as `2024-02-29T12:00:00.000Z`, if its year has four digits.
pub fn checked_iso_string(millis: i64) -> Result<String> {
    check_year(Civil::from_days(millis.div_euclid(MILLIS_PER_DAY)).year)?;
    Ok(iso_string(millis))
}

/// Formats a moment as `2024-02-29T12:00:00.000Z`.
pub fn iso_string(millis: i64) -> String {
    let date = Civil::from_days(millis.div_euclid(MILLIS_PER_DAY));
    let rest = millis.rem_euclid(MILLIS_PER_DAY);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        date.year,
        date.month,
        date.day,
        rest / 3_600_000,
        rest / 60_000 % 60,
        rest / 1000 % 60,
        rest % 1000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for (days, year, month, day) in [
            (0, 1970, 1, 1),
            (-1, 1969, 12, 31),
            (19_782, 2024, 2, 29),
            (-719_468, 0, 3, 1),
            (-719_529, -1, 12, 31),
            (106_751_991_167, 292_278_994, 8, 17),
        ] {
            let date = Civil { year, month, day };
            assert_eq!(Civil::from_days(days), date, "{days}");
            assert_eq!(date.to_days(), days, "{date:?}");
        }
        for days in -800_000..800_000 {
            assert_eq!(Civil::from_days(days).to_days(), days);
        }
    }

    #[test]
    fn weeks() {
        // 2021-01-01 was a Friday, in the last week of 2020.
        assert_eq!(iso_weekday(18_628), 5);
        assert_eq!(iso_week(18_628), (2020, 53));
        assert_eq!(iso_year_start(2021), 18_631);
        assert_eq!(iso_string(1_709_208_000_000), "2024-02-29T12:00:00.000Z");
    }
}
