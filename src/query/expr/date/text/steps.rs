//! Reads a text without a format: token by token, each by the steps of its form.

use super::grammar;
use super::parsed_time::ParsedTime;
use super::token::Token;

/// What reading a token does, part by part.
#[derive(Clone, Copy)]
pub enum DateStep {
    /// The token tells a date. A second date is an error, and the token is then not read.
    HaveDate,
    HaveTime,
    HaveZone,
    /// What earlier tokens told is void.
    NoDate,
    NoTime,
    /// The token moves the date.
    Relative,
    Year,
    /// A year with a sign and at most so many digits.
    SignedYear(usize),
    Month,
    MonthName,
    Day,
    DaySuffix,
    FirstDay,
    DayOfYear,
    Hour,
    Minute,
    Second,
    Fraction,
    Meridian,
    Zone,
    Blanks,
    /// The steps are taken if one of the characters follows.
    After(&'static str, &'static [DateStep]),
    /// The steps are taken if anything follows.
    Rest(&'static [DateStep]),
    Also(&'static [DateStep]),
    Do(fn(&mut TokenReader<'_, '_>)),
    Unexpected,
}

/// A token, and the time that it tells of.
pub struct TokenReader<'t, 'p> {
    pub token: Token<'t>,
    pub time: &'p mut ParsedTime,
    /// Where the token begins, for errors.
    at: usize,
    first: u8,
}

/// The token cannot be used. An error has been noted.
struct Unusable;

pub fn read(text: &str) -> ParsedTime {
    let mut time = ParsedTime::default();
    if text.is_empty() {
        time.error(0, 0, "Empty string");
        return time;
    }
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\n' | '\u{b}' | '\u{c}' | '\r');
    let trimmed = match text.trim_matches(is_space) {
        "" => " ",
        trimmed => trimmed,
    };
    let mut bytes = trimmed.as_bytes().to_vec();
    bytes.push(0);
    let mut at = 0;
    while let Some(first) = bytes.get(at).copied() {
        let (form, end) = grammar::token(&bytes, at);
        let mut reader = TokenReader {
            token: Token::new(bytes.get(at..end).unwrap_or_default()),
            time: &mut time,
            at,
            first,
        };
        // The error is noted, and the next token is read.
        let _ = reader.take(form.steps);
        at = end;
    }
    if time.times > 0 && !time.is_valid_time() {
        time.warn(bytes.len(), 0, "The parsed time was invalid");
    }
    if time.has_date && !time.is_valid_date() {
        time.warn(bytes.len(), 0, "The parsed date was invalid");
    }
    time
}

/// Returns a year that was written with so many digits. Two digits are a year from 1970 to 2069.
pub fn full_year((year, length): (i64, usize)) -> i64 {
    match year {
        _ if length >= 4 => year,
        0..=69 => year + 2000,
        70..=99 => year + 1900,
        _ => year,
    }
}

// === impl TokenReader ===

impl TokenReader<'_, '_> {
    pub fn error(&mut self, message: &'static str) {
        self.time.error(self.at, self.first, message);
    }

    fn take(&mut self, steps: &'static [DateStep]) -> Result<(), Unusable> {
        steps.iter().try_for_each(|step| self.step(*step))
    }

    fn step(&mut self, step: DateStep) -> Result<(), Unusable> {
        let Self { token, time, .. } = self;
        match step {
            DateStep::HaveDate if time.has_date => return self.refuse("Double date specification"),
            DateStep::HaveDate => time.has_date = true,
            DateStep::HaveTime if time.times > 0 => {
                return self.refuse("Double time specification");
            }
            DateStep::HaveTime => {
                time.times = 1;
                time.set_midnight();
            }
            DateStep::HaveZone => return self.have_zone(),
            DateStep::NoDate => {
                time.has_date = false;
                (time.year, time.month, time.day) = (Some(0), Some(0), Some(0));
            }
            DateStep::NoTime => time.no_time(),
            DateStep::Relative => time.relative.is_used = true,
            DateStep::Year => time.year = token.number_and_length(4).map(full_year),
            DateStep::SignedYear(most) => match token.signed_number(most) {
                Ok(year) => time.year = Some(year),
                Err(why) => {
                    time.year = Some(0);
                    self.error(why);
                }
            },
            DateStep::Month => time.month = token.number(2),
            DateStep::MonthName => time.month = Some(token.month_name().unwrap_or(0)),
            DateStep::Day => time.day = token.number(2),
            DateStep::DaySuffix => token.day_suffix(),
            DateStep::FirstDay => time.day = Some(1),
            DateStep::DayOfYear => {
                time.day = token.number(3);
                time.month = Some(1);
            }
            DateStep::Hour => time.hour = token.number(2),
            DateStep::Minute => time.minute = token.number(2),
            DateStep::Second => time.second = token.number(2),
            DateStep::Fraction => time.micro = token.microseconds(),
            DateStep::Meridian => self.meridian(),
            DateStep::Zone => {
                if !token.zone(time) {
                    time.zone_not_found(self.at, self.first);
                }
            }
            DateStep::Blanks => token.blanks(),
            DateStep::After(separators, steps) => {
                if !token.is_at_end() && separators.as_bytes().contains(&token.peek()) {
                    return self.take(steps);
                }
            }
            DateStep::Rest(steps) => {
                if !token.is_at_end() {
                    return self.take(steps);
                }
            }
            DateStep::Also(steps) => return self.take(steps),
            DateStep::Do(what) => what(self),
            DateStep::Unexpected => self.error("Unexpected character"),
        }
        Ok(())
    }

    pub fn meridian(&mut self) {
        let hour = self.time.hour.unwrap_or(0);
        self.time.hour = Some(hour + self.token.meridian(hour));
    }

    fn refuse(&mut self, message: &'static str) -> Result<(), Unusable> {
        self.error(message);
        Err(Unusable)
    }

    /// A second zone is a warning, a third one an error.
    fn have_zone(&mut self) -> Result<(), Unusable> {
        self.time.zones += 1;
        let message = "Double timezone specification";
        match self.time.zones {
            1 => return Ok(()),
            2 => self.time.warn(self.at, self.first, message),
            _ => self.error(message),
        }
        Err(Unusable)
    }
}
