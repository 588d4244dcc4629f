//! A failed statement of a write command whose reply is `ok: 1`.

use super::Error;

/// An entry of `writeErrors`: which statement failed, and the error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteError {
    pub index: usize,
    pub error: Error,
}
