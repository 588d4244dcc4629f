//! A dotted path and its parts.

use smallvec::SmallVec;

/// A path such as `a.b.0.c`, split into its parts once.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Path {
    text: Box<str>,
    parts: SmallVec<[PathPart; 2]>,
}

/// The position of a part in the text, and the array index if the part is one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PathPart {
    start: u32,
    end: u32,
    index: Option<u32>,
}

/// The remaining parts of a path.
#[derive(Clone, Copy)]
pub(super) struct PathRest<'p> {
    text: &'p str,
    parts: &'p [PathPart],
}

// === impl Path ===

impl Path {
    /// Splits the text at the dots. The caller checks whether the path is well formed (empty parts, `$`), because filters,
    /// updates and projections refuse different paths.
    pub fn parse(text: &str) -> Self {
        let mut start = 0;
        let mut parts = SmallVec::new();
        for name in text.split('.') {
            let end = start + name.len();
            parts.push(PathPart {
                start: start as u32,
                end: end as u32,
                index: array_index(name),
            });
            start = end + 1;
        }
        Self {
            text: text.into(),
            parts,
        }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns how many parts there are; at least one.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    pub fn is_empty(&self) -> bool {
        false
    }

    pub fn part(&self, at: usize) -> &str {
        self.parts.get(at).map_or("", |part| part.name(&self.text))
    }

    /// Returns the text of the first parts.
    pub fn beginning(&self, count: usize) -> &str {
        let end = self.parts.get(count).map(|next| next.start as usize - 1);
        end.and_then(|end| self.text.get(..end))
            .unwrap_or(&self.text)
    }

    /// Returns the array index that a part spells: digits without a leading zero.
    pub fn index(&self, at: usize) -> Option<u32> {
        self.parts.get(at)?.index
    }

    pub fn parts(&self) -> impl ExactSizeIterator<Item = &str> + DoubleEndedIterator {
        self.parts.iter().map(|part| part.name(&self.text))
    }

    /// Returns whether this path is the other one or leads to it.
    pub fn is_above(&self, other: &Self) -> bool {
        self.len() <= other.len() && self.parts().zip(other.parts()).all(|(a, b)| a == b)
    }

    pub fn first(&self) -> &str {
        self.part(0)
    }

    pub(super) fn rest(&self) -> PathRest<'_> {
        PathRest {
            text: &self.text,
            parts: &self.parts,
        }
    }
}

impl std::fmt::Debug for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.text.fmt(f)
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<&str> for Path {
    fn from(text: &str) -> Self {
        Self::parse(text)
    }
}

// === impl PathPart ===

impl PathPart {
    #[inline]
    fn name(self, text: &str) -> &str {
        &text[self.start as usize..self.end as usize]
    }
}

// === impl PathRest ===

impl<'p> PathRest<'p> {
    /// Returns the first name, the array index that it spells, and the remaining parts.
    #[inline]
    pub fn split(self) -> Option<(&'p str, Option<u32>, Self)> {
        let (first, parts) = self.parts.split_first()?;
        let text = self.text;
        Some((first.name(text), first.index, Self { text, parts }))
    }

    #[inline]
    pub fn is_end(self) -> bool {
        self.parts.is_empty()
    }

    /// Returns whether no text remains: no part, or one that is empty, as after the dot of `a.`. To MongoDB's filters an
    /// array in this place is the end of the path.
    #[inline]
    pub fn is_blank(self) -> bool {
        self.as_str().is_empty()
    }

    /// Returns the remaining parts as text, with their dots.
    pub fn as_str(self) -> &'p str {
        let first = self.parts.first();
        first.map_or("", |first| &self.text[first.start as usize..])
    }

    /// Returns whether the next name consists only of digits, with or without leading zeros.
    pub fn is_number(self) -> bool {
        self.split().is_some_and(|(name, ..)| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
        })
    }
}

/// Returns the array index that a name spells: digits without a leading zero.
fn array_index(name: &str) -> Option<u32> {
    let bytes = name.as_bytes();
    if bytes.is_empty()
        || bytes.len() > 9
        || (bytes.len() > 1 && bytes.first() == Some(&b'0'))
        || !bytes.iter().all(u8::is_ascii_digit)
    {
        return None;
    }
    name.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_parts_and_some_parts_are_indexes() {
        assert_eq!(Path::parse("a.b").parts().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(Path::parse("a.10").index(1), Some(10));
        assert_eq!(Path::parse("a.-1").index(1), None);
    }
}
