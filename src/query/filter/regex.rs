//! `$regex` with `$options`, and BSON's own regular expressions: PCRE2, as mongod has it.
//!
//! Strings and symbols are searched; a stored regular expression is matched by being the same one. A search can be ended, and one
//! that comes to PCRE2's limits is taken as not matching ([`super::search`]). What all compiled patterns take is bounded as
//! well ([`Room`]): forty bytes of text can become as many kilobytes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::{
    Node, Test,
    parse::{Cx, Site},
    search::Regex,
};
use crate::{
    aside,
    error::{Code, Error, Result},
    value::{Type, ValueRef},
};

/// A compiled pattern.
#[derive(Clone)]
pub struct Pattern {
    source: Box<str>,
    flags: Box<str>,
    code: Arc<Regex>,
}

/// What a pattern takes, counted as long as it lives.
#[derive(Debug)]
pub(super) struct Room {
    bytes: usize,
}

/// All patterns that there are: their number, and what they take.
static PATTERNS: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);
/// Those beyond are not turned into machine code, which is several times as large.
const MOST_FAST: usize = 1024;
const MOST_BYTES: usize = 256 << 20;
/// PCRE2 refuses what would be larger.
const LARGEST: usize = 64 << 10;

/// Longer patterns are refused, as by mongod.
const MAX_LENGTH: usize = 32764;
/// How many compiled patterns a thread keeps. Compiling costs some microseconds, so a repeated query gains.
const KEPT: usize = 64;

// === impl Pattern ===

impl Pattern {
    /// What a search counts as: the worst takes some milliseconds.
    pub(crate) const UNITS: u32 = 256;

    /// From a BSON regular expression.
    pub(super) fn of(value: ValueRef<'_>) -> Result<Self> {
        let (source, flags) = value
            .as_regex()
            .ok_or_else(|| Error::bad_value("not a regex"))?;
        Self::new(source, flags)
    }

    pub(crate) fn new(source: &str, flags: &str) -> Result<Self> {
        if source.contains('\0') {
            return Err(Error::bad_value(
                "Regular expression cannot contain an embedded null byte",
            ));
        }
        if source.len() > MAX_LENGTH {
            return Err(invalid("regular expression is too large"));
        }
        if let Some(flag) = flags.chars().find(|flag| !"imsux".contains(*flag)) {
            return Err(Error::location(
                51108,
                format!("invalid flag in regex options: {flag}"),
            ));
        }
        // One that repeats can take milliseconds for each of the texts in an array, and to compile.
        if source.contains(['*', '+', '{']) {
            aside::expect_long();
        }
        aside::tick(Self::UNITS)?;
        Ok(Self {
            code: compiled(source, flags)?,
            source: source.into(),
            flags: flags.into(),
        })
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    pub fn flags(&self) -> &str {
        &self.flags
    }

    /// The compiled pattern, for those who want more than yes or no.
    pub(crate) fn code(&self) -> &Regex {
        &self.code
    }

    /// Whether the pattern is found in one of many texts. Whoever goes through them asks behind it whether the command is to end:
    /// the answer means nothing then.
    #[inline]
    pub(super) fn is_found_in(&self, text: &[u8]) -> bool {
        let _ = aside::tick(Self::UNITS);
        let _ = aside::tick_read(text.len());
        self.code.is_in(text).unwrap_or(false)
    }

    pub fn passes(&self, value: ValueRef<'_>) -> bool {
        match value.ty() {
            Type::String | Type::Symbol => value
                .text_bytes()
                .is_some_and(|text| self.is_found_in(text)),
            Type::Regex => value.as_regex() == Some((&self.source, &self.flags)),
            _ => false,
        }
    }

    /// The text that every match begins with, for a pattern like `^abc`: what an index can be asked for. With it,
    /// whether the pattern asks nothing else, so that the prefix decides alone.
    pub fn prefix(&self) -> Option<(String, bool)> {
        if self.flags.chars().any(|flag| flag != 's' && flag != 'u') {
            return None;
        }
        let rest = self
            .source
            .strip_prefix('^')
            .or_else(|| self.source.strip_prefix("\\A"))?;
        // An alternative anywhere could begin differently.
        if rest.contains('|') {
            return None;
        }
        let mut prefix = String::new();
        let mut letters = rest.chars().peekable();
        while let Some(letter) = letters.next() {
            let literal = match letter {
                '\\' => match letters.next() {
                    Some(escaped) if escaped.is_ascii_punctuation() => escaped,
                    _ => return some(prefix, false),
                },
                '.' if matches!(letters.peek(), Some('*')) && self.flags.contains('s') => {
                    letters.next();
                    return some(prefix, letters.next().is_none());
                }
                '^' | '$' | '.' | '[' | ']' | '(' | ')' | '*' | '+' | '?' | '{' | '}' => {
                    return some(prefix, false);
                }
                letter => letter,
            };
            // A quantifier makes the letter before it optional.
            if matches!(letters.peek(), Some('*' | '?' | '{')) {
                return some(prefix, false);
            }
            prefix.push(literal);
            if matches!(letters.peek(), Some('+')) {
                return some(prefix, false);
            }
        }
        some(prefix, true)
    }
}

fn some(prefix: String, whole: bool) -> Option<(String, bool)> {
    (!prefix.is_empty()).then_some((prefix, whole))
}

impl std::fmt::Debug for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "/{}/{}", self.source, self.flags)
    }
}

fn invalid(why: &str) -> Error {
    Error::location(51091, format!("Regular expression is invalid: {why}"))
}

fn compiled(source: &str, flags: &str) -> Result<Arc<Regex>> {
    type Cache = HashMap<(Box<str>, Box<str>), Arc<Regex>>;
    thread_local! {
        static CACHE: RefCell<Cache> = RefCell::default();
    }
    let key = (source.into(), flags.into());
    if let Some(code) = CACHE.with_borrow(|cache| cache.get(&key).cloned()) {
        return Ok(code);
    }
    let room = Room::take(source)?;
    let fast = PATTERNS.load(Relaxed) <= MOST_FAST;
    let code = Arc::new(Regex::new(source, flags, room, fast).map_err(|why| invalid(&why))?);
    CACHE.with_borrow_mut(|cache| {
        if cache.len() >= KEPT {
            cache.clear();
        }
        cache.insert(key, code.clone());
    });
    Ok(code)
}

// === impl Room ===

impl Room {
    pub(super) fn take(source: &str) -> Result<Self> {
        let bytes = weight(source);
        let all = BYTES.fetch_add(bytes, Relaxed) + bytes;
        PATTERNS.fetch_add(1, Relaxed);
        let room = Self { bytes };
        if all > MOST_BYTES {
            return Err(Error::new(
                Code::ExceededMemoryLimit,
                format!(
                    "All regular expressions that are in use would take more than {MOST_BYTES} bytes"
                ),
            ));
        }
        Ok(room)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        PATTERNS.fetch_sub(1, Relaxed);
        BYTES.fetch_sub(self.bytes, Relaxed);
    }
}

/// About what a pattern takes when it is compiled: a class takes more than it says, and a repeated group stands there as
/// often as it is repeated.
fn weight(source: &str) -> usize {
    const PER_PATTERN: usize = 512;
    const PER_BYTE: usize = 16;
    let mut repeated = 1usize;
    for counts in source.split('{').skip(1) {
        let counts = counts.split('}').next().unwrap_or_default();
        let most = counts
            .split(',')
            .filter_map(|count| count.trim().parse().ok());
        repeated = repeated.saturating_mul(most.max().unwrap_or(1).max(1));
    }
    let bytes = source
        .len()
        .saturating_mul(PER_BYTE)
        .saturating_mul(repeated);
    PER_PATTERN + bytes.min(LARGEST.max(source.len()))
}

pub(super) fn regex(_: &Cx<'_>, site: &Site<'_>, _: ValueRef<'_>) -> Result<Option<Node>> {
    let mut source = "";
    let mut flags = "";
    aside::tick_read(site.siblings.bytes().len())?;
    for elem in site.siblings {
        match elem.name() {
            "$regex" => {
                if let Some(text) = elem.value.as_str() {
                    source = text;
                } else if let Some((text, own)) = elem.value.as_regex() {
                    source = text;
                    if !own.is_empty() {
                        if !flags.is_empty() {
                            return Err(Error::location(
                                51074,
                                "options set in both $regex and $options",
                            ));
                        }
                        flags = own;
                    }
                } else {
                    return Err(Error::bad_value("$regex has to be a string"));
                }
            }
            "$options" => {
                let Some(text) = elem.value.as_str() else {
                    return Err(Error::bad_value("$options has to be a string"));
                };
                if !flags.is_empty() {
                    return Err(Error::location(
                        51075,
                        "options set in both $regex and $options",
                    ));
                }
                flags = text;
            }
            _ => {}
        }
    }
    let pattern = Pattern::new(source, flags)?;
    Ok(Some(Node::field(site.path, Test::Regex(pattern))))
}

/// `$options` is read with its `$regex`; alone it means nothing.
pub(super) fn options(_: &Cx<'_>, site: &Site<'_>, _: ValueRef<'_>) -> Result<Option<Node>> {
    aside::tick_read(site.siblings.bytes().len())?;
    if site.siblings.has("$regex") {
        Ok(None)
    } else {
        Err(Error::bad_value("$options needs a $regex"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::filter::check;
    use bson::doc;

    #[test]
    fn prefixes() {
        for (source, flags, expected) in [
            ("^abc", "", Some(("abc", true))),
            ("^abc", "i", None),
            ("^abc", "m", None),
            ("\\Aabc", "", Some(("abc", true))),
            ("abc", "", None),
            ("^a.c", "", Some(("a", false))),
            ("^ab*", "", Some(("a", false))),
            ("^ab+", "", Some(("ab", false))),
            ("^a\\.b", "", Some(("a.b", true))),
            ("^a\\d", "", Some(("a", false))),
            ("^a|b", "", None),
            ("^(ab)", "", None),
            ("^ab$", "", Some(("ab", false))),
            ("^ab.*", "s", Some(("ab", true))),
            ("^ab.*", "", Some(("ab", false))),
        ] {
            let found = Pattern::new(source, flags).unwrap().prefix();
            let found = found.as_ref().map(|(text, whole)| (text.as_str(), *whole));
            assert_eq!(found, expected, "/{source}/{flags}");
        }
    }

    #[test]
    fn a_costly_pattern_ends() {
        let text = "a".repeat(64);
        for source in ["^(a+)+$b", "(*LIMIT_MATCH=4000000000)(a+)+$b"] {
            assert!(
                !Pattern::new(source, "")
                    .unwrap()
                    .is_found_in(text.as_bytes())
            );
        }
        assert!(
            Pattern::new("(*UTF)é", "")
                .unwrap()
                .is_found_in("é".as_bytes())
        );
    }

    #[test]
    fn short_texts_that_take_much_are_bounded() {
        for (source, least, most) in [
            ("abc", 512, 600),
            ("\\d{3}-\\d{4}", 1000, 4000),
            ("((ab|cd){100}){30}", LARGEST, LARGEST + 512),
            ("a{", 512, 600),
        ] {
            let weight = weight(source);
            assert!((least..=most).contains(&weight), "{source}: {weight}");
        }
        let mut many = Vec::new();
        let error = loop {
            match Pattern::new(&format!("((ab|cd){{100}}){{30}}{}", many.len()), "") {
                Ok(pattern) => many.push(pattern),
                Err(error) => break error,
            }
        };
        assert_eq!(error.code(), Code::ExceededMemoryLimit);
        assert!(many.len() > MOST_FAST, "{}", many.len());
        // All of them can be used, and what they took is there for others again.
        assert!(many.iter().all(|pattern| !pattern.is_found_in(b"x")));
        many.clear();
        assert!(Pattern::new("((ab|cd){100}){30}", "").is_ok());
    }

    #[test]
    fn patterns() {
        check::passes(&[
            (
                doc! {"a": {"$regex": "^ab", "$options": "i"}},
                vec![doc! {"a": "ABc"}, doc! {"a": ["x", "ab"]}],
                vec![doc! {"a": "xab"}, doc! {"a": 1}, doc! {}],
            ),
            (
                doc! {"a": {"$options": "s", "$regex": "a.b"}},
                vec![doc! {"a": "a\nb"}],
                vec![],
            ),
            (
                doc! {"a": {"$regex": "a b", "$options": "x"}},
                vec![doc! {"a": "ab"}],
                vec![doc! {"a": "a b"}],
            ),
            (
                doc! {"a": {"$regex": "^b", "$options": "m"}},
                vec![doc! {"a": "a\nb"}],
                vec![doc! {"a": "ab"}],
            ),
            (
                doc! {"a": {"$not": {"$regex": "b"}}},
                vec![doc! {"a": "a"}, doc! {}],
                vec![doc! {"a": "b"}],
            ),
            (doc! {"a": {"$regex": "^.$"}}, vec![doc! {"a": "é"}], vec![]),
            (
                doc! {"a": {"$regex": "(?<=x)y"}},
                vec![doc! {"a": "xy"}],
                vec![doc! {"a": "y"}],
            ),
        ]);
        check::refused(&[
            (doc! {"a": {"$regex": 1}}, 2, "$regex has to be a string"),
            (
                doc! {"a": {"$regex": "a", "$options": 1}},
                2,
                "$options has to be a string",
            ),
            (doc! {"a": {"$options": "i"}}, 2, "$options needs a $regex"),
            (
                doc! {"a": {"$regex": "a", "$options": "g"}},
                51108,
                "invalid flag in regex options: g",
            ),
            (
                doc! {"a": {"$regex": "["}},
                51091,
                "Regular expression is invalid: missing terminating ] for character class",
            ),
        ]);
    }
}
