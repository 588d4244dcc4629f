//! How a text is searched for a pattern: swiftly if that is safe, otherwise so that the search can be ended.
//!
//! A search by PCRE2 is one call that nobody can look into, and what it may take grows with the product of three things: the
//! places where a match can begin, the backtracking steps from each, and the letters that one step passes over. Where the look
//! of the pattern tells that this is not much, it is simply searched; a short text also with so few steps that the product stays
//! small. Where they do not suffice, and in all other texts, the search begins again with a pattern that was compiled to ask
//! before each of its items: it gives way to others meanwhile, and ends with its command. The answer is the same.

use std::sync::OnceLock;

use pcre2_sys::{PCRE2_CASELESS, PCRE2_DOTALL, PCRE2_EXTENDED, PCRE2_MULTILINE};

use super::growth::Growth;
use super::pcre::{Code, Failure, Kind, Places, Terms, Text};
use super::regex::Room;
use crate::aside;
use crate::error::{Error, Result};

/// A compiled pattern.
pub struct Regex {
    source: Box<str>,
    options: u32,
    fast: bool,
    plain: Code,
    growth: Option<Growth>,
    /// Made when a search first needs it.
    careful: OnceLock<Careful>,
    _room: Room,
}

/// The same pattern for searches that can be ended.
struct Careful {
    code: Code,
    /// With all the questions it would be larger than PCRE2 allows.
    windowed: bool,
    _room: Room,
}

/// What runs a search from a place.
type Run<'a> = &'a mut dyn FnMut(&Code, Text<'_>, usize, Terms<'_>) -> Result<bool, Failure>;

/// Why there is no answer.
#[derive(Debug)]
pub enum Broken {
    /// The command is to end.
    Ended(Error),
    /// The search came to one of PCRE2's limits. MongoDB takes that as no match in a filter, and as an error in an expression.
    Failed(Failure),
}

/// Backtracking steps from one place. PCRE2's own default is ten million; mongod is built with 200,000, and counts more of them.
const MOST_STEPS: u32 = 500_000;
/// Texts up to here are searched swiftly at first.
const SHORT: usize = 1024;
/// The product that a swift search may come to, in letters: some milliseconds.
const SWIFT: usize = 4_000_000;
/// And where the look of a pattern tells it, which is seldom what a search really comes to.
const CALM: usize = 32_000_000;
/// Letters that count as a unit of work.
const LETTERS: usize = 512;

// === impl Regex ===

impl Regex {
    /// `fast` asks for machine code. What is wrong with a pattern is said in PCRE2's words.
    pub(super) fn new(source: &str, flags: &str, room: Room, fast: bool) -> Result<Self, String> {
        let flag = |flag, option| if flags.contains(flag) { option } else { 0 };
        let options = flag('i', PCRE2_CASELESS)
            | flag('m', PCRE2_MULTILINE)
            | flag('s', PCRE2_DOTALL)
            | flag('x', PCRE2_EXTENDED);
        Ok(Self {
            plain: Code::compile(source, options, Kind::Plain, fast)?,
            growth: Growth::of(source, flags),
            careful: OnceLock::new(),
            source: source.into(),
            options,
            fast,
            _room: room,
        })
    }

    pub fn groups(&self) -> u32 {
        self.plain.groups()
    }

    pub fn places(&self) -> Result<Places, Broken> {
        Places::of(&self.plain).map_err(Broken::Failed)
    }

    #[inline]
    pub fn is_in(&self, text: &[u8]) -> Result<bool, Broken> {
        self.search(Text::Bytes(text), 0, Code::is_in)
    }

    /// The first match that begins at `from` or later.
    pub fn find(&self, text: &str, from: usize, places: &mut Places) -> Result<bool, Broken> {
        self.search(Text::Str(text), from, |code, text, from, terms| {
            code.find(text, from, terms, places)
        })
    }

    #[inline]
    fn search(
        &self,
        text: Text<'_>,
        from: usize,
        mut run: impl FnMut(&Code, Text<'_>, usize, Terms<'_>) -> Result<bool, Failure>,
    ) -> Result<bool, Broken> {
        let length = text.len().saturating_sub(from).max(1);
        let is_calm = self
            .growth
            .is_some_and(|growth| growth.letters(length) <= CALM);
        if is_calm || length <= SHORT {
            let steps = match is_calm {
                true => MOST_STEPS,
                false => u32::try_from(SWIFT / (length * length)).unwrap_or(MOST_STEPS),
            };
            let terms = Terms {
                steps: steps.min(MOST_STEPS),
                last: None,
                ask: None,
            };
            match run(&self.plain, text, from, terms) {
                Ok(found) => return Ok(found),
                Err(Failure::STEPS) if steps < MOST_STEPS => {}
                Err(failure) => return Err(Broken::Failed(failure)),
            }
        }
        self.search_carefully(text, from, &mut run)
    }

    #[cold]
    #[inline(never)]
    fn search_carefully(&self, text: Text<'_>, from: usize, run: Run<'_>) -> Result<bool, Broken> {
        let careful = match self.careful.get() {
            Some(careful) => careful,
            None => {
                let made = self.compile_carefully().map_err(Broken::Failed)?;
                self.careful.get_or_init(|| made)
            }
        };
        match careful.windowed {
            false => asking(&careful.code, text, from, run),
            true => self.in_windows(&careful.code, text, from, run),
        }
    }

    fn compile_carefully(&self) -> Result<Careful, Failure> {
        let room = Room::take(&self.source).map_err(|_| Failure::MEMORY)?;
        let compile = |kind| Code::compile(&self.source, self.options, kind, self.fast);
        let (code, windowed) = match compile(Kind::Asking) {
            Ok(code) => (code, false),
            Err(_) => (compile(Kind::Windowed).map_err(|_| Failure::MEMORY)?, true),
        };
        Ok(Careful {
            code,
            windowed,
            _room: room,
        })
    }

    /// In pieces of the text, by where a match may begin, and with few steps from each place: what takes more is taken for too
    /// much. Only patterns of some thousand letters come here.
    fn in_windows(
        &self,
        code: &Code,
        text: Text<'_>,
        mut from: usize,
        run: Run<'_>,
    ) -> Result<bool, Broken> {
        const FEW_STEPS: usize = 16;
        // What these say of a search they would say of each piece.
        if self.source.contains("\\G") || self.source.contains("(*") {
            return Err(Broken::Failed(Failure::STEPS));
        }
        let text = match text {
            Text::Str(text) => text,
            // Once, rather than for each piece.
            Text::Bytes(bytes) => {
                std::str::from_utf8(bytes).map_err(|_| Broken::Failed(Failure::NO_TEXT))?
            }
        };
        let width = (SWIFT / (FEW_STEPS * text.len().max(1))).max(1);
        loop {
            let units = 64 + text.len() / LETTERS;
            aside::tick(u32::try_from(units).unwrap_or(u32::MAX)).map_err(Broken::Ended)?;
            let last = text.len().min(from + width - 1);
            let terms = Terms {
                steps: FEW_STEPS as u32,
                last: Some(last),
                ask: None,
            };
            if run(code, Text::Str(text), from, terms).map_err(Broken::Failed)? {
                return Ok(true);
            }
            if last == text.len() {
                return Ok(false);
            }
            from = text.ceil_char_boundary(last + 1);
        }
    }
}

/// One search that asks as it goes whether to go on.
fn asking(code: &Code, text: Text<'_>, from: usize, run: Run<'_>) -> Result<bool, Broken> {
    // The place tells what an item has passed over, but for one that repeats what a group has found: it may have compared as
    // much without success. And each time PCRE2 writes down what all groups have found.
    let compared = match code.refers_back() {
        true => text.len() / LETTERS,
        false => 0,
    };
    let each = 1 + compared + code.groups() as usize / 16;
    let mut ended = None;
    let mut before = from;
    let mut ask = |place: usize| {
        let units = each + place.abs_diff(before) / LETTERS;
        before = place;
        let asked = aside::tick(u32::try_from(units).unwrap_or(u32::MAX));
        ended = asked.err();
        ended.is_none()
    };
    let terms = Terms {
        steps: MOST_STEPS,
        last: None,
        ask: Some(&mut ask),
    };
    let found = run(code, text, from, terms);
    match ended {
        Some(error) => Err(Broken::Ended(error)),
        None => found.map_err(Broken::Failed),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::aside::Limit;
    use crate::error::Code as ErrorCode;

    fn regex(source: &str) -> Regex {
        Regex::new(source, "", Room::take(source).unwrap(), true).unwrap()
    }

    /// The limits are told apart from answers; what was found is written with its groups.
    fn show(found: Result<bool, Broken>, places: &Places, groups: u32) -> String {
        match found {
            Ok(false) => "none".to_owned(),
            Ok(true) => (0..=groups).fold(String::new(), |mut shown, group| {
                let _ = write!(shown, "{:?}", places.get(group));
                shown
            }),
            Err(Broken::Failed(failure)) => failure.to_string(),
            Err(Broken::Ended(error)) => panic!("{error:?}"),
        }
    }

    /// What one search without anything in between finds.
    fn plainly(regex: &Regex, text: &str, from: usize) -> String {
        let mut places = regex.places().unwrap();
        let terms = Terms {
            steps: MOST_STEPS,
            last: None,
            ask: None,
        };
        let found = regex
            .plain
            .find(Text::Str(text), from, terms, &mut places)
            .map_err(Broken::Failed);
        show(found, &places, regex.groups())
    }

    fn carefully(regex: &Regex, text: &str, from: usize, kind: Kind) -> String {
        let mut places = regex.places().unwrap();
        let code = Code::compile(&regex.source, regex.options, kind, regex.fast).unwrap();
        let mut run = |code: &Code, text: Text<'_>, from: usize, terms: Terms<'_>| {
            code.find(text, from, terms, &mut places)
        };
        let found = match kind {
            Kind::Asking => asking(&code, Text::Str(text), from, &mut run),
            _ => regex.in_windows(&code, Text::Str(text), from, &mut run),
        };
        show(found, &places, regex.groups())
    }

    fn pattern() -> impl Strategy<Value = String> {
        let item = prop::sample::select(vec![
            "a", "b", "é", ".", "[ab]", "[^a]", "\\w", "\\b", "^", "$", "(a)", "(b|ab)", "(?:a|é)",
            "(?=b)", "(?!a)", "(?<=a)", "\\1", "\\K", "(?i:B)", "(a*)", "x", "\n", "(?m:^)", "\\X",
        ]);
        let times =
            prop::sample::select(vec!["", "", "", "*", "+", "?", "{0,3}", "{2}", "*?", "*+"]);
        let one = prop::collection::vec((item, times), 1..5);
        prop::collection::vec(one, 1..3).prop_map(|branches| {
            let branches = branches.into_iter().map(|items| {
                items
                    .into_iter()
                    .map(|(item, times)| format!("{item}{times}"))
                    .collect::<String>()
            });
            branches.collect::<Vec<_>>().join("|")
        })
    }

    proptest! {
        #[test]
        fn a_search_that_can_be_ended_finds_the_same(
            source in pattern(),
            text in "[abéxB\n]{0,40}",
            fast in any::<bool>(),
            from in 0usize..3,
        ) {
            let room = Room::take(&source).unwrap();
            // Some are no patterns, like a quantifier behind an anchor.
            let Ok(regex) = Regex::new(&source, "", room, fast) else { return Ok(()) };
            let from = text.floor_char_boundary(from);
            let expected = plainly(&regex, &text, from);
            prop_assert_eq!(&carefully(&regex, &text, from, Kind::Asking), &expected);
            let windowed = carefully(&regex, &text, from, Kind::Windowed);
            if windowed != Failure::STEPS.to_string() {
                prop_assert_eq!(&windowed, &expected);
            }
            let mut places = regex.places().unwrap();
            let found = regex.find(&text, from, &mut places);
            prop_assert_eq!(&show(found, &places, regex.groups()), &expected);
            let found = regex.is_in(text.as_bytes());
            if from == 0 && let Ok(found) = found {
                prop_assert_eq!(found, expected != "none");
            }
        }
    }

    /// Each of them would go on for minutes at least.
    #[test]
    fn every_search_ends_with_its_command() {
        // The letter that is asked for twice is there once: no search is over before it begins.
        let long = format!("{}b", "a".repeat(4 << 20));
        let short = format!("{}b", "a".repeat(SHORT - 1));
        for (source, text) in [
            ("a{0,65535}bb", &long),
            ("a*a*bb", &long),
            ("a*a*a*a*bb", &short),
            ("(a+)+bb", &short),
            ("(a*)*?\\1bb", &long),
            ("(?:a|aa)+bb", &long),
            ("(?=(a*)bb)", &long),
        ] {
            for fast in [true, false] {
                let regex = Regex::new(source, "", Room::take(source).unwrap(), fast).unwrap();
                let limit = Limit::within(Duration::from_millis(20));
                let late = Limit::within(Duration::from_secs(120));
                let found = limit.watch(|| regex.is_in(text.as_bytes()));
                // An interpreter that counts every letter may come to its limits first.
                match found {
                    Err(Broken::Ended(error)) => {
                        assert_eq!(error.code(), ErrorCode::MaxTimeMSExpired, "{source}");
                    }
                    Err(Broken::Failed(_)) => {}
                    Ok(found) => panic!("{source} {fast}: {found}"),
                }
                assert!(late.check().is_ok(), "{source} {fast}");
            }
        }
        let killed = Limit::of_killed();
        let ended = killed.watch(|| regex("a{0,65535}bb").is_in(long.as_bytes()));
        assert!(
            matches!(ended, Err(Broken::Ended(error)) if error.code() == ErrorCode::Interrupted)
        );
        let large = format!("{}|a*a*a*bb", "x".repeat(15_000));
        let refused = regex(&large).is_in(long.as_bytes());
        assert!(
            matches!(refused, Err(Broken::Failed(Failure::STEPS))),
            "{refused:?}"
        );
    }

    #[test]
    fn a_long_pattern_is_found_in_a_long_text() {
        let regex = regex(&"c".repeat(16_384));
        for (before, length, expected) in [
            ("é", 100_000, true),
            ("dé", 16_384, true),
            ("d", 16_383, false),
        ] {
            let text = format!("{before}{}", "c".repeat(length));
            assert_eq!(
                regex.is_in(text.as_bytes()).ok(),
                Some(expected),
                "{length}"
            );
        }
        assert!(regex.careful.get().is_some_and(|careful| careful.windowed));
        // One that asks is small enough in nearly all cases.
        let regex = super::tests::regex(&"c".repeat(4_000));
        assert!(regex.is_in("c".repeat(20_000).as_bytes()).unwrap());
        assert!(regex.careful.get().is_some_and(|careful| !careful.windowed));
    }
}
