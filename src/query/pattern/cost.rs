//! Predicts the cost of a search from the source of a pattern.
//!
//! Most patterns are simple: letters, classes, a repeat or two, alternatives. A match can begin at each position of the text.
//! From there every repeat may pass over the rest of the text, and every alternative may double the work that follows. Patterns
//! with anything else (repeated groups, lookaround, backreferences) get no estimate.

/// The factors of a simple pattern's cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostEstimate {
    length: usize,
    /// Each repeat multiplies the cost by the length of the text.
    repeats: u32,
    /// Each alternative and each optional item doubles the cost.
    choices: u32,
}

/// Escapes that match one letter or one position.
const SIMPLE_ESCAPES: &[u8] = b"dDwWsSbBAzZntrfvhH";

// === impl CostEstimate ===

impl CostEstimate {
    /// Estimates the cost of a pattern, or returns `None` if it is not simple. This does not validate the pattern: one without
    /// an estimate may be valid, and PCRE2 may refuse one with an estimate.
    pub fn of(source: &str, flags: &str) -> Option<Self> {
        // With the flag `x`, white space could hide which item a quantifier repeats.
        if flags.contains('x') {
            return None;
        }
        let mut estimate = Self {
            length: source.len().max(1),
            repeats: 0,
            choices: 0,
        };
        let mut letters = source.bytes().peekable();
        let mut before = 0;
        while let Some(letter) = letters.next() {
            match letter {
                b'\\' => match letters.next()? {
                    escaped if SIMPLE_ESCAPES.contains(&escaped) => {}
                    escaped if escaped.is_ascii_punctuation() => {}
                    _ => return None,
                },
                b'[' => skip_class(&mut letters)?,
                b'(' => match letters.peek() {
                    Some(b'*') => return None,
                    Some(b'?') => {
                        letters.next();
                        if letters.next() != Some(b':') {
                            return None;
                        }
                    }
                    _ => {}
                },
                b'*' | b'+' | b'{' if before == b')' => return None,
                b'*' | b'+' | b'{' => estimate.repeats += 1,
                b'?' | b'|' => estimate.choices += 1,
                _ => {}
            }
            before = letter;
        }
        Some(estimate)
    }

    /// Returns the most bytes that a search through a text of this length may pass over.
    pub fn bytes_passed(self, text: usize) -> usize {
        let from_each = text
            .saturating_pow(self.repeats)
            .max(self.length)
            .saturating_mul(2usize.saturating_pow(self.choices));
        text.saturating_mul(from_each)
    }
}

/// Skips a class like `[a-z]`. A class that contains another class, or a name like `[:digit:]`, is not simple.
fn skip_class(letters: &mut impl Iterator<Item = u8>) -> Option<()> {
    let mut is_first = true;
    loop {
        match letters.next()? {
            b'^' if is_first => continue,
            b']' if !is_first => return Some(()),
            b'[' => return None,
            b'\\' => match letters.next()? {
                b'Q' | b'E' => return None,
                _ => {}
            },
            _ => {}
        }
        is_first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_simple_patterns_get_a_cost_estimate() {
        for (source, expected) in [
            ("abc", Some(300)),
            ("^a.c$", Some(500)),
            ("a.*b", Some(10_000)),
            ("a.*b+", Some(1_000_000)),
            ("(?:a|b)\\d+[*+{]", Some(20_000)),
            ("[]*]a?", Some(100 * 6 * 2)),
            ("a{0,65535}b", Some(10_000)),
            ("(ab)?c", Some(100 * 6 * 2)),
            ("\\*\\(", Some(400)),
            ("(a+)+", None),
            ("(a){2}", None),
            ("(a)\\1", None),
            ("(?=a)", None),
            ("(?R)", None),
            ("(*COMMIT)a", None),
            ("\\Qa*", None),
            ("\\X", None),
            ("[[:digit:]]", None),
            ("[a", None),
            ("a\\", None),
        ] {
            let bytes = CostEstimate::of(source, "").map(|estimate| estimate.bytes_passed(100));
            assert_eq!(bytes, expected, "{source}");
        }
        assert_eq!(CostEstimate::of("(a) *", "x"), None);
    }
}
