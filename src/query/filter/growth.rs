//! How what a search may take grows with the text, as far as the look of a pattern tells.
//!
//! Most patterns are plain: letters, classes, a repeat or two, alternatives. From each place of the text every repeat may pass
//! over all of it and every alternative may double what follows, and that is all. Of patterns with more in them (repeated
//! groups, looking around, references) nothing is said.

/// What a plain pattern multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    length: usize,
    /// Repeats: each multiplies by the length of the text.
    repeats: u32,
    /// Alternatives, and what may be left out: each multiplies by two.
    choices: u32,
}

/// Escapes that stand for one letter or one place.
const PLAIN_ESCAPES: &[u8] = b"dDwWsSbBAzZntrfvhH";

// === impl Growth ===

impl Growth {
    /// Nothing where the pattern is not plain. What cannot be read as one here need not be wrong, and the other way round.
    pub fn of(source: &str, flags: &str) -> Option<Self> {
        // White space could hide what a quantifier stands behind.
        if flags.contains('x') {
            return None;
        }
        let mut growth = Self {
            length: source.len().max(1),
            repeats: 0,
            choices: 0,
        };
        let mut letters = source.bytes().peekable();
        let mut before = 0;
        while let Some(letter) = letters.next() {
            match letter {
                b'\\' => match letters.next()? {
                    escaped if PLAIN_ESCAPES.contains(&escaped) => {}
                    escaped if escaped.is_ascii_punctuation() => {}
                    _ => return None,
                },
                b'[' => pass_class(&mut letters)?,
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
                b'*' | b'+' | b'{' => growth.repeats += 1,
                b'?' | b'|' => growth.choices += 1,
                _ => {}
            }
            before = letter;
        }
        Some(growth)
    }

    /// The most letters that a search through so many may pass over.
    pub fn letters(self, text: usize) -> usize {
        let from_each = text
            .saturating_pow(self.repeats)
            .max(self.length)
            .saturating_mul(2usize.saturating_pow(self.choices));
        text.saturating_mul(from_each)
    }
}

/// Goes behind `[a-z]`. A class that holds another, or a name like `[:digit:]`, is not plain.
fn pass_class(letters: &mut impl Iterator<Item = u8>) -> Option<()> {
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
    fn plain_patterns_are_weighed_and_others_are_not() {
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
            let letters = Growth::of(source, "").map(|growth| growth.letters(100));
            assert_eq!(letters, expected, "{source}");
        }
        assert_eq!(Growth::of("(a) *", "x"), None);
    }
}
