//! A document as its bytes, and the iterator over them.
//!
//! ```text
//! document = int32 length (of all of it) · element* · 0x00
//! element  = tag · name · 0x00 · value
//! ```

use super::{ValueRef, types};

/// The bytes of a document, or of an array, which is a document with the names "0", "1", ...
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Doc<'a>(&'a [u8]);

/// A field of a document.
#[derive(Clone, Copy)]
pub struct Elem<'a> {
    name: &'a [u8],
    pub value: ValueRef<'a>,
}

/// An iterator over the fields in order. It ends at the first byte that cannot be read as a field.
#[derive(Clone)]
pub struct Iter<'a> {
    rest: &'a [u8],
}

/// Eight bytes that are examined together.
#[derive(Clone, Copy)]
pub(super) struct Word(u64);

/// The bytes of the empty document.
pub(super) const EMPTY: &[u8] = &[5, 0, 0, 0, 0];

// === impl Doc ===

impl<'a> Doc<'a> {
    pub const EMPTY: Doc<'static> = Doc(EMPTY);

    /// Takes bytes that were validated or that a builder has written.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns the elements without the length prefix and the terminating zero, so that they can be appended to another
    /// document.
    #[inline]
    pub fn body(self) -> &'a [u8] {
        let end = self.0.len().saturating_sub(1);
        self.0.get(4..end).unwrap_or_default()
    }

    #[inline]
    pub fn iter(self) -> Iter<'a> {
        Iter { rest: self.body() }
    }

    /// Returns the fields from `offset` bytes into the [`Doc::body`] on, where an earlier walk stopped.
    pub fn iter_from(self, offset: usize) -> Iter<'a> {
        Iter {
            rest: self.body().get(offset..).unwrap_or_default(),
        }
    }

    pub fn is_empty(self) -> bool {
        self.body().is_empty()
    }

    /// Counts the fields, which walks over all of them.
    pub fn count(self) -> usize {
        self.iter().count()
    }

    /// Returns the value of the first field of that name, or a `Missing` value if there is none.
    #[inline]
    pub fn get(self, name: impl AsRef<[u8]>) -> ValueRef<'a> {
        self.find(name.as_ref()).unwrap_or(ValueRef::MISSING)
    }

    /// Finds a field. This is the inner loop of every scan.
    #[inline]
    fn find(self, name: &[u8]) -> Option<ValueRef<'a>> {
        let mut rest = self.body();
        loop {
            let (&tag, after) = rest.split_first()?;
            let end = zero_at(after)?;
            let value = after.get(end + 1..)?;
            let (ty, width) = types::type_and_width(tag, value)?;
            if after.get(..end)? == name {
                return Some(ValueRef::new(ty, value.get(..width)?));
            }
            rest = value.get(width..)?;
        }
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
    /// Returns a field of the same name with another value.
    pub fn with_value(self, value: ValueRef<'a>) -> Self {
        Self { value, ..self }
    }

    #[inline]
    pub fn name_bytes(&self) -> &'a [u8] {
        self.name
    }

    /// Returns the name as text. Names were validated on arrival; one that is not valid UTF-8 reads as empty.
    #[inline]
    pub fn name(&self) -> &'a str {
        std::str::from_utf8(self.name).unwrap_or_default()
    }
}

// === impl Iter ===

impl<'a> Iter<'a> {
    /// Creates an iterator over consecutive elements, such as an earlier [`Iter::rest`].
    pub fn over(elements: &'a [u8]) -> Self {
        Self { rest: elements }
    }

    /// Returns the bytes from the next element to the last.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Elem<'a>;

    #[inline]
    fn next(&mut self) -> Option<Elem<'a>> {
        let (&tag, after) = self.rest.split_first()?;
        let end = zero_at(after)?;
        let (name, value) = after.split_at_checked(end)?;
        let value = value.get(1..)?;
        let (ty, width) = types::type_and_width(tag, value)?;
        let (data, rest) = value.split_at_checked(width)?;
        self.rest = rest;
        Some(Elem {
            name,
            value: ValueRef::new(ty, data),
        })
    }
}

// === impl Word ===

impl Word {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;

    #[inline]
    pub(super) fn new(bytes: &[u8; 8]) -> Self {
        Self(u64::from_le_bytes(*bytes))
    }

    /// Returns the position of the first zero byte.
    #[inline]
    pub(super) fn zero(self) -> Option<usize> {
        let zeros = self.0.wrapping_sub(Self::ONES) & !self.0 & Self::HIGHS;
        (zeros != 0).then(|| zeros.trailing_zeros() as usize / 8)
    }

    /// Returns whether the first `n` bytes are ASCII.
    #[inline]
    pub(super) fn is_ascii(self, n: usize) -> bool {
        let mask = 1u64
            .checked_shl(8 * n as u32)
            .map_or(u64::MAX, |bit| bit - 1);
        self.0 & Self::HIGHS & mask == 0
    }
}

/// Returns the position of the first zero. Names are short, so testing a word at a time is faster than a call to memchr.
#[inline]
pub(super) fn zero_at(bytes: &[u8]) -> Option<usize> {
    let start = match bytes.first_chunk() {
        Some(chunk) => match Word::new(chunk).zero() {
            Some(zero) => return Some(zero),
            None => 8,
        },
        None => 0,
    };
    Some(start + bytes.get(start..)?.iter().position(|&b| b == 0)?)
}
