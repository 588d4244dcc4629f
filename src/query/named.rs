//! A list of things by name, in the order in which they came.

use ahash::AHashMap;

/// Up to so many names are looked through one by one.
const FEW: usize = 12;

/// Finding one costs no more where there are a hundred thousand: a client may write so many fields, and to look through
/// all of them for each would take hours.
#[derive(Debug)]
pub struct Named<T> {
    entries: Vec<(Box<str>, T)>,
    /// By name, where there are too many to look through: most lists are empty, and a map costs a little to begin with.
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
    /// The place of the first one with that name.
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

    /// Adds one whose name is new, and returns its place.
    pub fn push(&mut self, name: &str, entry: T) -> usize {
        let at = self.entries.len();
        self.entries.push((name.into(), entry));
        if at >= FEW {
            // The first time all of them, from then on the newest.
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

    pub fn at(&self, place: usize) -> Option<(&str, &T)> {
        let (name, entry) = self.entries.get(place)?;
        Some((name, entry))
    }

    pub fn at_mut(&mut self, place: usize) -> Option<&mut T> {
        self.entries.get_mut(place).map(|(_, entry)| entry)
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
    fn few_and_many_are_found_alike() {
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
