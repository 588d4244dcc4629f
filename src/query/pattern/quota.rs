//! The limit on the memory that all compiled patterns take together.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::error::{Code, Error, Result};

/// The memory share of one compiled pattern, returned when the pattern is dropped.
#[derive(Debug)]
pub(super) struct PatternQuota {
    of: &'static PatternTotals,
    bytes: usize,
}

/// The number of all compiled patterns, and roughly how many bytes they take.
#[derive(Debug)]
struct PatternTotals {
    patterns: AtomicUsize,
    bytes: AtomicUsize,
}

/// Those of this process.
static TOTALS: PatternTotals = PatternTotals::new();
/// Patterns beyond this number are interpreted, because machine code is several times as large.
const JIT_PATTERNS_MAX: usize = 1024;
const TOTAL_BYTES_MAX: usize = 256 << 20;
/// The largest compiled pattern. PCRE2 refuses to compile a larger one.
const PATTERN_BYTES_MAX: usize = 64 << 10;

// === impl PatternTotals ===

impl PatternTotals {
    const fn new() -> Self {
        Self {
            patterns: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    fn take(&'static self, source: &str) -> Result<PatternQuota> {
        let bytes = compiled_size(source);
        let all = self.bytes.fetch_add(bytes, Relaxed) + bytes;
        self.patterns.fetch_add(1, Relaxed);
        let quota = PatternQuota { of: self, bytes };
        if all > TOTAL_BYTES_MAX {
            return Err(Error::new(
                Code::ExceededMemoryLimit,
                format!(
                    "All regular expressions that are in use would take more than {TOTAL_BYTES_MAX} bytes"
                ),
            ));
        }
        Ok(quota)
    }

    fn allows_jit(&self) -> bool {
        self.patterns.load(Relaxed) <= JIT_PATTERNS_MAX
    }
}

// === impl PatternQuota ===

impl PatternQuota {
    pub fn take(source: &str) -> Result<Self> {
        TOTALS.take(source)
    }

    /// Returns whether another pattern may become machine code.
    pub fn allows_jit() -> bool {
        TOTALS.allows_jit()
    }
}

impl Drop for PatternQuota {
    fn drop(&mut self) {
        self.of.patterns.fetch_sub(1, Relaxed);
        self.of.bytes.fetch_sub(self.bytes, Relaxed);
    }
}

/// Estimates how many bytes a pattern compiles to. A class takes more than its source, and PCRE2 writes out a repeated group
/// once for each repetition.
fn compiled_size(source: &str) -> usize {
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
    PER_PATTERN + bytes.min(PATTERN_BYTES_MAX.max(source.len()))
}

#[cfg(test)]
mod tests {
    use super::super::Pattern;
    use super::*;

    #[test]
    fn short_patterns_with_large_programs_are_limited() {
        for (source, least, most) in [
            ("abc", 512, 600),
            ("\\d{3}-\\d{4}", 1000, 4000),
            (
                "((ab|cd){100}){30}",
                PATTERN_BYTES_MAX,
                PATTERN_BYTES_MAX + 512,
            ),
            ("a{", 512, 600),
        ] {
            let size = compiled_size(source);
            assert!((least..=most).contains(&size), "{source}: {size}");
        }
    }

    /// The test has totals of its own: those of the process are in use by other tests.
    #[test]
    fn memory_is_available_again_when_patterns_are_dropped() {
        static OWN: PatternTotals = PatternTotals::new();
        let mut many = Vec::new();
        let error = loop {
            match OWN.take("((ab|cd){100}){30}") {
                Ok(quota) => many.push(quota),
                Err(error) => break error,
            }
        };
        assert_eq!(error.code(), Code::ExceededMemoryLimit);
        assert!(many.len() > JIT_PATTERNS_MAX, "{}", many.len());
        assert!(!OWN.allows_jit());
        many.clear();
        assert!(OWN.allows_jit());
        assert!(OWN.take("((ab|cd){100}){30}").is_ok());
    }

    #[test]
    fn a_pattern_with_a_large_program_can_be_used() {
        let pattern = Pattern::new("((ab|cd){100}){30}", "").unwrap();
        assert!(!pattern.is_found_in(b"x"));
    }
}
