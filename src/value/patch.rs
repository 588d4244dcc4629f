//! Changes to a document that leave everything at its place.

use smallvec::SmallVec;

/// Pieces of bytes that take the place of as many others in a document's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Patch(SmallVec<[Piece; 2]>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    /// How many bytes into the document.
    at: u32,
    len: u8,
    bytes: [u8; Patch::WIDEST],
}

// === impl Patch ===

impl Patch {
    /// What one piece can hold: every type of fixed width fits.
    pub const WIDEST: usize = 16;

    /// Nothing changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds bytes that are to stand at `at`. `None`: they are too many, or too far back.
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

    /// Changes a document's bytes.
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
    fn pieces_take_the_place_of_others() {
        let mut patch = Patch::default();
        assert!(patch.is_empty());
        patch.put(1, b"xy").unwrap();
        patch.put(5, b"z").unwrap();
        // What does not fit in is not put in.
        assert_eq!(patch.put(0, &[0; Patch::WIDEST + 1]), None);
        let mut document = *b"abcdef";
        patch.apply(&mut document);
        assert_eq!(&document, b"axydez");
        let mut short = *b"abcd";
        patch.apply(&mut short);
        assert_eq!(&short, b"axyd");
    }
}
