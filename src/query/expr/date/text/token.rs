//! Reads numbers, names and zones from a token. What is in between is skipped: the form of the token has already said what
//! may stand there.

use super::abbreviations;
use super::parsed_time::{ParsedTime, ParsedZone};

/// The bytes of a token that are still to be read. Past the end there are zeros.
pub struct Token<'t> {
    rest: &'t [u8],
}

/// Month by name, abbreviation or Roman numeral.
#[rustfmt::skip]
const MONTHS: &[(&str, i64)] = &[
    ("jan", 1), ("feb", 2), ("mar", 3), ("apr", 4), ("may", 5), ("jun", 6), ("jul", 7), ("aug", 8), ("sep", 9), ("sept", 9),
    ("oct", 10), ("nov", 11), ("dec", 12), ("i", 1), ("ii", 2), ("iii", 3), ("iv", 4), ("v", 5), ("vi", 6), ("vii", 7),
    ("viii", 8), ("ix", 9), ("x", 10), ("xi", 11), ("xii", 12), ("january", 1), ("february", 2), ("march", 3), ("april", 4),
    ("june", 6), ("july", 7), ("august", 8), ("september", 9), ("october", 10), ("november", 11), ("december", 12),
];

// === impl Token ===

impl<'t> Token<'t> {
    pub fn new(bytes: &'t [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the next byte, and zero at the end.
    pub fn peek(&self) -> u8 {
        self.rest.first().copied().unwrap_or(0)
    }

    pub fn is_at_end(&self) -> bool {
        self.peek() == 0
    }

    /// Returns the number of bytes that are left.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    pub fn skip(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
    }

    pub fn accept(&mut self, one_of: &[u8]) -> bool {
        let found = !self.is_at_end() && one_of.contains(&self.peek());
        if found {
            self.skip(1);
        }
        found
    }

    /// Takes bytes as long as the test holds.
    pub fn take_while(&mut self, holds: impl Fn(u8) -> bool) -> &'t [u8] {
        let count = self
            .rest
            .iter()
            .take_while(|byte| **byte != 0 && holds(**byte))
            .count();
        let (taken, rest) = self.rest.split_at(count);
        self.rest = rest;
        taken
    }

    fn digits(&mut self, most: usize) -> &'t [u8] {
        let count = self
            .rest
            .iter()
            .take(most)
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let (taken, rest) = self.rest.split_at(count);
        self.rest = rest;
        taken
    }

    /// Reads the next number, and how many digits it has. Returns `None` if no digit follows.
    pub fn number_and_length(&mut self, most: usize) -> Option<(i64, usize)> {
        self.take_while(|byte| !byte.is_ascii_digit());
        let digits = self.digits(most);
        (!digits.is_empty()).then(|| (decimal(digits), digits.len()))
    }

    pub fn number(&mut self, most: usize) -> Option<i64> {
        Some(self.number_and_length(most)?.0)
    }

    /// Reads a number with any number of signs before it. Returns an error if it is missing or too large.
    pub fn signed_number(&mut self, most: usize) -> Result<i64, &'static str> {
        const MISSING: &str = "Found unexpected data";
        self.take_while(|byte| !byte.is_ascii_digit() && !matches!(byte, b'+' | b'-'));
        let signs = self.take_while(|byte| matches!(byte, b'+' | b'-'));
        let minus = signs.iter().filter(|sign| **sign == b'-').count() % 2 == 1;
        self.take_while(|byte| !byte.is_ascii_digit());
        let digits = std::str::from_utf8(self.digits(most)).map_err(|_| MISSING)?;
        if digits.is_empty() {
            return Err(MISSING);
        }
        let text = format!("{}{digits}", if minus { "-" } else { "" });
        text.parse().map_err(|_| "Number out of range")
    }

    /// Reads digits behind a point or a colon as microseconds.
    pub fn microseconds(&mut self) -> Option<i64> {
        self.take_while(|byte| !byte.is_ascii_digit() && !matches!(byte, b'.' | b':'));
        let digits = self.take_while(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b':'));
        let number: f64 = std::str::from_utf8(digits.get(1..)?)
            .ok()?
            .parse()
            .unwrap_or(0.0);
        let scale = 10f64.powf(7.0 - digits.len() as f64);
        Some((number * scale) as i64)
    }

    pub fn blanks(&mut self) {
        loop {
            match self.rest {
                [b' ' | b'\t', ..] => self.skip(1),
                [0xe2, 0x80, 0xaf, ..] => self.skip(3),
                [0xc2, 0xa0, ..] => self.skip(2),
                _ => return,
            }
        }
    }

    /// Takes the letters that follow, in lower case.
    pub fn word(&mut self) -> String {
        lower(self.take_while(|byte| byte.is_ascii_alphabetic()))
    }

    /// Reads the name of a month behind separators.
    pub fn month_name(&mut self) -> Option<i64> {
        self.take_while(|byte| matches!(byte, b' ' | b'\t' | b'-' | b'.' | b'/'));
        self.month_word()
    }

    /// Reads the name of a month.
    pub fn month_word(&mut self) -> Option<i64> {
        let word = self.word();
        MONTHS
            .iter()
            .find(|(name, _)| *name == word)
            .map(|row| row.1)
    }

    pub fn day_suffix(&mut self) {
        let suffix = self.rest.get(..2).map(lower).unwrap_or_default();
        if matches!(suffix.as_str(), "nd" | "rd" | "st" | "th") {
            self.skip(2);
        }
    }

    /// Reads `a.m.` or `p.m.`. Returns the hours to add to an hour on the dial.
    pub fn meridian(&mut self, hour: i64) -> i64 {
        self.take_while(|byte| !matches!(byte, b'A' | b'a' | b'P' | b'p'));
        let morning = matches!(self.peek(), b'A' | b'a');
        self.skip(1);
        self.accept(b".");
        self.accept(b"Mm");
        self.accept(b".");
        match (morning, hour == 12) {
            (true, true) => -12,
            (false, false) => 12,
            _ => 0,
        }
    }

    /// Reads an offset or an abbreviation into a time. Returns false if it is neither. The names of the time zone database
    /// are not known here: mongod refuses them.
    #[must_use]
    pub fn zone(&mut self, time: &mut ParsedTime) -> bool {
        self.take_while(|byte| matches!(byte, b' ' | b'\t' | b'('));
        if matches!(self.rest, [b'G', b'M', b'T', b'+' | b'-', ..]) {
            self.skip(3);
        }
        let sign = self.peek();
        let found = if matches!(sign, b'+' | b'-') {
            self.skip(1);
            let offset =
                clock_offset(self.take_while(|byte| byte.is_ascii_digit() || byte == b':'));
            let seconds = offset.unwrap_or(0);
            time.zone = ParsedZone::Offset(if sign == b'-' { -seconds } else { seconds });
            offset.is_some()
        } else {
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-+".contains(&byte);
            let name = self.take_while(is_part);
            match abbreviations::offset(&lower(name)) {
                Some(seconds) => {
                    let shown = String::from_utf8_lossy(name).to_uppercase();
                    time.zone = ParsedZone::Abbreviation(seconds, shown);
                    true
                }
                None => false,
            }
        };
        self.take_while(|byte| byte == b')');
        found
    }

    /// Reads an offset in minutes. Returns `None` if no sign comes first.
    pub fn minutes_offset(&mut self) -> Option<i64> {
        let sign = match self.peek() {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        self.skip(1);
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        Some(decimal(digits).saturating_mul(60) * sign)
    }
}

fn lower(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).to_ascii_lowercase()
}

/// Returns the value of digits. A value that does not fit becomes the largest.
fn decimal(digits: &[u8]) -> i64 {
    digits.iter().fold(0, |value: i64, digit| {
        value
            .saturating_mul(10)
            .saturating_add(i64::from(digit - b'0'))
    })
}

/// Reads `h`, `hh`, `h:m`, `h:mm`, `hh:m`, `hmm`, `hhmm`, `hh:mm`, `hhmmss` or `hh:mm:ss`, in seconds. The number of
/// characters decides which it is.
fn clock_offset(text: &[u8]) -> Option<i64> {
    let from = |at: usize| {
        let rest = text.get(at..).unwrap_or_default();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        decimal(&rest[..digits])
    };
    let colon = |at: usize| text.get(at) == Some(&b':');
    let all = from(0);
    let [hours, minutes, seconds] = match text.len() {
        1 | 2 => [all, 0, 0],
        3 | 4 if colon(1) => [all, from(2), 0],
        3..=5 if colon(2) => [all, from(3), 0],
        3 | 4 => [all / 100, all % 100, 0],
        6 => [all / 10_000, all / 100 % 100, all % 100],
        8 if colon(2) && colon(5) => [all, from(3), from(6)],
        _ => return None,
    };
    Some(hours * 3600 + minutes * 60 + seconds)
}
