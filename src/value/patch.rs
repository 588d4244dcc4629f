//! Changes of a document in place, which move no other bytes.

use smallvec::SmallVec;

/// A list of changes to the bytes of a document. Each change overwrites as many bytes as it has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Patch(SmallVec<[Piece; 2]>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    /// The offset in the document.
    at: u32,
    len: u8,
    bytes: [u8; Patch::WIDEST],
}

// === impl Patch ===

impl Patch {
    /// The most bytes that one piece can have. Every type of fixed width fits.
    pub const WIDEST: usize = 16;

    /// Returns whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds bytes to be written at `at`. Returns `None` if there are too many, or if `at` is too large.
    #[inline]
    pub fn put(&mut self, at: usize, new: &[u8]) -> Option<()> {
        let mut bytes = [0; Self::WIDEST];
        bytes.get_mut(..new.len())?.copy_from_slice(new);
        self.0.push(Piece {
            at: u32::try_from(at).ok()?,
            len: new.len() as u8,
            bytes,
        });
        Some(())
    }

    /// Overwrites the bytes of a document.
    #[inline]
    pub fn apply(&self, document: &mut [u8]) {
        for piece in &self.0 {
            let new = &piece.bytes[..usize::from(piece.len)];
            let at = piece.at as usize;
            if let Some(old) = document.get_mut(at..at + new.len()) {
                old.copy_from_slice(new);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_replaces_pieces() {
        let mut patch = Patch::default();
        assert!(patch.is_empty());
        patch.put(1, b"xy").unwrap();
        patch.put(5, b"z").unwrap();
        // Bytes that are too many are not added.
        assert_eq!(patch.put(0, &[0; Patch::WIDEST + 1]), None);
        let mut document = *b"abcdef";
        patch.apply(&mut document);
        assert_eq!(&document, b"axydez");
        let mut short = *b"abcd";
        patch.apply(&mut short);
        assert_eq!(&short, b"axyd");
    }
}
