//! A document as its bytes, and the walker over them.
//!
//! ```text
//! document = int32 length (of all of it) · element* · 0x00
//! element  = tag · name · 0x00 · value
//! ```

use super::{Type, ValueRef};

/// The bytes of a document (or of an array, which is a document with the names "0", "1", ...).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Doc<'a>(&'a [u8]);

/// One field of a document.
#[derive(Clone, Copy)]
pub struct Elem<'a> {
    name: &'a [u8],
    pub value: ValueRef<'a>,
}

/// The fields in their order. Ends at the first byte that cannot be read as a field.
#[derive(Clone)]
pub struct Iter<'a> {
    rest: &'a [u8],
}

/// The empty document.
pub(super) const EMPTY: &[u8] = &[5, 0, 0, 0, 0];

// === impl Doc ===

impl<'a> Doc<'a> {
    pub const EMPTY: Doc<'static> = Doc(EMPTY);

    /// Takes bytes that the validator has passed or that a builder has written.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The elements without the length in front and the end behind: what another document can take in whole.
    #[inline]
    pub fn body(self) -> &'a [u8] {
        let end = self.0.len().saturating_sub(1);
        self.0.get(4..end).unwrap_or_default()
    }

    #[inline]
    pub fn iter(self) -> Iter<'a> {
        Iter { rest: self.body() }
    }

    pub fn is_empty(self) -> bool {
        self.body().is_empty()
    }

    /// How many fields there are (a walk).
    pub fn count(self) -> usize {
        self.iter().count()
    }

    /// The first field of that name; a `Missing` value where there is none.
    #[inline]
    pub fn get(self, name: impl AsRef<[u8]>) -> ValueRef<'a> {
        let name = name.as_ref();
        self.iter()
            .find(|elem| elem.name == name)
            .map_or(ValueRef::MISSING, |elem| elem.value)
    }

    pub fn has(self, name: impl AsRef<[u8]>) -> bool {
        !self.get(name).is_missing()
    }

    pub fn first(self) -> Option<Elem<'a>> {
        self.iter().next()
    }
}

impl std::fmt::Debug for Doc<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|elem| (elem.name(), elem.value)))
            .finish()
    }
}

impl<'a> IntoIterator for Doc<'a> {
    type Item = Elem<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

// === impl Elem ===

impl<'a> Elem<'a> {
    #[inline]
    pub fn name_bytes(&self) -> &'a [u8] {
        self.name
    }

    /// The name as text. Names are checked at the door; what was never checked reads as an empty name.
    #[inline]
    pub fn name(&self) -> &'a str {
        std::str::from_utf8(self.name).unwrap_or_default()
    }
}

// === impl Iter ===

impl<'a> Iter<'a> {
    /// The bytes not yet walked: from the next element to the last.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Elem<'a>;

    #[inline]
    fn next(&mut self) -> Option<Elem<'a>> {
        let (&tag, rest) = self.rest.split_first()?;
        let ty = Type::from_tag(tag)?;
        // Names are short: a plain loop beats a call to memchr here.
        let end = rest.iter().position(|&b| b == 0)?;
        let name = rest.get(..end)?;
        let rest = rest.get(end + 1..)?;
        let width = ty.width(rest)?;
        let (data, rest) = rest.split_at_checked(width)?;
        self.rest = rest;
        Some(Elem {
            name,
            value: ValueRef::new(ty, data),
        })
    }
}
