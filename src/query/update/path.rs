//! The dotted path of an update: fields, `$`, `$[]` and `$[identifier]`.

use smallvec::{SmallVec, smallvec};

use crate::error::{Code, Error, Result};

/// The most parts that a path may have.
const MAX_PARTS: usize = 255;

/// A well-formed path: no part is empty, at most one part is `$`, and it is not the first.
pub struct UpdatePath<'a> {
    pub dotted: &'a str,
    pub parts: SmallVec<[&'a str; 4]>,
}

// === impl UpdatePath ===

impl<'a> UpdatePath<'a> {
    pub fn parse(dotted: &'a str) -> Result<Self> {
        if dotted.is_empty() {
            return Err(Error::new(
                Code::EmptyFieldName,
                "An empty update path is not valid.",
            ));
        }
        let parts: SmallVec<[&str; 4]> = match dotted.contains('.') {
            true => dotted.split('.').collect(),
            false => smallvec![dotted],
        };
        if parts.len() > MAX_PARTS {
            return Err(Error::location(
                10_396_001,
                "Field paths cannot contain more than 255 '.'",
            ));
        }
        if parts.iter().any(|part| part.is_empty()) {
            return Err(Error::new(
                Code::EmptyFieldName,
                format!(
                    "The update path '{dotted}' contains an empty field name, which is not allowed."
                ),
            ));
        }
        let positional = parts.iter().filter(|part| **part == "$").count();
        if positional > 1 {
            return Err(Error::bad_value(format!(
                "Too many positional (i.e. '$') elements found in path '{dotted}'"
            )));
        }
        if parts.first() == Some(&"$") {
            return Err(Error::bad_value(format!(
                "Cannot have positional (i.e. '$') element in the first position in path '{dotted}'"
            )));
        }
        Ok(Self { dotted, parts })
    }

    /// Returns whether the path contains `$`, `$[]` or `$[identifier]`.
    pub fn is_dynamic(&self) -> bool {
        self.parts
            .iter()
            .any(|part| *part == "$" || identifier(part).is_some())
    }

    /// Returns the first `count` parts, dotted.
    pub fn prefix(&self, count: usize) -> String {
        self.parts.get(..count).unwrap_or(&self.parts).join(".")
    }
}

/// Returns whether a path is a plain field name, as most are.
pub fn is_field(dotted: &str) -> bool {
    !dotted.is_empty() && !dotted.starts_with('$') && !dotted.as_bytes().contains(&b'.')
}

/// Returns the identifier of `$[identifier]`, which is empty for `$[]`, or `None` for any other part.
pub fn identifier(part: &str) -> Option<&str> {
    part.strip_prefix("$[")?.strip_suffix(']')
}

/// Returns the array index that a part denotes, if it is all digits. A number beyond 32 bits is a name, as in MongoDB.
pub fn index(part: &str) -> Option<usize> {
    if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let index: u32 = part.parse().ok()?;
    usize::try_from(index).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_paths_are_refused_with_their_code() {
        for (path, code) in [
            ("", Some(56)),
            ("a..b", Some(56)),
            (".a", Some(56)),
            ("a.", Some(56)),
            ("$", Some(2)),
            ("a.$.b.$", Some(2)),
            ("a.$.b", None),
            ("a.$[].b.$[x]", None),
            ("$x", None),
        ] {
            let got = UpdatePath::parse(path)
                .err()
                .map(|error| error.code().number());
            assert_eq!(got, code, "{path:?}");
        }
    }

    #[test]
    fn path_parts_are_distinguished() {
        assert_eq!(identifier("$[]"), Some(""));
        assert_eq!(identifier("$[abc]"), Some("abc"));
        assert_eq!(identifier("$"), None);
        assert_eq!(identifier("$["), None);
        assert_eq!(index("10"), Some(10));
        assert_eq!(index("-1"), None);
        assert_eq!(index("1a"), None);
        assert_eq!(index("99999999999999999999999"), None);
    }
}
