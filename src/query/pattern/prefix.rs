//! The literal text that every match of a pattern begins with. The planner searches an index for it.

use super::Pattern;

impl Pattern {
    /// Returns the text that every match begins with, for a pattern like `^abc`, and whether every text with that prefix
    /// matches.
    pub fn prefix(&self) -> Option<(String, bool)> {
        if self.flags().chars().any(|flag| flag != 's' && flag != 'u') {
            return None;
        }
        let source = self.source();
        let rest = source
            .strip_prefix('^')
            .or_else(|| source.strip_prefix("\\A"))?;
        // An alternative anywhere could begin with another text.
        if rest.contains('|') {
            return None;
        }
        let mut prefix = String::new();
        let mut letters = rest.chars().peekable();
        while let Some(letter) = letters.next() {
            let literal = match letter {
                '\\' => match letters.next() {
                    Some(escaped) if escaped.is_ascii_punctuation() => escaped,
                    _ => return nonempty(prefix, false),
                },
                '.' if matches!(letters.peek(), Some('*')) && self.flags().contains('s') => {
                    letters.next();
                    return nonempty(prefix, letters.next().is_none());
                }
                '^' | '$' | '.' | '[' | ']' | '(' | ')' | '*' | '+' | '?' | '{' | '}' => {
                    return nonempty(prefix, false);
                }
                letter => letter,
            };
            // These quantifiers make the letter before them optional.
            if matches!(letters.peek(), Some('*' | '?' | '{')) {
                return nonempty(prefix, false);
            }
            prefix.push(literal);
            if matches!(letters.peek(), Some('+')) {
                return nonempty(prefix, false);
            }
        }
        nonempty(prefix, true)
    }
}

fn nonempty(prefix: String, decides: bool) -> Option<(String, bool)> {
    (!prefix.is_empty()).then_some((prefix, decides))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
