//! A pattern as filters and expressions hold it: checked, compiled, and cached per thread.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use super::quota::PatternQuota;
use super::search::Matcher;
use crate::{
    error::{Error, Result},
    interrupt,
    value::{Type, ValueRef},
};

/// A compiled regular expression with its source and flags.
#[derive(Clone)]
pub struct Pattern {
    source: Box<str>,
    flags: Box<str>,
    matcher: Arc<Matcher>,
}

/// The longest source in bytes. Longer patterns are refused, as in mongod.
const MAX_LENGTH: usize = 32764;
/// How many compiled patterns a thread caches. Compiling takes some microseconds, so a repeated query gains from the cache.
const CACHED_PER_THREAD: usize = 64;

// === impl Pattern ===

impl Pattern {
    /// The units of work that one search counts as. The slowest takes some milliseconds.
    pub(crate) const UNITS: u32 = 256;

    /// Compiles a BSON regular expression.
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
        interrupt::tick(Self::UNITS)?;
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

    /// Returns whether a search may take long ([`Survey`](crate::query::Survey)).
    pub(crate) fn is_slow(&self) -> bool {
        self.matcher.is_slow()
    }

    /// Returns the matcher, for callers that need errors or captures and not only yes or no.
    pub(crate) fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    /// Returns whether the text has a match. An interrupted search returns `false`, so a caller that searches many texts must
    /// check afterwards whether its command was interrupted.
    #[inline]
    pub(crate) fn is_found_in(&self, text: &[u8]) -> bool {
        let _ = interrupt::tick(Self::UNITS);
        let _ = interrupt::tick_read(text.len());
        self.matcher.is_match(text).unwrap_or(false)
    }

    /// Returns whether a stored value matches. Strings and symbols are searched; a stored regular expression must have the same
    /// source and flags.
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
