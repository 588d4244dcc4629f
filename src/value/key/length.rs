//! Where a key ends: how readers of a compound key come to its later fields without decoding the values.

use super::{ARRAY, FALSE, MAX_KEY, MIN_KEY, NAN, NULL, TRUE, UNDEFINED};
use super::{
    BINARY, CODE, CODE_WITH_SCOPE, DATE, DB_POINTER, DOCUMENT, NEGATIVE, OBJECT_ID, POSITIVE,
    REGEX, TEXT, TIMESTAMP,
};

/// Returns the length of the key with which these bytes begin. Returns `None` if they do not begin with a whole key.
pub fn length(bytes: &[u8], descending: bool) -> Option<usize> {
    let mut rest = KeyBytes {
        bytes,
        at: 0,
        complement: if descending { 0xff } else { 0 },
    };
    rest.skip()?;
    Some(rest.at)
}

/// The bytes of a key. Those of a descending key are complemented.
struct KeyBytes<'a> {
    bytes: &'a [u8],
    at: usize,
    complement: u8,
}

// === impl KeyBytes ===

impl KeyBytes<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).map(|byte| byte ^ self.complement)
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn advance(&mut self, count: usize) -> Option<()> {
        self.at = self.at.checked_add(count)?;
        (self.at <= self.bytes.len()).then_some(())
    }

    /// Skips everything up to and with the next `end`.
    fn skip_to(&mut self, end: u8) -> Option<()> {
        let rest = self.bytes.get(self.at..)?;
        let end = end ^ self.complement;
        let found = rest.iter().position(|&byte| byte == end)?;
        self.advance(found + 1)
    }

    /// Skips bytes that follow their number.
    fn skip_counted(&mut self) -> Option<()> {
        let mut count = 0;
        for _ in 0..4 {
            count = count << 8 | usize::from(self.next()?);
        }
        self.advance(count)
    }

    fn skip(&mut self) -> Option<()> {
        match self.next()? {
            MIN_KEY | UNDEFINED | NULL | NAN | FALSE | TRUE | MAX_KEY => Some(()),
            POSITIVE => self.skip_number(0),
            NEGATIVE => self.skip_number(0xff),
            TEXT | CODE => self.skip_to(0),
            DOCUMENT => self.skip_document(),
            ARRAY => {
                while self.peek()? != 0 {
                    self.skip()?;
                }
                self.advance(1)
            }
            BINARY => {
                self.skip_counted()?;
                self.advance(1)
            }
            OBJECT_ID => self.advance(12),
            DATE | TIMESTAMP => self.advance(8),
            REGEX => {
                self.skip_to(0)?;
                self.skip_to(0)
            }
            DB_POINTER => self.skip_counted(),
            CODE_WITH_SCOPE => {
                self.skip_to(0)?;
                self.skip_document()
            }
            _ => None,
        }
    }

    /// Skips the magnitude of a number. `zero` is the complement of the body.
    fn skip_number(&mut self, zero: u8) -> Option<()> {
        self.advance(8)?;
        if self.next()? == zero {
            return Some(());
        }
        self.advance(2)?;
        self.skip_to(zero)
    }

    fn skip_document(&mut self) -> Option<()> {
        while self.next()? != 0 {
            self.skip_to(0)?;
            self.skip()?;
        }
        Some(())
    }
}
