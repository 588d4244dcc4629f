//! A pattern as filters and expressions hold it: checked, compiled, and cached by thread.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use super::quota::PatternQuota;
use super::search::Matcher;
use crate::{
    aside,
    error::{Error, Result},
    value::{Type, ValueRef},
};

/// A compiled pattern.
#[derive(Clone)]
pub struct Pattern {
    source: Box<str>,
    flags: Box<str>,
    matcher: Arc<Matcher>,
}

/// Longer patterns are refused, as by mongod.
const MAX_LENGTH: usize = 32764;
/// How many compiled patterns a thread caches. Compiling costs some microseconds, so a repeated query gains.
const CACHED_PER_THREAD: usize = 64;

// === impl Pattern ===

impl Pattern {
    /// The units of work that a search counts as: the worst takes some milliseconds.
    pub(crate) const UNITS: u32 = 256;

    /// From a BSON regular expression.
    pub(crate) fn from_value(value: ValueRef<'_>) -> Result<Self> {
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
                format!(" invalid flag in regex options: {flag}"),
            ));
        }
        aside::tick(Self::UNITS)?;
        Ok(Self {
            matcher: compiled(source, flags)?,
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

    /// Whether a search may take long ([`Survey`](crate::query::Survey)).
    pub(crate) fn is_slow(&self) -> bool {
        self.matcher.is_slow()
    }

    /// Searches with errors and captures, for callers that need more than yes or no.
    pub(crate) fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    /// Whether the text has a match. An interrupted search answers no: a caller that searches many texts has to check
    /// afterwards whether its command was interrupted.
    #[inline]
    pub(crate) fn is_found_in(&self, text: &[u8]) -> bool {
        let _ = aside::tick(Self::UNITS);
        let _ = aside::tick_read(text.len());
        self.matcher.is_match(text).unwrap_or(false)
    }

    /// Whether a stored value matches: strings and symbols are searched, a stored regular expression has to be the same one.
    pub fn passes(&self, value: ValueRef<'_>) -> bool {
        match value.ty() {
            Type::String | Type::Symbol => value
                .text_bytes()
                .is_some_and(|text| self.is_found_in(text)),
            Type::Regex => value.as_regex() == Some((&self.source, &self.flags)),
            _ => false,
        }
    }
}

impl std::fmt::Debug for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "/{}/{}", self.source, self.flags)
    }
}

fn invalid(why: &str) -> Error {
    Error::location(51091, format!("Regular expression is invalid: {why}"))
}

fn compiled(source: &str, flags: &str) -> Result<Arc<Matcher>> {
    type Cache = HashMap<(Box<str>, Box<str>), Arc<Matcher>>;
    thread_local! {
        static CACHE: RefCell<Cache> = RefCell::default();
    }
    let key = (source.into(), flags.into());
    if let Some(matcher) = CACHE.with_borrow(|cache| cache.get(&key).cloned()) {
        return Ok(matcher);
    }
    let quota = PatternQuota::take(source)?;
    let jit = PatternQuota::allows_jit();
    let matcher = Matcher::new(source, flags, quota, jit).map_err(|why| invalid(&why))?;
    let matcher = Arc::new(matcher);
    CACHE.with_borrow_mut(|cache| {
        if cache.len() >= CACHED_PER_THREAD {
            cache.clear();
        }
        cache.insert(key, matcher.clone());
    });
    Ok(matcher)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
