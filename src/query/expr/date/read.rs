//! Reads dates from text: ISO 8601 and similar forms, or a given format.

use super::civil::{Civil, MILLIS_PER_DAY, MONTHS, days_in_month, iso_year_start};
use super::zone::Zone;

/// The parts of a date that a text contains. A time that is absent is midnight.
#[derive(Debug, Default)]
struct DateFields {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    /// Whether `day_of_year` counts from one, as in ISO 8601.
    ordinal: bool,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    iso_day: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    milli: i64,
    zone: Option<Zone>,
    /// Whether the text names a zone (`Z` is a name). A named zone cannot be combined with a `timezone` argument. An offset
    /// can, and overrides it.
    named_zone: bool,
}

/// The text that is still to be read.
struct Cursor<'t> {
    rest: &'t str,
}

/// Reads a date in ISO 8601 or a similar form.
pub fn date(text: &str) -> std::result::Result<i64, String> {
    read(text, None, None)
}

pub fn read(
    text: &str,
    format: Option<&str>,
    zone: Option<&Zone>,
) -> std::result::Result<i64, String> {
    let error = |why: &str| format!("Error parsing date string '{text}'; {why}");
    let found = match format {
        Some(format) => formatted(text, format),
        None => free(text),
    };
    let found = found.ok_or_else(|| error("0: The string does not have the form of a date"))?;
    if zone.is_some() && found.named_zone {
        return Err(error(
            "you cannot pass in a date/time string with time zone information together with a timezone argument",
        ));
    }
    let days = found.days().ok_or_else(|| {
        error("an incomplete date/time string has been found, with elements missing")
    })?;
    let time = ((found.hour * 60 + found.minute) * 60 + found.second) * 1000 + found.milli;
    let zone = found.zone.as_ref().or(zone).unwrap_or(&Zone::UTC);
    zone.utc(days * MILLIS_PER_DAY + time)
        .ok_or_else(|| error("the date is outside the supported range"))
}

/// Reads a text without a format: `2024-02-29T12:00:00.000Z` and its shorter forms, `29 February 2024`, `February 29,
/// 2024`.
fn free(text: &str) -> Option<DateFields> {
    let blank = |c: char| c.is_ascii_whitespace() || c == '\0' || c == '\u{a0}';
    let mut cursor = Cursor {
        rest: text.trim_matches(blank),
    };
    let mut found = DateFields::default();
    cursor.date(&mut found)?;
    if cursor.rest.is_empty() {
        return Some(found);
    }
    if cursor.accept('T') || cursor.accept('t') || cursor.spaces() {
        if cursor.rest.starts_with(|c: char| c.is_ascii_digit()) {
            cursor.time(&mut found)?;
        }
        cursor.spaces();
    }
    if !cursor.rest.is_empty() {
        cursor.zone_into(&mut found)?;
        // An example is `Wed Jan 31 12:05:28 +03:30 1996`.
        if found.year.is_none() && cursor.spaces() {
            found.year = Some(cursor.number(4, 4)?);
        }
    }
    cursor.rest.is_empty().then_some(found)
}

fn formatted(text: &str, format: &str) -> Option<DateFields> {
    let mut cursor = Cursor { rest: text };
    let mut found = DateFields::default();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            if !cursor.accept(letter) {
                return None;
            }
            continue;
        }
        match letters.next()? {
            'Y' => found.year = Some(cursor.number(4, 4)?),
            'm' => found.month = Some(cursor.within(1, 2, 1..=12)?),
            'd' => found.day = Some(cursor.within(1, 2, 1..=31)?),
            'H' => found.hour = cursor.within(1, 2, 0..=24)?,
            'M' => found.minute = cursor.within(1, 2, 0..=59)?,
            'S' => found.second = cursor.within(1, 2, 0..=60)?,
            'L' => found.milli = cursor.fraction(3)?,
            'j' => found.day_of_year = Some(cursor.within(1, 3, 1..=366)?),
            'G' => found.iso_year = Some(cursor.number(4, 4)?),
            'V' => found.iso_week = Some(cursor.within(1, 2, 1..=53)?),
            'u' => found.iso_day = Some(cursor.within(1, 1, 1..=7)?),
            'b' | 'B' => found.month = Some(cursor.month()?),
            'z' => cursor.zone_into(&mut found)?,
            'Z' => {
                let sign = if cursor.accept('-') {
                    -1
                } else {
                    cursor.accept('+');
                    1
                };
                found.zone = Some(Zone::Fixed(sign * cursor.number(1, 4)? * 60_000));
            }
            literal => {
                if !cursor.accept(literal) {
                    return None;
                }
            }
        }
    }
    cursor.rest.is_empty().then_some(found)
}

// === impl DateFields ===

impl DateFields {
    fn days(&self) -> Option<i64> {
        if let Some(year) = self.iso_year {
            let week = self.iso_week.unwrap_or(1);
            let day = self.iso_day.unwrap_or(1);
            return Some(iso_year_start(year) + (week - 1) * 7 + day - 1);
        }
        let year = self.year?;
        if let Some(day) = self.day_of_year {
            let first = Civil {
                year,
                month: 1,
                day: 1,
            };
            // Without `ordinal` the day counts from zero, as in the library with which mongod reads dates.
            return Some(first.to_days() + day - i64::from(self.ordinal));
        }
        let (month, day) = (self.month?, self.day?);
        if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
            return None;
        }
        Some(Civil { year, month, day }.to_days())
    }
}

// === impl Cursor ===

impl<'t> Cursor<'t> {
    fn accept(&mut self, letter: char) -> bool {
        match self.rest.strip_prefix(letter) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn spaces(&mut self) -> bool {
        let before = self.rest.len();
        self.rest = self.rest.trim_start_matches([' ', ',', '\t']);
        self.rest.len() != before
    }

    fn digits(&mut self, most: usize) -> &'t str {
        let count = self
            .rest
            .bytes()
            .take(most)
            .take_while(u8::is_ascii_digit)
            .count();
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        digits
    }

    fn number(&mut self, least: usize, most: usize) -> Option<i64> {
        let digits = self.digits(most);
        (digits.len() >= least).then(|| digits.parse().ok())?
    }

    fn within(
        &mut self,
        least: usize,
        most: usize,
        range: std::ops::RangeInclusive<i64>,
    ) -> Option<i64> {
        self.number(least, most)
            .filter(|number| range.contains(number))
    }

    /// Reads digits after a decimal point as milliseconds.
    fn fraction(&mut self, most: usize) -> Option<i64> {
        let digits = self.digits(most);
        if digits.is_empty() {
            return None;
        }
        let mut three: String = digits.chars().take(3).collect();
        while three.len() < 3 {
            three.push('0');
        }
        three.parse().ok()
    }

    fn word(&mut self) -> &'t str {
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// Reads a month by its name or the first three letters of the name.
    fn month(&mut self) -> Option<i64> {
        let word = self.word().to_ascii_lowercase();
        let at = MONTHS.iter().position(|name| {
            let name = name.to_ascii_lowercase();
            name == word || (word.len() == 3 && name.starts_with(&word))
        })?;
        i64::try_from(at + 1).ok()
    }

    fn date(&mut self, found: &mut DateFields) -> Option<()> {
        if self.rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let before = self.rest;
            if let Some(month) = self.month() {
                found.month = Some(month);
                self.accept('.');
                self.spaces();
                found.day = Some(self.number(1, 2)?);
            } else {
                // The word is a weekday. It is skipped, because the date determines it.
                self.rest = before;
                let word = self.word();
                if word.len() < 3 || !self.spaces() {
                    return None;
                }
                if self.rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
                    // In `Wed Jan 31 12:05:28 1996` the year comes last.
                    found.month = Some(self.month()?);
                    self.spaces();
                    found.day = Some(self.number(1, 2)?);
                    return Some(());
                }
                found.day = Some(self.number(1, 2)?);
                self.spaces();
                found.month = Some(self.month()?);
            }
            self.spaces();
            found.year = Some(self.number(4, 4)?);
            return Some(());
        }
        // A minus sign makes the year negative.
        let before_zero = self.accept('-');
        let first = self.digits(8);
        match first.len() {
            8 => {
                found.year = first.get(..4)?.parse().ok();
                found.month = first.get(4..6)?.parse().ok();
                found.day = first.get(6..)?.parse().ok();
            }
            4 => {
                found.year = first.parse().ok();
                if before_zero {
                    found.year = found.year.map(|year: i64| -year);
                }
                let separator = self.rest.chars().next()?;
                if !matches!(separator, '-' | '/') || !self.accept(separator) {
                    return None;
                }
                if separator == '-' && self.accept('W') {
                    found.iso_year = found.year;
                    found.iso_week = Some(self.number(2, 2)?);
                    if self.accept('-') {
                        found.iso_day = Some(self.within(1, 1, 1..=7)?);
                    }
                    return Some(());
                }
                let second = self.digits(3);
                if second.len() == 3 {
                    found.day_of_year = second.parse().ok();
                    found.ordinal = true;
                    return Some(());
                }
                found.month = Some(second.parse().ok()?);
                if self.accept(separator) {
                    found.day = Some(self.number(1, 2)?);
                } else {
                    found.day = Some(1);
                }
            }
            1 | 2 => {
                let number: i64 = first.parse().ok()?;
                if self.accept('/') {
                    // The month comes first, as in American dates.
                    found.month = Some(number);
                    found.day = Some(self.number(1, 2)?);
                    if !self.accept('/') {
                        return None;
                    }
                } else {
                    self.accept('-');
                    self.spaces();
                    found.day = Some(number);
                    found.month = Some(self.month()?);
                    self.accept('-');
                    self.spaces();
                }
                found.year = Some(self.number(4, 4)?);
            }
            _ => return None,
        }
        (!before_zero || first.len() == 4).then_some(())
    }

    fn time(&mut self, found: &mut DateFields) -> Option<()> {
        found.hour = self.within(1, 2, 0..=24)?;
        if self.accept(':') {
            found.minute = self.within(2, 2, 0..=59)?;
            if self.accept(':') {
                found.second = self.within(2, 2, 0..=60)?;
                if self.accept('.') || self.accept(',') {
                    found.milli = self.fraction(9)?;
                }
            }
        } else if let minutes @ [_, ..] = self.digits(2).as_bytes() {
            found.minute = std::str::from_utf8(minutes).ok()?.parse().ok()?;
            let seconds = self.digits(2);
            if !seconds.is_empty() {
                found.second = seconds.parse().ok()?;
            }
        }
        let before = self.rest;
        self.spaces();
        match self.word().to_ascii_lowercase().as_str() {
            "am" => found.hour %= 12,
            "pm" => found.hour = found.hour % 12 + 12,
            _ => self.rest = before,
        }
        Some(())
    }

    fn zone_into(&mut self, found: &mut DateFields) -> Option<()> {
        let end = self
            .rest
            .find(char::is_whitespace)
            .unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        if text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_digit()) {
            // This is the year of a date with the year at its end.
            found.year = text.parse().ok();
            self.rest = rest;
            return Some(());
        }
        self.rest = rest;
        let bare = text.strip_prefix("GMT").filter(|rest| !rest.is_empty());
        let text = bare.unwrap_or(text);
        found.named_zone = !text.starts_with(['+', '-']);
        found.zone = Some(match text {
            "Z" | "z" => Zone::UTC,
            _ => Zone::parse(text).ok()?,
        });
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::civil::iso_string;
    use super::*;

    #[test]
    fn texts() {
        for (text, expected) in [
            ("2017-02-08T12:10:40.787Z", Some("2017-02-08T12:10:40.787Z")),
            ("2017-02-08T12:10:40", Some("2017-02-08T12:10:40.000Z")),
            ("2017-02-08 12:10", Some("2017-02-08T12:10:00.000Z")),
            ("2017-02-08", Some("2017-02-08T00:00:00.000Z")),
            ("20170208", Some("2017-02-08T00:00:00.000Z")),
            ("20170208T121040Z", Some("2017-02-08T12:10:40.000Z")),
            ("2017-02-08T12:10:40+0530", Some("2017-02-08T06:40:40.000Z")),
            (
                "2017-02-08T12:10:40 America/New_York",
                Some("2017-02-08T17:10:40.000Z"),
            ),
            ("2017-039", Some("2017-02-08T00:00:00.000Z")),
            ("2017-W06-3", Some("2017-02-08T00:00:00.000Z")),
            ("8 February 2017", Some("2017-02-08T00:00:00.000Z")),
            ("Feb 8, 2017 5:10 pm", Some("2017-02-08T17:10:00.000Z")),
            (
                "Wed, 08 Feb 2017 12:10:40 GMT",
                Some("2017-02-08T12:10:40.000Z"),
            ),
            ("2017-02-30", None),
            ("2017", None),
            ("", None),
            ("yesterday", None),
            ("2017-02-08T12:10:40X", None),
        ] {
            let found = date(text).ok().map(iso_string);
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
