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
        if has_alternative(rest) {
            return None;
        }
        let mut prefix = String::new();
        let mut letters = rest.chars().peekable();
        while let Some(letter) = letters.next() {
            let literal = match letter {
                '\\' => match letters.next() {
                    // Everything up to `\E` is plain text.
                    Some('Q') => {
                        let quoted: String = letters.collect();
                        let Some((text, rest)) = quoted.split_once("\\E") else {
                            return nonempty(prefix, false);
                        };
                        prefix.push_str(text);
                        if rest.starts_with(['*', '?', '{']) {
                            prefix.pop();
                        }
                        return nonempty(prefix, rest.is_empty());
                    }
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

/// Returns whether there may be an alternative, which could begin with another text. As in MongoDB, a `|` is none only after
/// a single backslash.
fn has_alternative(source: &str) -> bool {
    source.match_indices('|').any(|(at, _)| {
        let before = source.get(..at).unwrap_or_default();
        !before.ends_with('\\') || before.ends_with("\\\\")
    })
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
            ("^a\\|b", "", Some(("a|b", true))),
            ("^\\\\|b", "", None),
            ("^\\Qa.b\\E", "", Some(("a.b", true))),
            ("^\\Qab\\E*", "", Some(("a", false))),
            ("^\\Qab", "", None),
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
