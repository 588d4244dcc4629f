//! Size limits of documents.

use std::fmt::{Display, UpperHex};

use crate::error::{Code, Error, Result};

/// The largest document that can be stored, as hello announces it (`maxBsonObjectSize`).
pub const MAX_DOCUMENT: usize = 16 * 1024 * 1024;

/// The largest document inside the server, as in MongoDB: commands and replies need some room around the documents in them.
pub const MAX_INTERNAL_DOCUMENT: usize = MAX_DOCUMENT + 16 * 1024;

/// Refuses a size above the limit for documents inside the server.
#[inline]
pub fn check_size(size: usize) -> Result<()> {
    if size > MAX_INTERNAL_DOCUMENT {
        return Err(too_large(size));
    }
    Ok(())
}

/// The largest value inside a pipeline. MongoDB has no such limit: there, the memory of stages and accumulators is limited.
const MAX_COMPUTED: usize = 256 * 1024 * 1024;

/// Refuses a size above the limit for values inside a pipeline. What leaves the pipeline is checked with [`check_size`].
#[inline]
pub fn check_computed(size: usize) -> Result<()> {
    if size > MAX_COMPUTED {
        return Err(too_large(size));
    }
    Ok(())
}

/// Returns the error for an invalid document size, including a negative size from the wire.
pub fn too_large(size: impl Display + UpperHex) -> Error {
    Error::new(
        Code::BSONObjectTooLarge,
        format!(
            "BSONObj size: {size} (0x{size:X}) is invalid. Size must be between 0 and {MAX_INTERNAL_DOCUMENT}(16MB)"
        ),
    )
}
