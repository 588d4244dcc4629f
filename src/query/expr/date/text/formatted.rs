//! Reads a text by a format (`%Y-%m-%d`). An error does not end the reading: all errors are told.

use super::super::civil::{Civil, iso_year_start};
use super::parsed_time::{ParsedTime, ParsedZone};
use super::token::Token;

/// A date in weeks, as ISO 8601 counts them.
#[derive(Default)]
struct IsoDate {
    year: Option<i64>,
    week: Option<i64>,
    day: Option<i64>,
}

struct FormatReader<'t> {
    text: &'t [u8],
    token: Token<'t>,
    time: ParsedTime,
    iso: IsoDate,
    /// Where the current letter of the format began to read.
    begin: usize,
}

/// The format has been checked: a known letter follows each percent sign.
pub fn read(text: &str, format: &str) -> ParsedTime {
    // Both end at a zero byte, as in C.
    let until_zero = |text: &str| {
        text.bytes()
            .take_while(|byte| *byte != 0)
            .collect::<Vec<u8>>()
    };
    let (text, format) = (until_zero(text), until_zero(format));
    let mut reader = FormatReader {
        text: &text,
        token: Token::new(&text),
        time: ParsedTime::default(),
        iso: IsoDate::default(),
        begin: 0,
    };
    let mut letters = format.iter().copied();
    // Whether the format is used up when the text is.
    let mut done = false;
    while !reader.token.is_at_end() {
        reader.begin = reader.at();
        match letters.next() {
            None => {
                done = true;
                break;
            }
            Some(b'%') => match letters.next() {
                Some(b'%') => reader.literal(b'%'),
                Some(letter) => reader.letter(letter),
                None => break,
            },
            Some(literal) => reader.literal(literal),
        }
    }
    if !reader.token.is_at_end() {
        reader.begin = reader.at();
        reader.error("Trailing data");
    } else if !done && letters.next().is_some() {
        reader.begin = reader.at();
        reader.error("Not enough data available to satisfy format");
    }
    reader.finish()
}

// === impl FormatReader ===

impl FormatReader<'_> {
    fn at(&self) -> usize {
        self.text.len() - self.token.left()
    }

    fn error(&mut self, message: &'static str) {
        let byte = self.text.get(self.begin).copied().unwrap_or(0);
        self.time.error(self.begin, byte, message);
    }

    fn literal(&mut self, literal: u8) {
        if self.token.peek() != literal {
            self.error("Format literal not found");
        }
        self.token.skip(1);
    }

    /// Reads a number of at most so many digits, which must begin at once.
    fn number(&mut self, most: usize, missing: &'static str) -> Option<(i64, usize)> {
        if !self.token.peek().is_ascii_digit() {
            self.error("Unexpected data found.");
        }
        self.number_ahead(most, missing)
    }

    /// Reads the next number, wherever it is.
    fn number_ahead(&mut self, most: usize, missing: &'static str) -> Option<(i64, usize)> {
        let found = self.token.number_and_length(most);
        if found.is_none() {
            self.error(missing);
        }
        found
    }

    /// Reads a number of two digits.
    fn two_digits(&mut self, missing: &'static str) -> Option<i64> {
        let (number, length) = self.number(2, missing)?;
        if length != 2 {
            self.error(missing);
        }
        Some(number)
    }

    fn letter(&mut self, letter: u8) {
        let only = |found: Option<(i64, usize)>| found.map(|(number, _)| number);
        match letter {
            b'Y' => self.time.year = only(self.number(4, "A four digit year could not be found")),
            b'm' => self.time.month = only(self.number(2, "A two digit month could not be found")),
            b'd' => self.time.day = only(self.number(2, "A two digit day could not be found")),
            b'H' => self.time.hour = only(self.number(2, "A two digit hour could not be found")),
            b'M' => {
                let minute = self.two_digits("A two digit minute could not be found");
                self.time.minute = minute.or(self.time.minute);
            }
            b'S' => {
                let second = self.two_digits("A two digit second could not be found");
                self.time.second = second.or(self.time.second);
            }
            b'L' => {
                let found = self.number(3, "A three digit millisecond could not be found");
                if let Some((millis, length)) = found {
                    let scale = [1, 100_000, 10_000, 1000][length.min(3)];
                    self.time.micro = Some(millis * scale);
                }
            }
            b'j' => self.day_of_year(),
            b'b' | b'B' => match self.token.month_word() {
                Some(month) => self.time.month = Some(month),
                None => self.error("A textual month could not be found"),
            },
            b'G' => {
                self.iso.year =
                    only(self.number_ahead(4, "A four digit ISO year could not be found"));
            }
            b'V' => {
                self.iso.week =
                    only(self.number_ahead(2, "A two digit ISO week could not be found"));
                if self.iso.week.is_some_and(|week| !(1..=53).contains(&week)) {
                    self.error("ISO Week must be between 1 and 53");
                }
            }
            b'u' => {
                self.iso.day =
                    only(self.number_ahead(1, "A single digit day of week could not be found"));
                if self.iso.day.is_some_and(|day| !(1..=7).contains(&day)) {
                    self.error("Day of week must be between 1 and 7");
                }
            }
            b'z' => {
                if !self.token.zone(&mut self.time) {
                    let byte = self.text.get(self.begin).copied().unwrap_or(0);
                    self.time.zone_not_found(self.begin, byte);
                }
            }
            b'Z' => match self.token.minutes_offset() {
                Some(seconds) => self.time.zone = ParsedZone::Offset(seconds),
                None => self.error("Invalid timezone offset in minutes"),
            },
            other => self.literal(other),
        }
    }

    /// Reads the day of the year. It counts from zero, unlike the one that `$dateToString` writes.
    fn day_of_year(&mut self) {
        if !self.token.peek().is_ascii_digit() {
            self.error("Unexpected data found.");
        }
        if self.time.year.is_none() {
            self.error("A 'day of year' can only come after a year has been found");
        }
        let found = self.number_ahead(3, "A three digit day-of-year could not be found");
        if let (Some((day, _)), Some(year)) = (found, self.time.year) {
            let first = Civil {
                year,
                month: 1,
                day: 1,
            };
            self.set_date(Civil::from_days(first.to_days() + day));
        }
    }

    fn set_date(&mut self, date: Civil) {
        let time = &mut self.time;
        (time.year, time.month, time.day) = (Some(date.year), Some(date.month), Some(date.day));
    }

    fn finish(mut self) -> ParsedTime {
        self.begin = self.at();
        let end = self.begin;
        let time = &mut self.time;
        // A part of a time makes it complete.
        if time
            .hour
            .or(time.minute)
            .or(time.second)
            .or(time.micro)
            .is_some()
        {
            for part in [
                &mut time.hour,
                &mut time.minute,
                &mut time.second,
                &mut time.micro,
            ] {
                part.get_or_insert(0);
            }
        }
        const MIXED: &str = "Mixing of ISO dates with natural dates is not allowed";
        let is_iso = self.iso.year.or(self.iso.week).or(self.iso.day).is_some();
        if time.year.is_some() && is_iso {
            time.error(end, 0, MIXED);
        }
        if self.iso.year.is_some() && time.year.or(time.month).or(time.day).is_some() {
            time.error(end, 0, MIXED);
        }
        match self.iso.year {
            Some(year) => {
                let weeks = self.iso.week.unwrap_or(1) - 1;
                let days = self.iso.day.unwrap_or(1) - 1;
                self.set_date(Civil::from_days(iso_year_start(year) + weeks * 7 + days));
            }
            None if is_iso => self.time.warn(end, 0, "The parsed date was invalid"),
            None => {}
        }
        let time = &mut self.time;
        let has_time = time.hour.is_some() && time.minute.is_some() && time.second.is_some();
        if has_time && !time.is_valid_time() {
            time.warn(end, 0, "The parsed time was invalid");
        }
        let has_date = time.year.is_some() && time.month.is_some() && time.day.is_some();
        if has_date && !time.is_valid_date() {
            time.warn(end, 0, "The parsed date was invalid");
        }
        self.time
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::civil::iso_string;
    use super::super::super::zone::Zone;

    /// The answers of mongod 6.0.5. `%j` and `%B`, which it does not know, as timelib 2022.13 reads them.
    #[test]
    fn texts() {
        for (text, format, expected) in [
            ("08/02/2017", "%d/%m/%Y", "2017-02-08T00:00:00.000Z"),
            ("8/2/17", "%d/%m/%Y", "0017-02-08T00:00:00.000Z"),
            ("2017-02-08 5", "%Y-%m-%d %H", "2017-02-08T05:00:00.000Z"),
            ("2017-W06-3", "%G-W%V-%u", "2017-02-08T00:00:00.000Z"),
            ("2017 38", "%Y %j", "2017-02-08T00:00:00.000Z"),
            ("2017 february 8", "%Y %B %d", "2017-02-08T00:00:00.000Z"),
            ("2017-02-08 .5", "%Y-%m-%d .%L", "2017-02-08T00:00:00.500Z"),
            ("2017-02-08 +90", "%Y-%m-%d %Z", "2017-02-07T22:30:00.000Z"),
            ("2017-02-08 CET", "%Y-%m-%d %z", "2017-02-07T23:00:00.000Z"),
            (
                "100% 2017-02-08",
                "100%% %Y-%m-%d",
                "2017-02-08T00:00:00.000Z",
            ),
        ] {
            let found = super::super::read(text, Some(format), &Zone::UTC).map(iso_string);
            assert_eq!(found.as_deref().ok(), Some(expected), "{text}: {found:?}");
        }
    }

    #[test]
    fn refusals() {
        for (text, format, expected) in [
            ("2017-02-08x", "%Y-%m-%d", "; 10: Trailing data 'x'"),
            (
                "2017-02",
                "%Y-%m-%d",
                "; 7: Not enough data available to satisfy format '\0'",
            ),
            (
                "2017-02-30",
                "%Y-%m-%d",
                "; 10: The parsed date was invalid '\0'",
            ),
            (
                "2017-02-08",
                "%Y/%m-%d",
                "; 4: Format literal not found '-'",
            ),
            (
                "12:5",
                "%H:%M",
                "; 3: A two digit minute could not be found '5'",
            ),
        ] {
            let error = super::super::read(text, Some(format), &Zone::UTC).expect_err(text);
            let expected = format!("Error parsing date string '{text}'{expected}");
            assert_eq!(error.message(), expected);
        }
    }
}
