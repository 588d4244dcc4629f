//! A list of named entries, in insertion order.

use ahash::AHashMap;

/// Lists up to this length are searched linearly.
const FEW: usize = 12;

/// A list of entries that are found by name.
///
/// A lookup stays cheap in a long list. A client may send a hundred thousand fields, and a linear search for each of them
/// would take hours.
#[derive(Debug)]
pub struct Named<T> {
    entries: Vec<(Box<str>, T)>,
    /// Positions by name, built only for a list longer than [`FEW`]. Most lists are empty, and even an empty map costs a
    /// little.
    index: Option<AHashMap<Box<[u8]>, usize>>,
}

// === impl Named ===

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            index: None,
        }
    }
}

impl<T> Named<T> {
    /// Returns the position of the first entry with that name.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(name).copied(),
            None => self
                .entries
                .iter()
                .position(|(known, _)| known.as_bytes() == name),
        }
    }

    /// Appends an entry and returns its position. The caller checks that the name is new.
    pub fn push(&mut self, name: &str, entry: T) -> usize {
        let at = self.entries.len();
        self.entries.push((name.into(), entry));
        if at >= FEW {
            // The first time, all entries enter the index. Later, only the newest one does.
            let new = if self.index.is_none() { 0 } else { at };
            let index = self.index.get_or_insert_default();
            for (at, (name, _)) in self.entries.iter().enumerate().skip(new) {
                index.entry(name.as_bytes().into()).or_insert(at);
            }
        }
        at
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn at(&self, position: usize) -> Option<(&str, &T)> {
        let (name, entry) = self.entries.get(position)?;
        Some((name, entry))
    }

    pub fn at_mut(&mut self, position: usize) -> Option<&mut T> {
        self.entries.get_mut(position).map(|(_, entry)| entry)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.entries.iter().map(|(name, entry)| (&**name, entry))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().map(|(_, entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_maps_find_the_same() {
        let mut named = Named::default();
        for n in 0..100 {
            for known in 0..n {
                assert_eq!(named.find(format!("n{known}").as_bytes()), Some(known));
            }
            let name = format!("n{n}");
            assert_eq!(named.find(name.as_bytes()), None);
            assert_eq!(named.push(&name, n), n);
        }
        assert!(named.iter().map(|(_, n)| *n).eq(0..100));
    }
}
