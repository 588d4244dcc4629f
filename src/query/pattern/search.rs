//! Searches a text: plainly if that is safe, otherwise so that the search can be interrupted.
//!
//! A search by PCRE2 is one call that cannot be interrupted from outside. Its cost is at most the product of three numbers: the
//! positions where a match can begin, the backtracking steps from each, and the bytes that one step passes over. The first
//! search is plain if the predicted cost of the pattern is small ([`PREDICTED_MAX`]), or if the text is so short that a limit
//! on the steps keeps the product small ([`TRIAL_MAX`]). If that trial runs out of steps, and for all other texts, the search
//! starts again with a pattern that was compiled to call back before each of its items. The callback counts work, lets other
//! tasks run, and stops the search when its command must end. The answer is the same.

use std::sync::OnceLock;

use pcre2_sys::{PCRE2_CASELESS, PCRE2_DOTALL, PCRE2_EXTENDED, PCRE2_MULTILINE};

use super::cost::CostEstimate;
use super::pcre::{Captures, CompileMode, PcreCode, PcreError, SearchLimits, Text};
use super::quota::PatternQuota;
use crate::error::{Error, Result};
use crate::interrupt;

/// A compiled pattern that searches texts.
pub struct Matcher {
    source: Box<str>,
    options: u32,
    jit: bool,
    plain: PcreCode,
    cost: Option<CostEstimate>,
    /// The second compilation, made when a search first needs it.
    interruptible: OnceLock<InterruptibleCode>,
    _quota: PatternQuota,
}

/// The same pattern, compiled for searches that can be interrupted.
struct InterruptibleCode {
    code: PcreCode,
    /// Whether the text is searched in windows, because the pattern with callouts would be larger than PCRE2 allows.
    windowed: bool,
    _quota: PatternQuota,
}

/// A function that runs one PCRE2 search from a position.
type SearchFn<'a> =
    &'a mut dyn FnMut(&PcreCode, Text<'_>, usize, SearchLimits<'_>) -> Result<bool, PcreError>;

/// The reason why a search has no answer.
#[derive(Debug)]
pub enum SearchError {
    /// The command was interrupted or its time limit has expired.
    Interrupted(Error),
    /// The search reached one of PCRE2's limits. MongoDB treats that as no match in a filter, and as an error in an expression.
    Failed(PcreError),
}

/// The limit of backtracking steps from one position. PCRE2's own default is ten million. mongod is built with 200,000, and
/// counts more steps for the same search.
const MATCH_LIMIT: u32 = 500_000;
/// The longest text that gets a trial first.
const TRIAL_TEXT_MAX: usize = 1024;
/// The largest cost of a trial, in bytes passed over: some milliseconds.
const TRIAL_MAX: usize = 4_000_000;
/// The largest predicted cost of a plain search. It may be higher than that of a trial, because searches seldom reach the
/// prediction.
const PREDICTED_MAX: usize = 32_000_000;
/// The number of bytes passed over that count as one unit of work.
const BYTES_PER_UNIT: usize = 512;

// === impl Matcher ===

impl Matcher {
    /// Compiles a pattern. `jit` requests machine code. The error is PCRE2's message.
    pub(super) fn new(
        source: &str,
        flags: &str,
        quota: PatternQuota,
        jit: bool,
    ) -> Result<Self, String> {
        let flag = |flag, option| if flags.contains(flag) { option } else { 0 };
        let options = flag('i', PCRE2_CASELESS)
            | flag('m', PCRE2_MULTILINE)
            | flag('s', PCRE2_DOTALL)
            | flag('x', PCRE2_EXTENDED);
        Ok(Self {
            plain: PcreCode::compile(source, options, CompileMode::Plain, jit)?,
            cost: CostEstimate::of(source, flags),
            interruptible: OnceLock::new(),
            source: source.into(),
            options,
            jit,
            _quota: quota,
        })
    }

    /// Returns whether a search may take milliseconds in a text of a few pages. An array may hold many such texts, and in a long
    /// text the search may then take any time.
    pub(super) fn is_slow(&self) -> bool {
        const PAGES: usize = 4096;
        const FEW_CHOICES: usize = 4;
        match self.cost {
            Some(cost) => cost.bytes_passed(PAGES) > TRIAL_MAX,
            // Without repeats and with few choices even a pattern that cannot be estimated comes to its end soon.
            None => {
                let choices = self.source.matches(['?', '|']).count();
                self.source.contains(['*', '+', '{']) || choices > FEW_CHOICES
            }
        }
    }

    pub fn groups(&self) -> u32 {
        self.plain.groups()
    }

    pub fn captures(&self) -> Result<Captures, SearchError> {
        Captures::of(&self.plain).map_err(SearchError::Failed)
    }

    #[inline]
    pub fn is_match(&self, text: &[u8]) -> Result<bool, SearchError> {
        self.search(Text::Bytes(text), 0, PcreCode::is_match)
    }

    /// Finds the first match that begins at `from` or later, and writes its offsets to `captures`.
    pub fn find(
        &self,
        text: &str,
        from: usize,
        captures: &mut Captures,
    ) -> Result<bool, SearchError> {
        self.search(Text::Str(text), from, |code, text, from, limits| {
            code.find(text, from, limits, captures)
        })
    }

    #[inline]
    fn search(
        &self,
        text: Text<'_>,
        from: usize,
        mut run: impl FnMut(&PcreCode, Text<'_>, usize, SearchLimits<'_>) -> Result<bool, PcreError>,
    ) -> Result<bool, SearchError> {
        let length = text.len().saturating_sub(from).max(1);
        let is_predicted_cheap = self
            .cost
            .is_some_and(|cost| cost.bytes_passed(length) <= PREDICTED_MAX);
        if is_predicted_cheap || length <= TRIAL_TEXT_MAX {
            let steps = match is_predicted_cheap {
                true => MATCH_LIMIT,
                false => u32::try_from(TRIAL_MAX / (length * length)).unwrap_or(MATCH_LIMIT),
            };
            let limits = SearchLimits {
                steps: steps.min(MATCH_LIMIT),
                last: None,
                on_item: None,
            };
            match run(&self.plain, text, from, limits) {
                Ok(found) => return Ok(found),
                Err(PcreError::MATCH_LIMIT) if steps < MATCH_LIMIT => {}
                Err(failure) => return Err(SearchError::Failed(failure)),
            }
        }
        self.search_interruptibly(text, from, &mut run)
    }

    #[cold]
    #[inline(never)]
    fn search_interruptibly(
        &self,
        text: Text<'_>,
        from: usize,
        run: SearchFn<'_>,
    ) -> Result<bool, SearchError> {
        let interruptible = match self.interruptible.get() {
            Some(interruptible) => interruptible,
            None => {
                let made = self.compile_interruptible().map_err(SearchError::Failed)?;
                self.interruptible.get_or_init(|| made)
            }
        };
        match interruptible.windowed {
            false => with_callbacks(&interruptible.code, text, from, run),
            true => self.in_windows(&interruptible.code, text, from, run),
        }
    }

    fn compile_interruptible(&self) -> Result<InterruptibleCode, PcreError> {
        let quota = PatternQuota::take(&self.source).map_err(|_| PcreError::MEMORY)?;
        let compile = |mode| PcreCode::compile(&self.source, self.options, mode, self.jit);
        let (code, windowed) = match compile(CompileMode::Interruptible) {
            Ok(code) => (code, false),
            Err(_) => (
                compile(CompileMode::Windowed).map_err(|_| PcreError::MEMORY)?,
                true,
            ),
        };
        Ok(InterruptibleCode {
            code,
            windowed,
            _quota: quota,
        })
    }

    /// Searches in windows of the positions where a match may begin, with few steps from each position. A search that needs
    /// more steps fails. Only patterns of some thousand letters need this.
    fn in_windows(
        &self,
        code: &PcreCode,
        text: Text<'_>,
        mut from: usize,
        run: SearchFn<'_>,
    ) -> Result<bool, SearchError> {
        const FEW_STEPS: usize = 16;
        // These two apply to a whole search. Here they would apply to each window.
        if self.source.contains("\\G") || self.source.contains("(*") {
            return Err(SearchError::Failed(PcreError::MATCH_LIMIT));
        }
        let text = match text {
            Text::Str(text) => text,
            // The text is checked once and not for each window.
            Text::Bytes(bytes) => {
                std::str::from_utf8(bytes).map_err(|_| SearchError::Failed(PcreError::NOT_UTF8))?
            }
        };
        let width = (TRIAL_MAX / (FEW_STEPS * text.len().max(1))).max(1);
        loop {
            let units = 64 + text.len() / BYTES_PER_UNIT;
            interrupt::tick(u32::try_from(units).unwrap_or(u32::MAX))
                .map_err(SearchError::Interrupted)?;
            let last = text.len().min(from + width - 1);
            let limits = SearchLimits {
                steps: FEW_STEPS as u32,
                last: Some(last),
                on_item: None,
            };
            if run(code, Text::Str(text), from, limits).map_err(SearchError::Failed)? {
                return Ok(true);
            }
            if last == text.len() {
                return Ok(false);
            }
            from = text.ceil_char_boundary(last + 1);
        }
    }
}

/// Runs one search that counts its work in callbacks, and stops when its command must end.
fn with_callbacks(
    code: &PcreCode,
    text: Text<'_>,
    from: usize,
    run: SearchFn<'_>,
) -> Result<bool, SearchError> {
    // The change of position shows how many bytes an item has passed over, except for a backreference, which may have compared
    // as many bytes without success. PCRE2 also writes the offsets of all groups before each callback.
    let compared = match code.has_backreferences() {
        true => text.len() / BYTES_PER_UNIT,
        false => 0,
    };
    let each = 1 + compared + code.groups() as usize / 16;
    let mut interrupted = None;
    let mut before = from;
    let mut on_item = |position: usize| {
        let units = each + position.abs_diff(before) / BYTES_PER_UNIT;
        before = position;
        let ticked = interrupt::tick(u32::try_from(units).unwrap_or(u32::MAX));
        interrupted = ticked.err();
        interrupted.is_none()
    };
    let limits = SearchLimits {
        steps: MATCH_LIMIT,
        last: None,
        on_item: Some(&mut on_item),
    };
    let found = run(code, text, from, limits);
    match interrupted {
        Some(error) => Err(SearchError::Interrupted(error)),
        None => found.map_err(SearchError::Failed),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::error::Code as ErrorCode;
    use crate::interrupt::Limit;

    fn matcher(source: &str) -> Matcher {
        Matcher::new(source, "", PatternQuota::take(source).unwrap(), true).unwrap()
    }

    /// Formats a match with its groups, or the reason why there is none.
    fn show(found: Result<bool, SearchError>, captures: &Captures, groups: u32) -> String {
        match found {
            Ok(false) => "none".to_owned(),
            Ok(true) => (0..=groups).fold(String::new(), |mut shown, group| {
                let _ = write!(shown, "{:?}", captures.get(group));
                shown
            }),
            Err(SearchError::Failed(failure)) => failure.to_string(),
            Err(SearchError::Interrupted(error)) => panic!("{error:?}"),
        }
    }

    /// Returns the result of one plain search.
    fn plainly(matcher: &Matcher, text: &str, from: usize) -> String {
        let mut captures = matcher.captures().unwrap();
        let limits = SearchLimits {
            steps: MATCH_LIMIT,
            last: None,
            on_item: None,
        };
        let found = matcher
            .plain
            .find(Text::Str(text), from, limits, &mut captures)
            .map_err(SearchError::Failed);
        show(found, &captures, matcher.groups())
    }

    fn interruptibly(matcher: &Matcher, text: &str, from: usize, mode: CompileMode) -> String {
        let mut captures = matcher.captures().unwrap();
        let code = PcreCode::compile(&matcher.source, matcher.options, mode, matcher.jit).unwrap();
        let mut run = |code: &PcreCode, text: Text<'_>, from: usize, limits: SearchLimits<'_>| {
            code.find(text, from, limits, &mut captures)
        };
        let found = match mode {
            CompileMode::Interruptible => with_callbacks(&code, Text::Str(text), from, &mut run),
            _ => matcher.in_windows(&code, Text::Str(text), from, &mut run),
        };
        show(found, &captures, matcher.groups())
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
        fn an_interruptible_search_finds_the_same(
            source in pattern(),
            text in "[abéxB\n]{0,40}",
            jit in any::<bool>(),
            from in 0usize..3,
        ) {
            let quota = PatternQuota::take(&source).unwrap();
            // Some sources are invalid, like a quantifier after an anchor.
            let Ok(matcher) = Matcher::new(&source, "", quota, jit) else { return Ok(()) };
            let from = text.floor_char_boundary(from);
            let expected = plainly(&matcher, &text, from);
            prop_assert_eq!(&interruptibly(&matcher, &text, from, CompileMode::Interruptible), &expected);
            let windowed = interruptibly(&matcher, &text, from, CompileMode::Windowed);
            if windowed != PcreError::MATCH_LIMIT.to_string() {
                prop_assert_eq!(&windowed, &expected);
            }
            let mut captures = matcher.captures().unwrap();
            let found = matcher.find(&text, from, &mut captures);
            prop_assert_eq!(&show(found, &captures, matcher.groups()), &expected);
            let found = matcher.is_match(text.as_bytes());
            if from == 0 && let Ok(found) = found {
                prop_assert_eq!(found, expected != "none");
            }
        }
    }

    /// Each of these searches would take at least minutes.
    #[test]
    fn every_search_stops_when_its_command_ends() {
        // The pattern needs the last letter twice and the text has it once, so PCRE2 cannot rule out a match before it
        // searches.
        let long = format!("{}b", "a".repeat(4 << 20));
        let short = format!("{}b", "a".repeat(TRIAL_TEXT_MAX - 1));
        for (source, text) in [
            ("a{0,65535}bb", &long),
            ("a*a*bb", &long),
            ("a*a*a*a*bb", &short),
            ("(a+)+bb", &short),
            ("(a*)*?\\1bb", &long),
            ("(?:a|aa)+bb", &long),
            ("(?=(a*)bb)", &long),
        ] {
            for jit in [true, false] {
                let matcher =
                    Matcher::new(source, "", PatternQuota::take(source).unwrap(), jit).unwrap();
                let limit = Limit::within(Duration::from_millis(20));
                let late = Limit::within(Duration::from_secs(120));
                let found = limit.watch(|| matcher.is_match(text.as_bytes()));
                // The interpreter counts every letter and may reach its limits first.
                match found {
                    Err(SearchError::Interrupted(error)) => {
                        assert_eq!(error.code(), ErrorCode::MaxTimeMSExpired, "{source}");
                    }
                    Err(SearchError::Failed(_)) => {}
                    Ok(found) => panic!("{source} {jit}: {found}"),
                }
                assert!(late.check().is_ok(), "{source} {jit}");
            }
        }
        let killed = Limit::of_killed();
        let ended = killed.watch(|| matcher("a{0,65535}bb").is_match(long.as_bytes()));
        assert!(
            matches!(ended, Err(SearchError::Interrupted(error)) if error.code() == ErrorCode::Interrupted)
        );
        let large = format!("{}|a*a*a*bb", "x".repeat(15_000));
        let refused = matcher(&large).is_match(long.as_bytes());
        assert!(
            matches!(refused, Err(SearchError::Failed(PcreError::MATCH_LIMIT))),
            "{refused:?}"
        );
    }

    #[test]
    fn a_long_pattern_is_found_in_a_long_text() {
        let matcher = matcher(&"c".repeat(16_384));
        for (before, length, expected) in [
            ("é", 100_000, true),
            ("dé", 16_384, true),
            ("d", 16_383, false),
        ] {
            let text = format!("{before}{}", "c".repeat(length));
            assert_eq!(
                matcher.is_match(text.as_bytes()).ok(),
                Some(expected),
                "{length}"
            );
        }
        assert!(
            matcher
                .interruptible
                .get()
                .is_some_and(|interruptible| interruptible.windowed)
        );
        // This pattern, like nearly all, is small enough with callouts.
        let matcher = super::tests::matcher(&"c".repeat(4_000));
        assert!(matcher.is_match("c".repeat(20_000).as_bytes()).unwrap());
        assert!(
            matcher
                .interruptible
                .get()
                .is_some_and(|interruptible| !interruptible.windowed)
        );
    }
}
