//! Words and numbers that move a date: `monday`, `+2 weeks`, `first day of`, `2020-W05`. They are collected while tokens are
//! read, and applied when the date is complete.

use super::super::civil::{Civil, iso_weekday};
use super::parsed_time::{CompleteTime, ParsedTime, ParsedZone};
use super::steps::{TokenReader, full_year};

#[derive(Debug, Default)]
pub struct RelativeTime {
    /// Some token moves the date. Without it only weekdays and ends of months do.
    pub is_used: bool,
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micro: i64,
    weekday: Option<Weekday>,
    /// Set also without a weekday, by `next week`.
    counts: WeekdayRule,
    special: Option<SpecialDay>,
    end_of_month: Option<EndOfMonth>,
}

/// A day of the week, 0 is Sunday. `ago` makes it negative.
#[derive(Debug, Clone, Copy)]
struct Weekday(i64);

/// Which day a weekday means.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum WeekdayRule {
    /// The next one, not today.
    #[default]
    After,
    /// The next one, or today.
    FromToday,
    /// The one in this week, which begins on Monday.
    ThisWeek,
}

#[derive(Debug, Clone, Copy)]
enum SpecialDay {
    /// So many days from Monday to Friday.
    Workdays(i64),
    /// The weekday counts from the first of the month.
    InMonth,
    /// The weekday counts back from the end of the month.
    LastInMonth,
}

#[derive(Debug, Clone, Copy)]
enum EndOfMonth {
    First,
    Last,
}

/// What a number before a word counts.
#[derive(Debug, Clone, Copy)]
enum RelativeUnit {
    Micro(i64),
    Second,
    Minute,
    Hour,
    Day(i64),
    Month,
    Year,
    Weekday(i64),
    Workday,
}

/// Words that count, and the rule for a weekday after them.
#[rustfmt::skip]
const COUNTS: &[(&str, i64)] = &[
    ("first", 1), ("next", 1), ("second", 2), ("third", 3), ("fourth", 4), ("fifth", 5), ("sixth", 6), ("seventh", 7),
    ("eight", 8), ("eighth", 8), ("ninth", 9), ("tenth", 10), ("eleventh", 11), ("twelfth", 12), ("last", -1),
    ("previous", -1), ("this", 0),
];

pub fn yesterday(reader: &mut TokenReader<'_, '_>) {
    reader.time.relative.day = -1;
}

pub fn tomorrow(reader: &mut TokenReader<'_, '_>) {
    reader.time.relative.day = 1;
}

pub fn noon(reader: &mut TokenReader<'_, '_>) {
    reader.time.hour = Some(12);
}

/// Reads `@1577836800` or `@1577836800.5`, seconds since 1970.
pub fn seconds(reader: &mut TokenReader<'_, '_>) {
    reader.token.skip(1);
    let minus = reader.token.peek() == b'-';
    let seconds = signed(reader);
    let time = &mut *reader.time;
    (time.year, time.month, time.day) = (Some(1970), Some(1), Some(1));
    time.set_midnight();
    time.relative.second = time.relative.second.wrapping_add(seconds);
    time.zone = ParsedZone::Offset(0);
    if reader.token.peek() != b'.' {
        return;
    }
    let before = reader.token.left();
    let fraction = signed(reader);
    let length = (before - reader.token.left()) as f64;
    let micros = (fraction as f64 * 10f64.powf(7.0 - length)) as i64;
    reader.time.relative.micro = if minus { -micros } else { micros };
}

pub fn end_of_month(reader: &mut TokenReader<'_, '_>) {
    let last = matches!(reader.token.peek(), b'l' | b'L');
    let end = if last {
        EndOfMonth::Last
    } else {
        EndOfMonth::First
    };
    reader.time.relative.end_of_month = Some(end);
}

/// Reads `back of 7pm` (19:15) or `front of 7pm` (18:45). Only a small `b` means back.
pub fn about_an_hour(reader: &mut TokenReader<'_, '_>) {
    let back = reader.token.peek() == b'b';
    let hour = reader.token.number(2).unwrap_or(0);
    reader.time.hour = Some(if back { hour } else { hour - 1 });
    reader.time.minute = Some(if back { 15 } else { 45 });
    if !reader.token.is_at_end() {
        reader.token.blanks();
        reader.meridian();
    }
}

/// Reads `first monday of`.
pub fn weekday_of_month(reader: &mut TokenReader<'_, '_>) {
    let (count, rule) = count_by_word(reader);
    let (special, rule) = match count > 0 {
        true => (SpecialDay::InMonth, WeekdayRule::FromToday),
        false => (SpecialDay::LastInMonth, rule),
    };
    reader.time.relative.special = Some(special);
    move_by(reader, count, rule, KeepTime::No);
}

/// Reads four digits: a time, or a year if a time came before.
pub fn four_digits(reader: &mut TokenReader<'_, '_>) {
    let TokenReader { token, time, .. } = &mut *reader;
    match time.times {
        0 => {
            time.hour = token.number(2);
            time.minute = token.number(2);
            time.second = Some(0);
        }
        1 => time.year = token.number_and_length(4).map(full_year),
        _ => return reader.error("Double time specification"),
    }
    time.times += 1;
}

/// Reads `2020-W05-1` or `2020W05`.
pub fn iso_week(reader: &mut TokenReader<'_, '_>) {
    let TokenReader { token, time, .. } = &mut *reader;
    let year = token.number(4).unwrap_or(0);
    let week = token.number(2).unwrap_or(1);
    let day = token.number(1).unwrap_or(1);
    (time.year, time.month, time.day) = (Some(year), Some(1), Some(1));
    let first = Civil {
        year,
        month: 1,
        day: 1,
    };
    let weekday = day_of_week(first.to_days());
    let monday = if weekday > 4 { 7 - weekday } else { -weekday };
    time.relative.day = monday + (week - 1) * 7 + day;
}

/// Turns what was collected so far around.
pub fn ago(reader: &mut TokenReader<'_, '_>) {
    let relative = &mut reader.time.relative;
    for part in [
        &mut relative.year,
        &mut relative.month,
        &mut relative.day,
        &mut relative.hour,
        &mut relative.minute,
        &mut relative.second,
    ] {
        *part = part.wrapping_neg();
    }
    if let Some(Weekday(weekday)) = &mut relative.weekday {
        *weekday = if *weekday == 0 { -7 } else { -*weekday };
    }
    if let Some(SpecialDay::Workdays(count)) = &mut relative.special {
        *count = count.wrapping_neg();
    }
}

/// Reads the name of a day. `weekday` means Monday here.
pub fn weekday(reader: &mut TokenReader<'_, '_>) {
    reader.time.no_time();
    let day = match unit(reader) {
        Some(RelativeUnit::Weekday(day)) => day,
        _ => 1,
    };
    let relative = &mut reader.time.relative;
    relative.weekday = Some(Weekday(day));
    if relative.counts != WeekdayRule::ThisWeek {
        relative.counts = WeekdayRule::FromToday;
    }
}

/// Reads `next week`. Without a weekday before or after it, Monday is meant.
pub fn week_by_word(reader: &mut TokenReader<'_, '_>) {
    while !reader.token.is_at_end() {
        let (count, rule) = count_by_word(reader);
        move_by(reader, count, rule, KeepTime::No);
        let relative = &mut reader.time.relative;
        relative.counts = WeekdayRule::ThisWeek;
        relative.weekday.get_or_insert(Weekday(1));
    }
}

/// Reads `next month`.
pub fn unit_by_word(reader: &mut TokenReader<'_, '_>) {
    while !reader.token.is_at_end() {
        let (count, rule) = count_by_word(reader);
        move_by(reader, count, rule, KeepTime::No);
    }
}

/// Reads `+2 weeks`.
pub fn units(reader: &mut TokenReader<'_, '_>) {
    while !reader.token.is_at_end() {
        let count = signed(reader);
        reader.token.blanks();
        move_by(reader, count, WeekdayRule::FromToday, KeepTime::Yes);
    }
}

fn signed(reader: &mut TokenReader<'_, '_>) -> i64 {
    reader.token.signed_number(24).unwrap_or_else(|why| {
        reader.error(why);
        0
    })
}

fn count_by_word(reader: &mut TokenReader<'_, '_>) -> (i64, WeekdayRule) {
    let token = &mut reader.token;
    token.take_while(|byte| matches!(byte, b' ' | b'\t' | b'-' | b'/'));
    let word = token.word();
    token.blanks();
    let count = COUNTS
        .iter()
        .find(|(name, _)| *name == word)
        .map_or(0, |row| row.1);
    let rule = match word.as_str() {
        "this" => WeekdayRule::FromToday,
        _ => WeekdayRule::After,
    };
    (count, rule)
}

/// Whether the time of day stays as it is when the date moves to a weekday.
#[derive(PartialEq)]
enum KeepTime {
    Yes,
    No,
}

/// Reads a unit and notes that the date moves by so many of them.
fn move_by(reader: &mut TokenReader<'_, '_>, count: i64, rule: WeekdayRule, keep: KeepTime) {
    let Some(unit) = unit(reader) else {
        return;
    };
    let relative = &mut reader.time.relative;
    let (part, factor) = match unit {
        RelativeUnit::Micro(factor) => (&mut relative.micro, factor),
        RelativeUnit::Second => (&mut relative.second, 1),
        RelativeUnit::Minute => (&mut relative.minute, 1),
        RelativeUnit::Hour => (&mut relative.hour, 1),
        RelativeUnit::Day(factor) => (&mut relative.day, factor),
        RelativeUnit::Month => (&mut relative.month, 1),
        RelativeUnit::Year => (&mut relative.year, 1),
        RelativeUnit::Weekday(day) => {
            let weeks = if count > 0 { count - 1 } else { count };
            relative.is_used = true;
            relative.day = relative.day.wrapping_add(weeks.wrapping_mul(7));
            relative.weekday = Some(Weekday(day));
            relative.counts = rule;
            return drop_time(reader.time, keep);
        }
        RelativeUnit::Workday => {
            relative.is_used = true;
            relative.special = Some(SpecialDay::Workdays(count));
            return drop_time(reader.time, keep);
        }
    };
    match part.checked_add(count.wrapping_mul(factor)) {
        Some(sum) => *part = sum,
        None => reader.error("Number out of range"),
    }
}

fn drop_time(time: &mut ParsedTime, keep: KeepTime) {
    if keep == KeepTime::No {
        time.no_time();
    }
}

fn unit(reader: &mut TokenReader<'_, '_>) -> Option<RelativeUnit> {
    let word = reader
        .token
        .take_while(|byte| !b" ,\t;:/.-()".contains(&byte));
    let word = String::from_utf8_lossy(word).to_ascii_lowercase();
    let singular = word.strip_suffix('s').unwrap_or(&word);
    Some(match (word.as_str(), singular) {
        ("ms", _) | (_, "msec" | "millisecond") => RelativeUnit::Micro(1000),
        ("\u{b5}s", _) | (_, "usec" | "\u{b5}sec" | "microsecond") => RelativeUnit::Micro(1),
        (_, "sec" | "second") => RelativeUnit::Second,
        (_, "min" | "minute") => RelativeUnit::Minute,
        (_, "hour") => RelativeUnit::Hour,
        (_, "day") => RelativeUnit::Day(1),
        (_, "week") => RelativeUnit::Day(7),
        (_, "fortnight" | "forthnight") => RelativeUnit::Day(14),
        (_, "month") => RelativeUnit::Month,
        (_, "year") => RelativeUnit::Year,
        (_, "sunday") | ("sun", _) => RelativeUnit::Weekday(0),
        (_, "monday") | ("mon", _) => RelativeUnit::Weekday(1),
        (_, "tuesday") | ("tue", _) => RelativeUnit::Weekday(2),
        (_, "wednesday") | ("wed", _) => RelativeUnit::Weekday(3),
        (_, "thursday") | ("thu", _) => RelativeUnit::Weekday(4),
        (_, "friday") | ("fri", _) => RelativeUnit::Weekday(5),
        (_, "saturday") | ("sat", _) => RelativeUnit::Weekday(6),
        (_, "weekday") => RelativeUnit::Workday,
        _ => return None,
    })
}

/// Returns the day of the week, 0 is Sunday.
fn day_of_week(days: i64) -> i64 {
    iso_weekday(days) % 7
}

// === impl ParsedTime ===

impl ParsedTime {
    pub fn no_time(&mut self) {
        self.times = 0;
        self.set_midnight();
    }
}

// === impl RelativeTime ===

impl RelativeTime {
    /// Moves a date. The order of the moves is timelib's.
    pub fn apply(mut self, time: &mut CompleteTime) {
        match self.special {
            Some(SpecialDay::InMonth) => {
                time.day = 1;
                time.month += std::mem::take(&mut self.month);
            }
            Some(SpecialDay::LastInMonth) => {
                time.day = 1;
                time.month += std::mem::take(&mut self.month) + 1;
            }
            Some(SpecialDay::Workdays(_)) | None => {}
        }
        self.to_end_of_month(time);
        time.normalize();
        self.to_weekday(time);
        time.normalize();
        if self.is_used {
            time.micro = time.micro.wrapping_add(self.micro);
            time.second = time.second.wrapping_add(self.second);
            time.minute = time.minute.wrapping_add(self.minute);
            time.hour = time.hour.wrapping_add(self.hour);
            time.day = time.day.wrapping_add(self.day);
            time.month = time.month.wrapping_add(self.month);
            time.year = time.year.wrapping_add(self.year);
        }
        self.to_end_of_month(time);
        time.normalize();
        if let Some(SpecialDay::Workdays(count)) = self.special {
            move_by_workdays(time, count);
        }
        time.normalize();
    }

    fn to_end_of_month(&self, time: &mut CompleteTime) {
        match self.end_of_month {
            Some(EndOfMonth::First) => time.day = 1,
            Some(EndOfMonth::Last) => {
                time.day = 0;
                time.month += 1;
            }
            None => {}
        }
    }

    fn to_weekday(&self, time: &mut CompleteTime) {
        let Some(Weekday(mut weekday)) = self.weekday else {
            return;
        };
        let today = day_of_week(time.days().unwrap_or(0));
        if self.counts == WeekdayRule::ThisWeek {
            // Sunday is the last day of its week.
            if today == 0 && weekday != 0 {
                weekday -= 7;
            }
            if weekday == 0 && today != 0 {
                weekday = 7;
            }
            time.day += weekday - today;
            return;
        }
        let mut difference = weekday - today;
        let least = match self.counts {
            WeekdayRule::FromToday => -1,
            _ => 0,
        };
        if (self.day < 0 && difference < 0) || (self.day >= 0 && difference <= least) {
            difference += 7;
        }
        time.day += match weekday >= 0 {
            true => difference,
            false => weekday.abs() - today - 7,
        };
    }
}

/// Moves by days from Monday to Friday.
fn move_by_workdays(time: &mut CompleteTime, count: i64) {
    let today = day_of_week(time.days().unwrap_or(0));
    // Five working days are a week.
    time.day = time.day.wrapping_add((count / 5).wrapping_mul(7));
    let rest = count % 5;
    time.day += match (count > 0, rest, today) {
        // From a weekend back to Friday.
        (true, 0, 0) => -2,
        (true, 0, 6) => -1,
        (true, 0, _) => 0,
        (true, _, 6) => 1,
        (true, ..) if today + rest > 5 => 2,
        // Nothing, or backwards: the mirror image.
        (false, 0, 6) => 2,
        (false, 0, 0) => 1,
        (false, 0, _) => 0,
        (false, _, 0) => -1,
        (false, ..) if today + rest < 1 => -2,
        _ => 0,
    };
    time.day += rest;
}
