//! The forms that a token of a date may have.
//!
//! Of all forms the longest match counts; if several are equally long, the first row. A text is read as if a zero byte
//! followed it, because some forms end with one. The forms are compiled into one automaton, when a date is read for the
//! first time.

use std::sync::LazyLock;

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::pool::Pool;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};

use super::relative;
use super::steps::DateStep::{self, *};

/// One kind of token: the pattern, and what reading it does.
pub struct DateForm {
    pattern: &'static str,
    pub steps: &'static [DateStep],
}

/// Named parts of patterns. A part stands in a later pattern as `<name>`.
#[rustfmt::skip]
const PARTS: &[(&str, &str)] = &[
    ("space", r"[ \t]+|(?:\xC2\xA0)+|(?:\xE2\x80\xAF)+"), // blanks, and two that do not break
    ("frac", r"\.[0-9]+"),
    ("hour24", "[01]?[0-9]|2[0-4]"),
    ("hour24lz", "[01][0-9]|2[0-4]"),
    ("hour12", "0?[1-9]|1[0-2]"),
    ("minute", "[0-5]?[0-9]"),
    ("minutelz", "[0-5][0-9]"),
    ("second", "<minute>|60"),
    ("secondlz", "<minutelz>|60"),
    ("meridian", r"[AaPp]\.?[Mm]\.?[\x00\t ]"),
    ("tz", r"\(?[A-Za-z]{1,6}\)?|[A-Z][a-z]+(?:[_/-][A-Za-z]+)+"),
    ("tzcorrection", "(?:GMT)?[+-](?:<hour24>(?::?<minute>)?|<hour24lz><minutelz><secondlz>|<hour24lz>:<minutelz>:<secondlz>)"),
    ("month", "0?[0-9]|1[0-2]"),
    ("day", "(?:[0-2]?[0-9]|3[01])(?:st|nd|rd|th)?"),
    ("year", "[0-9]{1,4}"),
    ("year4", "[0-9]{4}"),
    ("dayofyear", "00[1-9]|0[1-9][0-9]|[12][0-9][0-9]|3[0-5][0-9]|36[0-6]"),
    ("weekofyear", "0[1-9]|[1-4][0-9]|5[0-3]"),
    ("monthlz", "0[0-9]|1[0-2]"),
    ("daylz", "0[0-9]|[12][0-9]|3[01]"),
    ("dayfull", "(?i:(?:sun|mon|tues|wednes|thurs|fri|satur)days?)"),
    ("dayabbr", "(?i:sun|mon|tue|wed|thu|fri|sat)"),
    ("daytext", "<dayfull>|<dayabbr>|(?i:weekdays?)"),
    ("monthfull", "(?i:january|february|march|april|may|june|july|august|september|october|november|december)"),
    ("monthabbr", "(?i:jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)"),
    ("monthroman", "I{1,3}|I?V|VI{1,3}|I?X|XI{1,2}"),
    ("monthtext", "<monthfull>|<monthabbr>|<monthroman>"),
    ("gap", r"[ .\t-]*"),
    ("timeshort12", "<hour12>[:.]<minutelz><space>?<meridian>"),
    ("timelong12", "<hour12>[:.]<minute>[:.]<secondlz><space>?<meridian>"),
    ("timeshort24", "[tT]?<hour24>[:.]<minute>"),
    ("timelong24", "[tT]?<hour24>[:.]<minute>[:.]<second>"),
    ("iso8601normtz", "[tT]?<hour24>[:.]<minute>[:.]<secondlz><space>?(?:<tzcorrection>|<tz>)"),
    ("datenoyear", r"<monthtext><gap><day>(?:[,.stndrh\t ]+|\x00)"),
    ("reltextnumber", "(?i:first|second|third|fourth|fifth|sixth|seventh|eighth?|ninth|tenth|eleventh|twelfth)"),
    ("reltexttext", "(?i:next|last|previous|this)"),
    ("reltextunit", r"(?i:ms|\xC2\xB5s|(?:msec|millisecond|\xC2\xB5sec|microsecond|usec|sec|second|min|minute|hour|day|fortnight|forthnight|month|year)s?|weeks)|<daytext>"),
];

/// The dates that begin with a month by name and tell no year. A time of day may follow, and then belongs to the token.
const MONTH_DAY: DateStep = Also(&[HaveDate, MonthName, Day]);

#[rustfmt::skip]
pub const FORMS: &[DateForm] = &[
    form("(?i:yesterday)", &[Relative, NoTime, Do(relative::yesterday)]),
    form("(?i:now)", &[]),
    form("(?i:noon)", &[NoTime, HaveTime, Do(relative::noon)]),
    form("(?i:midnight|today)", &[NoTime]),
    form("(?i:tomorrow)", &[Relative, NoTime, Do(relative::tomorrow)]),
    form("@-?[0-9]+", &[Relative, NoDate, NoTime, HaveZone, Do(relative::seconds)]),
    form(r"@-?[0-9]+\.[0-9]{0,6}", &[Relative, NoDate, NoTime, HaveZone, Do(relative::seconds)]),
    form("(?i:first day of|last day of)", &[Relative, NoTime, Do(relative::end_of_month)]),
    form("(?i:back of |front of )<hour24>(?:<space>?<meridian>)?", &[NoTime, HaveTime, Do(relative::about_an_hour)]),
    form("(?:<reltextnumber>|<reltexttext>)<space>(?:<dayfull>|<dayabbr>)<space>(?i:of)", &[Relative, Do(relative::weekday_of_month)]),
    form("<hour12><space>?<meridian>|<timeshort12>|<timelong12>",
        &[HaveTime, Hour, After(":.", &[Minute, After(":.", &[Second])]), Blanks, Meridian]),
    form("<hour12>:<minutelz>:<secondlz>[:.][0-9]+<meridian>",
        &[HaveTime, Hour, Minute, After(":.", &[Second, After(":.", &[Fraction])]), Blanks, Meridian]),
    form("[tT]<hour24>|<timeshort24>|<timelong24>|<timelong24><frac>",
        &[HaveTime, Hour, After(":.", &[Minute, After(":.", &[Second, After(".", &[Fraction])])])]),
    form("[tT]?<hour24lz><minutelz>", &[Do(relative::four_digits)]),
    form("[tT]?<hour24lz><minutelz><secondlz>", &[HaveTime, Hour, Minute, Second]),
    form("<month>/<day>(?:/<year>)?", &[HaveDate, Month, Day, After("/", &[Year])]),
    form("[+-]?<year4>-<monthlz>-<daylz>|<year4>/<monthlz>/<daylz>/?|<year4>/<month>/<day>", &[HaveDate, SignedYear(4), Month, Day]),
    form("[0-9]{2}-<monthlz>-<daylz>", &[HaveDate, Year, Month, Day]),
    form("[+-][0-9]{5,19}-<monthlz>-<daylz>", &[HaveDate, SignedYear(19), Month, Day]),
    form("<year4>-<month>", &[HaveDate, Year, Month, FirstDay]),
    form("<year>-<month>-<day>", &[HaveDate, Year, Month, Day]),
    form("<day><gap><monthtext><gap><year>", &[HaveDate, Day, DaySuffix, MonthName, Year]),
    form(r"<day>[.\t-]<month>[.-]<year4>", &[HaveDate, Day, Month, Year]),
    form(r"<day>[.\t]<month>\.[0-9]{2}", &[HaveDate, Day, Month, Year]),
    form("<monthtext><gap><year4>", &[HaveDate, MonthName, Year, FirstDay]),
    form("<year4><gap><monthtext>", &[HaveDate, Year, MonthName, FirstDay]),
    form(r"<monthtext><gap><day>[,.stndrh\t ]+<year>|<datenoyear>", &[MONTH_DAY, Year]),
    form("<day><gap><monthtext>", &[HaveDate, Day, DaySuffix, MonthName]),
    form("<year4><monthlz><daylz>", &[HaveDate, Year, Month, Day]),
    form("<year4><monthlz><daylz>T<hour24>:<minutelz>:<secondlz>|\
          <year4><monthlz><daylz>[tT]<hour24><minutelz><secondlz>|\
          <year4>-<monthlz>-<daylz>T<hour24lz>:<minutelz>:<secondlz><frac><tzcorrection>?|\
          <year4>-<month>-<day>T<hour24>:<minute>:<second>|\
          <year4>:<monthlz>:<daylz> <hour24lz>:<minutelz>:<secondlz>",
        &[HaveTime, HaveDate, Year, Month, Day, Hour, Minute, Second, After(".", &[Fraction, Rest(&[Zone])])]),
    form("<year4>[.-]?<dayofyear>", &[HaveDate, Year, DayOfYear]),
    form("<year4>-?W<weekofyear>-?[0-7]", &[HaveDate, Relative, Do(relative::iso_week)]),
    form("<year4>-?W<weekofyear>", &[HaveDate, Relative, Do(relative::iso_week)]),
    form("<monthabbr>-<daylz>-<year>", &[HaveDate, MonthName, Day, Year]),
    form("<year>-<monthabbr>-<daylz>", &[HaveDate, Year, MonthName, Day]),
    form("<day>/<monthabbr>/<year4>:<hour24lz>:<minutelz>:<secondlz><space><tzcorrection>",
        &[HaveTime, HaveDate, Day, MonthName, Year, Hour, Minute, Second, Blanks, Zone]),
    form("<year4>", &[Year]),
    form("(?i:ago)", &[Do(relative::ago)]),
    form("<daytext>", &[Relative, Do(relative::weekday)]),
    form("<reltexttext><space>(?i:week)", &[Relative, Do(relative::week_by_word)]),
    form("(?:<reltextnumber>|<reltexttext>)<space><reltextunit>", &[Relative, Do(relative::unit_by_word)]),
    form("<monthfull>|<monthabbr>", &[HaveDate, MonthName]),
    form("<tzcorrection>|<tz>", &[HaveZone, Blanks, Zone]),
    form("<datenoyear>(?:<timeshort12>|<timelong12>)",
        &[MONTH_DAY, HaveTime, Hour, Minute, After(":.", &[Second, After(".", &[Fraction])]), Meridian]),
    form("<datenoyear>(?:<timeshort24>|<timelong24>|<iso8601normtz>)",
        &[MONTH_DAY, HaveTime, Hour, Minute, After(":", &[Second, After(".", &[Fraction])]), Rest(&[Zone])]),
    form(r"[+-]*[ \t]*[0-9]{1,13}<space>?(?:<reltextunit>|(?i:week))", &[Relative, Do(relative::units)]),
    form("[.,]", &[]),
    form("<space>", &[]),
    form(r"[\x00\n]", &[]),
    form(r"[\x00-\xFF]", &[Unexpected]),
];

const fn form(pattern: &'static str, steps: &'static [DateStep]) -> DateForm {
    DateForm { pattern, steps }
}

/// The automaton, and the states that it has computed so far, one set for each thread that reads.
struct Lexer {
    automaton: DFA,
    caches: Pool<Cache, Box<dyn Fn() -> Cache + Send + Sync>>,
}

static LEXER: LazyLock<Lexer> = LazyLock::new(|| {
    let patterns: Vec<String> = FORMS.iter().map(|form| expand(form.pattern)).collect();
    let automaton = DFA::builder()
        // All matches are kept, so the longest one is found.
        .configure(
            DFA::config()
                .match_kind(MatchKind::All)
                .skip_cache_capacity_check(true),
        )
        .syntax(syntax::Config::new().unicode(false).utf8(false))
        .thompson(thompson::Config::new().utf8(false))
        .build_many(&patterns)
        .expect("the patterns are constants, and a test compiles them");
    let states = automaton.clone();
    Lexer {
        automaton,
        caches: Pool::new(Box::new(move || states.create_cache())),
    }
});

/// Replaces the names of parts by their patterns.
fn expand(pattern: &str) -> String {
    let mut pattern = pattern.to_owned();
    // A part uses only earlier parts.
    for (name, part) in PARTS.iter().rev() {
        pattern = pattern.replace(&format!("<{name}>"), &format!("(?:{part})"));
    }
    pattern
}

/// Returns the form and the end of the token that begins at `start`. The text ends with a zero byte.
pub fn token(text: &[u8], start: usize) -> (&'static DateForm, usize) {
    let input = Input::new(text)
        .span(start..text.len())
        .anchored(Anchored::Yes);
    let lexer = &*LEXER;
    let mut cache = lexer.caches.get();
    match lexer.automaton.try_search_fwd(&mut cache, &input) {
        Ok(Some(found)) => (&FORMS[found.pattern().as_usize()], found.offset()),
        // The last form takes any byte.
        Ok(None) | Err(_) => (&FORMS[FORMS.len() - 1], start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_use_earlier_parts() {
        for form in FORMS {
            let pattern = expand(form.pattern);
            assert!(!pattern.contains('<'), "{pattern}");
        }
    }

    #[test]
    fn the_longest_form_counts_then_the_first() {
        for (text, end, pattern) in [
            ("2020-01-01\0", 10, "[+-]?<year4>-"),
            ("2020-01-01T10:00:00\0", 19, "<year4><monthlz><daylz>T"),
            ("1030\0", 4, "[tT]?<hour24lz><minutelz>"),
            ("2590\0", 4, "<year4>"),
            ("may 5\0", 6, "<monthtext><gap><day>"),
            ("mayor\0", 5, "<tzcorrection>"),
            ("sat\0", 3, "<daytext>"),
            ("#\0", 1, r"[\x00-\xFF]"),
        ] {
            let (form, found) = token(text.as_bytes(), 0);
            assert_eq!(found, end, "{text}");
            assert!(
                form.pattern.starts_with(pattern),
                "{text}: {}",
                form.pattern
            );
        }
    }
}
